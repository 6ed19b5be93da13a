package measure

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// TestFitRecovers measures kernels of a known GPU: the fit, from its own start, finds a GPU whose kernels
// take the same times.
func TestFitRecovers(t *testing.T) {
	deep.Turn(t, 0, 2)
	measured := read(t, "testdata/h200")
	measured[Extend] = read(t, "testdata/h200_extend")[Extend]
	measured[PageSparse] = read(t, "testdata/h200_iterations")[PageSparse]
	for kind, samples := range measured {
		truth := h200(t)
		for i := range samples {
			samples[i].Seconds = truth.Predict(&samples[i])
		}
		start := h200(t)
		for _, p := range parameters(kind) {
			p.set(start, p.start)
		}
		before := start.Judge(samples).MAPE
		// Parameters belong to a form of kernels: a base of another form takes them over.
		g := &start.GPU
		g.MatMul.Model, g.Pointwise.Model, g.Collective.Model = gpu.AttAcc, gpu.AttAcc, gpu.AttAcc
		g.Prefill.Model, g.Decode.Model = gpu.AttAcc, gpu.AttAcc
		if kind == Extend {
			g.Extend = gpu.ExtendSpec{}
		}
		if err := start.fit(kind, samples, Options{Evaluations: deep.Of(500, 500, 1500), MaxSamples: deep.Of(150, 150, 0)}); err != nil {
			t.Fatal(err)
		}
		after := start.Judge(samples).MAPE
		t.Logf("%s: %.4f before, %.4f after", kind, before, after)
		if after > 0.02 || after > before/3 {
			t.Errorf("%s: mean error %.4f before the fit, %.4f after", kind, before, after)
		}
		if errs := input.Faults(&start.GPU); len(errs) > 0 {
			t.Errorf("%s: the fit left the valid range: %v", kind, errs[0])
		}
	}
}

// TestFoldsSeparateShapes: no shape is in two folds, and folds are balanced.
func TestFoldsSeparateShapes(t *testing.T) {
	samples := read(t, "testdata/h200")[GEMM]
	number, shapes := deal(samples)
	if shapes != 8 {
		t.Fatalf("%d shapes, want 8", shapes)
	}
	of := map[string]int{}
	for i := range samples {
		if n, seen := of[samples[i].shape()]; seen && n != number[i] {
			t.Errorf("%s has numbers %d and %d", samples[i].shape(), n, number[i])
		}
		of[samples[i].shape()] = number[i]
	}
}

func TestRobust(t *testing.T) {
	truth := h200(t)
	samples := read(t, "testdata/h200")[PCIe]
	for i := range samples {
		samples[i].Seconds = truth.Predict(&samples[i])
		if i%5 == 0 {
			samples[i].Seconds *= 10 // outliers
		}
	}
	fitted := h200(t)
	fitted.Link.Efficiency, fitted.Link.Latency = 0.5, units.Microsecond
	if err := fitted.fit(PCIe, samples, Options{}); err != nil {
		t.Fatal(err)
	}
	if got, want := fitted.Link.Efficiency, truth.Link.Efficiency; math.Abs(got/want-1) > 0.02 {
		t.Errorf("efficiency %.4f with a fifth of outliers, want %.4f", got, want)
	}
}

func TestWithoutLaunch(t *testing.T) {
	in := []Sample{
		{kind: AllReduce, bytes: 1024, Seconds: 36e-6}, {kind: AllReduce, bytes: 1 << 20, Seconds: 40e-6},
		{kind: AllReduce, bytes: 1024, Seconds: 30e-6}, {kind: GEMM, Seconds: 36e-6},
	}
	got := WithoutLaunch(in, 35*units.Microsecond, 512*units.KiB)
	for i, want := range []float64{1e-6 + 2.6e-6, 40e-6, 3e-6, 36e-6} {
		if math.Abs(got[i].Seconds-want) > 1e-12 {
			t.Errorf("sample %d: %g s, want %g", i, got[i].Seconds, want)
		}
	}
	if in[0].Seconds != 36e-6 {
		t.Error("the input changed")
	}
}

// TestOnePath: sizes up to the limit come from the fastest file, others from
// the one with the most samples.
func TestOnePath(t *testing.T) {
	at := func(file string, bytes units.Bytes, us float64) Sample {
		return Sample{kind: AllReduce, File: file, bytes: bytes, Seconds: us * 1e-6}
	}
	kept := onePath([]Sample{
		at("graph", 1000, 5), at("nccl", 1000, 50), at("graph", 1<<24, 80),
		at("nccl", 1<<24, 90), at("nccl", 1<<25, 180),
	}, units.MiB)
	want := []Sample{at("graph", 1000, 5), at("nccl", 1<<24, 90), at("nccl", 1<<25, 180)}
	if len(kept) != len(want) {
		t.Fatalf("kept %d, want %d", len(kept), len(want))
	}
	for i := range want {
		if kept[i] != want[i] {
			t.Errorf("kept %+v, want %+v", kept[i], want[i])
		}
	}
}

// TestNamedPath: if files name the method, other methods are not fitted.
func TestNamedPath(t *testing.T) {
	named := Sample{kind: AllReduce, op: "nccl", bytes: 1000, Seconds: 1e-5}
	other := Sample{kind: AllReduce, bytes: 1000, Seconds: 5e-6}
	if kept := onePath([]Sample{other, named, other}, units.MiB); len(kept) != 1 || kept[0] != named {
		t.Errorf("kept %+v", kept)
	}
}

// TestMethodsBySize: all-reduces without a named method are fitted with the method for their size.
func TestMethodsBySize(t *testing.T) {
	in := []Sample{{kind: AllReduce, bytes: 1 << 20}, {kind: AllReduce, bytes: 1<<20 + 1}, {kind: AllReduce, op: "nccl", bytes: 10}}
	got := methodsBySize(in, units.MiB)
	for i, want := range []string{"direct", "nccl", "nccl"} {
		if got[i].op != want {
			t.Errorf("sample %d: %q, want %q", i, got[i].op, want)
		}
	}
	if in[0].op != "" {
		t.Error("the input changed")
	}
}

func BenchmarkJudgeGEMM(b *testing.B) {
	target, samples := h200(b), read(b, "testdata/h200")[GEMM]
	for b.Loop() {
		target.Judge(samples)
	}
}
