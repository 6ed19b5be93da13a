package measure

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestFitAll: measured kinds are fitted, in the order of kinds, with the same result twice; others
// keep their values.
func TestFitAll(t *testing.T) {
	deep.Heavy(t)
	samples := files(t, "testdata/h100_graph/gemm.csv", "testdata/h100_server/duty.csv", "testdata/h100_server/iterations_tp1.csv", "testdata/h100/pcie.csv")
	fit := func() (*Target, []Fitted) {
		target := preset(t, "a100-sxm-80gb")
		fitted, err := target.FitAll(samples, Options{Evaluations: 15})
		if err != nil {
			t.Fatal(err)
		}
		return target, fitted
	}
	target, fitted := fit()
	var kinds []Kind
	for _, f := range fitted {
		kinds = append(kinds, f.Kind)
		if f.Samples == 0 || f.HeldOut != (f.Held.Points > 0) || f.HeldOut && f.Held.Points != f.Samples {
			t.Errorf("%s: %d samples, %d held out", f.Kind, f.Samples, f.Held.Points)
		}
		if one := f.Kind == DecodeIteration || f.Kind == PrefillIteration; f.HeldOut == one { // they are of one model
			t.Errorf("%s: held out %v", f.Kind, f.HeldOut)
		}
	}
	if want := []Kind{GEMM, PCIe, DecodeIteration, PrefillIteration, IterationEnergy, Power}; !slices.Equal(kinds, want) {
		t.Errorf("fitted %v, want %v", kinds, want)
	}
	if errs := input.Faults(&target.GPU); len(errs) > 0 {
		t.Errorf("the fit left the valid range: %v", errs[0])
	}
	base := preset(t, "a100-sxm-80gb").GPU
	got := target.GPU
	if got.MatMul == base.MatMul || got.Power == base.Power || got.Fused == base.Fused {
		t.Error("products, power or small kernels did not move")
	}
	if got.Decode != base.Decode || got.Prefill != base.Prefill || got.Collective != base.Collective || got.PageSparse != base.PageSparse {
		t.Error("what was not measured moved")
	}
	if again, more := fit(); again.GPU != target.GPU || len(more) != len(fitted) {
		t.Error("a second fit differs")
	}
}

// TestFitAllMakesPresets fits all measurements of an H200 from generic values, and finds a GPU
// within a tenth of the preset's errors.
func TestFitAllMakesPresets(t *testing.T) {
	if !deep.Long() {
		return
	}
	for _, c := range []struct {
		suite gpu.Suite
		files []string
	}{
		{gpu.SuitePyTorch, []string{"h200/*.csv", "h200_graph/gemm.csv", "h200_graph/*_pytorch.csv", "h200_iterations/*.csv", "h200_server/duty.csv", "h200_server/all_reduce_graph*.csv"}},
		{gpu.SuiteServer, []string{"h200/gemm.csv", "h200_graph/gemm.csv", "h200_graph/*_attention.csv", "h200_server/*.csv"}},
	} {
		for i, f := range c.files {
			c.files[i] = "testdata/" + f
		}
		samples := files(t, c.files...)
		made, known := suite(t, "h200-sxm", c.suite), suite(t, "h200-sxm", c.suite)
		forget(made, slices.DeleteFunc(Kinds(), func(k Kind) bool { return k == Small })...) // only tables of servers have these
		if _, err := made.FitAll(samples, Options{}); err != nil {
			t.Fatal(err)
		}
		for kind, s := range ByKind(samples) {
			a, b := made.Judge(s), known.Judge(s)
			t.Logf("%s %s: fit %.4f, preset %.4f", c.suite, kind, a.MAPE, b.MAPE)
			if kind != AllReduce && a.MAPE > 1.1*b.MAPE+0.002 {
				t.Errorf("%s %s: fit %.4f, preset %.4f", c.suite, kind, a.MAPE, b.MAPE)
			}
		}
	}
}

// TestWeights: samples in a graph weigh three times, and energies of single kernels twice.
func TestWeights(t *testing.T) {
	target := h200(t)
	sample := func(where Condition, factor float64) Sample {
		s := Sample{kind: GEMM, m: 64, n: 4096, k: 4096, where: where}
		s.Seconds = target.Predict(&s) / factor
		return s
	}
	const e, e2 = 2.718281828459045, 7.38905609893065
	if got := target.Loss([]Sample{sample(Alone, e), sample(InGraph, e2)}); got < 1.75-1e-9 || got > 1.75+1e-9 {
		t.Errorf("a loss of 1 alone and one of 2 in a graph: %g, want 7/4", got)
	}
	for s, want := range map[*Sample]float64{
		{kind: AllReduce, where: InGraph}: 1, {kind: Power}: 2, {kind: IterationEnergy}: 1, {kind: Decode, where: Sustained}: 1,
	} {
		if got := s.weight(); got != want {
			t.Errorf("%+v weighs %g, want %g", s, got, want)
		}
	}
}
