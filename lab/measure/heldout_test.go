package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
)

// forget resets the parameters of kinds to their start, so that a fit cannot inherit a preset's
// knowledge of held-out rows.
func forget(t *Target, kinds ...Kind) {
	for _, kind := range kinds {
		for _, p := range parameters(kind) {
			p.set(t, p.start)
		}
	}
}

// quickHeldOut are the measurements that TestHeldOut fits in a quick run.
const quickHeldOut = "h200_extend/*.csv"

// TestHeldOut refits kernels without the shapes that judge them. Shapes are n and k of products,
// heads of attention, and kernels and widths of others. The aim is 8% on average and 25% for nine
// of ten.
func TestHeldOut(t *testing.T) {
	deep.Heavy(t)
	// These miss it: a fit to one kind of heads says little about another's chunks of 16 and 64
	// tokens; one to two widths of norms, about a third; one to two GPUs, about four.
	missed := map[string][2]float64{
		"h200-sxm pytorch prefill_attention": {0.085, 0.25}, "h100-sxm server elementwise": {0.09, 0.31}, "h200-sxm server all_reduce": {0.13, 0.28},
		"a100-sxm-80gb server gemm": {0.083, 0.25}, // products of one row: no matrix-vector kernels
	}
	for _, c := range []struct {
		gpu, files string
		suite      gpu.Suite
		kinds      []Kind
		long       bool
	}{
		{"h200-sxm", "h200/gemm.csv h200/elementwise.csv h200_graph/gemm.csv", gpu.SuiteServer, []Kind{GEMM, Elementwise}, false},
		{"h200-sxm", "h200_server/*_attention.csv h200_graph/*_attention.csv", gpu.SuiteServer, []Kind{Decode, Prefill}, false},
		{"h200-sxm", "h200_extend/*.csv", gpu.SuiteServer, []Kind{Extend}, false},
		{"h200-sxm", "h200/*_attention.csv h200_graph/*_pytorch.csv", gpu.SuitePyTorch, []Kind{Decode, Prefill}, false},
		{"h200-sxm", "h200_iterations/sparse_attention.csv", gpu.SuiteServer, []Kind{PageSparse}, false},
		{"h200-sxm", "h200_server/all_reduce_graph*.csv", gpu.SuiteServer, []Kind{AllReduce}, true},
		{"h100-sxm", "h100/gemm.csv h100/elementwise.csv h100_graph/gemm.csv", gpu.SuiteServer, []Kind{GEMM, Elementwise}, true},
		{"h100-sxm", "h100_server/*_attention.csv h100_graph/*_attention.csv", gpu.SuiteServer, []Kind{Decode, Prefill}, true},
		{"h100-sxm", "h100/decode_attention.csv", gpu.SuitePyTorch, []Kind{Decode}, true},
		{"a100-sxm-80gb", "a100_sxm/gemm.csv a100_sxm/*_attention.csv", gpu.SuiteServer, []Kind{GEMM, Decode, Prefill}, true},
	} {
		if c.long && !deep.Long() || c.files != quickHeldOut && !deep.On() {
			continue
		}
		target := suite(t, c.gpu, c.suite)
		if d := &target.GPU.Decode; c.gpu == "a100-sxm-80gb" { // vLLM's FlashAttention-2 was measured; the preset's splits all contexts
			d.SplitMinGroup, d.SplitLimit, d.WaveQuantization, d.Split = 2, 1.6, true, gpu.SplitFixed
		}
		var paths []string
		for _, f := range strings.Fields(c.files) {
			paths = append(paths, "testdata/"+f)
		}
		samples := files(t, paths...)
		for _, kind := range c.kinds {
			forget(target, kind)
			held, ok, err := target.FitHeldOut(kind, kernelSamples(kind, samples), Options{Evaluations: deep.Of(250, 250, 0), MaxSamples: deep.Of(120, 120, 0)})
			if err != nil || !ok {
				t.Fatalf("%s, %s: %v, %v", c.gpu, kind, ok, err)
			}
			t.Logf("%s, %s, %s: held out %d, mean %.3f, median %.3f, p90 %.3f", c.gpu, c.suite, kind, held.Points, held.MAPE, held.Median, held.P90)
			bound, ok := missed[fmt.Sprintf("%s %s %s", c.gpu, c.suite, kind)]
			if !ok {
				bound = [2]float64{0.08, 0.25}
			}
			if held.MAPE > bound[0] || held.P90 > bound[1] {
				t.Errorf("%s, %s, %s: mean %.3f, p90 %.3f, want at most %v", c.gpu, c.suite, kind, held.MAPE, held.P90, bound)
			}
		}
	}
}

// iterationsOf returns the iterations that were measured on a GPU, in both suites.
func iterationsOf(t *testing.T, dir string) []Sample {
	t.Helper()
	rows := files(t, dir+"_iterations/iterations*.csv")
	for i := range rows {
		rows[i].suite = gpu.SuitePyTorch
	}
	for _, s := range files(t, dir+"_server/iterations*.csv") {
		s.suite = gpu.SuiteServer
		rows = append(rows, s)
	}
	return rows
}

// seen says that a sample is fitted while a model is held out: samples of other models and, since
// only one model ran on four GPUs, every second row of it there.
func seen(s *Sample, model string) bool {
	return s.model.Name != model || s.model.TensorParallel == 4 && s.Line%2 == 0
}

// leftOut has the parameters that whole iterations determine, fitted to the other models and to
// sustained kernels.
func leftOut(t *testing.T, name, model string) *Target {
	t.Helper()
	dir := "testdata/" + strings.TrimSuffix(name, "-sxm")
	train := only(iterationsOf(t, dir), func(s *Sample) bool { return seen(s, model) })
	train = append(train, files(t, dir+"_graph/gemm.csv", dir+"_server/duty.csv")...)
	if name == "h200-sxm" {
		train = append(train, files(t, dir+"_iterations/energy.csv")...)
	}
	target := suite(t, name, gpu.SuitePyTorch)
	forget(target, Power, DecodeIteration)
	for _, step := range []fitStep{powerStep, iterationStep, powerStep} {
		fit, always := step.samples(train)
		if err := target.fit(step.parameters, append(always, fit...), Options{Evaluations: deep.Of(60, 60, 0), MaxSamples: deep.Of(130, 130, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	return target
}

// worstNamed are the points off by more than 15% with their model held out: none.
var worstNamed = []string{}

// TestModelsLeftOut judges iterations of each model by parameters fitted to the others.
func TestModelsLeftOut(t *testing.T) {
	deep.Only(t)
	bounds := map[Kind]float64{DecodeIteration: 0.04, PrefillIteration: 0.04, MixedIteration: 0.06, IterationEnergy: 0.05}
	// On H200s the suites ran on boards that draw different power for the same work
	// (TestBoardsDiffer): no parameters bring both within 5%.
	energyOfTwoBoards := 0.06
	for _, name := range []string{"h200-sxm", "h100-sxm"} {
		all := iterationsOf(t, "testdata/"+strings.TrimSuffix(name, "-sxm"))
		judged := map[Kind][]Point{}
		for _, model := range []string{"llama-2-7b", "llama-3-8b", "opt-13b", "opt-30b", "qwen2.5-32b", "opt-66b", "llama-3-70b"} {
			if !deep.Long() && model != "opt-66b" && model != "opt-13b" {
				continue
			}
			rows := only(all, func(s *Sample) bool { return s.model.Name == model && !seen(s, model) })
			if len(rows) == 0 {
				continue
			}
			target := leftOut(t, name, model)
			for kind, in := range ByKind(rows) {
				e := target.Judge(in)
				judged[kind] = append(judged[kind], e.Relative...)
				t.Logf("%s without %s on %d, %s: %d rows, mean %.3f, p90 %.3f, bias %+.3f", name, model, in[0].model.TensorParallel, kind, e.Points, e.MAPE, e.P90, e.Bias)
			}
		}
		for kind, points := range judged {
			e := pooled(points)
			worst := e.Worst(1)[0]
			t.Logf("%s, %s: %d rows, mean %.3f, p90 %.3f, bias %+.3f, worst %+.1f%% %s", name, kind, e.Points, e.MAPE, e.P90, e.Bias, 100*worst.Error, worst.Sample.String())
			bound := bounds[kind]
			if kind == IterationEnergy && name == "h200-sxm" {
				bound = energyOfTwoBoards
			}
			if e.MAPE > bound {
				t.Errorf("%s, %s: mean %.3f, want at most %.2f", name, kind, e.MAPE, bound)
			}
			for _, p := range points {
				if x := p.Sample.String(); !kind.Joules() && math.Abs(p.Error) > 0.15 && !slices.Contains(worstNamed, x) {
					t.Errorf("%s, %s: %+.1f%%", name, x, 100*p.Error)
				}
			}
		}
	}
}

// TestBoardsDiffer: iterations of one H200 that take the same time in both suites, within 3%, drew
// 8% more power in PyTorch's, on another board or day, and single rows differ by more: the energy
// counter is coarse. That part of an energy error is due to the measurement.
func TestBoardsDiffer(t *testing.T) {
	type row struct{ seconds, joules float64 }
	rows := map[gpu.Suite]map[string]row{gpu.SuitePyTorch: {}, gpu.SuiteServer: {}}
	for _, s := range iterationsOf(t, "testdata/h200") {
		r := rows[s.suite][s.String()]
		if s.kind.Joules() {
			r.joules = s.Seconds
		} else {
			r.seconds = s.Seconds
		}
		rows[s.suite][s.String()] = r
	}
	n, bias, apart := 0.0, 0.0, 0.0
	for name, a := range rows[gpu.SuitePyTorch] {
		if b, ok := rows[gpu.SuiteServer][name]; ok && a.joules > 0 && b.joules > 0 && math.Abs(a.seconds/b.seconds-1) < 0.03 {
			more := a.joules/a.seconds/(b.joules/b.seconds) - 1
			n, bias, apart = n+1, bias+more, apart+math.Abs(more)
		}
	}
	t.Logf("%.0f iterations: %+.3f, %.3f apart", n, bias/n, apart/n)
	if n < 20 || bias/n < 0.06 || apart/n < 0.08 {
		t.Errorf("%.0f iterations: %+.3f, %.3f apart: energies may be judged by 5%% again", n, bias/n, apart/n)
	}
}
