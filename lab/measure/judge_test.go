package measure

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
)

// preset reads a GPU preset of package configs.
func preset(t testing.TB, name string) *Target {
	t.Helper()
	var target Target
	for _, folder := range []string{"gpus", "fits"} { // the fit has the GPU's name
		if _, err := toml.DecodeFile(filepath.Join("..", "..", "configs", folder, name+".toml"), &target); err != nil {
			t.Fatal(err)
		}
	}
	target.Link = pcie.Typical(target.GPU.PCIeGeneration)
	return &target
}

func h200(t testing.TB) *Target { return preset(t, "h200-sxm") }

// suite returns a preset with a suite's attention kernels.
func suite(t testing.TB, name string, s gpu.Suite) *Target {
	t.Helper()
	target := preset(t, name)
	target.GPU.Suite = s
	return target
}

// models reads the shape of a model from package configs.
func models(name string) (*llm.Model, error) {
	var file struct {
		Model llm.Model `toml:"model"`
	}
	_, err := toml.DecodeFile(filepath.Join("..", "..", "configs", "models", name+".toml"), &file)
	return &file.Model, err
}

func read(t testing.TB, path string) map[Kind][]Sample {
	t.Helper()
	return ByKind(files(t, path))
}

// files reads files or folders below testdata; patterns are allowed.
func files(t testing.TB, patterns ...string) (all []Sample) {
	t.Helper()
	for _, p := range patterns {
		paths, err := filepath.Glob(p)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", p, err)
		}
		for _, path := range paths {
			samples, err := Read(path, models)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, samples...)
		}
	}
	return all
}

// bound is the limit on a kind's errors.
type bound struct {
	kind      Kind
	region    string // "" for all
	mape, p90 float64
}

func checkBounds(t *testing.T, target *Target, samples map[Kind][]Sample, bounds []bound) {
	t.Helper()
	for _, b := range bounds {
		in := samples[b.kind]
		for _, r := range Regions(b.kind) {
			if r.Name == b.region {
				in = r.Select(in)
			}
		}
		e := target.Judge(in)
		t.Logf("%s %s: %d points, mean %.3f, median %.3f, p90 %.3f, bias %+.3f", b.kind, b.region, e.Points, e.MAPE, e.Median, e.P90, e.Bias)
		if e.Points == 0 || e.MAPE > b.mape || e.P90 > b.p90 {
			t.Errorf("%s %s: %d points, mean %.3f, p90 %.3f, want at most %.2f and %.2f", b.kind, b.region, e.Points, e.MAPE, e.P90, b.mape, b.p90)
		}
	}
}

// TestH200 judges the preset on the kernels it was fitted to: PyTorch's kernels, run alone.
func TestH200(t *testing.T) {
	samples := read(t, "testdata/h200")
	target := suite(t, "h200-sxm", gpu.SuitePyTorch)
	target.GPU.Collective.Method = gpu.AllReduceNCCL // the measured method
	checkBounds(t, target, samples, []bound{
		{GEMM, "", 0.10, 0.25}, {Decode, "", 0.10, 0.25}, {Prefill, "", 0.10, 0.25},
		{PCIe, "1 MiB and more", 0.02, 0.05}, {PCIe, "", 0.10, 0.25}, {Elementwise, "", 0.10, 0.25},
	})
}

// TestLaunchHides: an all-reduce called alone takes as long as its launch, which hides the transfer
// that graphs show; for larger ones both are equal.
func TestLaunchHides(t *testing.T) {
	target := h200(t)
	target.GPU.Collective.Method = gpu.AllReduceNCCL // the measured method
	hidden := func(s *Sample) bool { return s.bytes <= 2*units.MiB }
	samples := files(t, "testdata/h200/all_reduce.csv")
	for _, p := range target.Judge(only(samples, hidden)).Relative {
		if p.Error > 0 || p.Sample.Seconds < 32e-6 || p.Sample.Seconds > 47e-6 {
			t.Errorf("%s: measured %g s, predicted %g", p.Sample.String(), p.Sample.Seconds, p.Predicted)
		}
	}
	e := target.Judge(only(samples, func(s *Sample) bool { return !hidden(s) }))
	if e.Points != 14 || e.MAPE > 0.08 || e.P90 > 0.15 {
		t.Errorf("%d points, mean %.3f, p90 %.3f", e.Points, e.MAPE, e.P90)
	}
}

// TestExtend judges the preset on the chunks over caches that it was fitted to. For prompts of up to 128
// tokens, where the fastest kernel counts, the reference is the time with the best number of parts.
func TestExtend(t *testing.T) {
	checkBounds(t, h200(t), read(t, "testdata/h200_extend"), []bound{{Extend, split, 0.04, 0.08}, {Extend, unsplit, 0.05, 0.16}})
	// The fit has not seen the other heads or the other GPU.
	for _, c := range []struct {
		gpu, folder string
		rows        int
		median, p90 float64
	}{{"h200-sxm", "h200_extend", 45, 0.03, 0.08}, {"h200-sxm", "h200_extend_unseen", 107, 0.05, 0.10}, {"h100-sxm", "h100_extend", 87, 0.05, 0.10}} {
		target := preset(t, c.gpu)
		var errors []float64
		for _, s := range files(t, "testdata/"+c.folder) {
			if s.op == split && s.chunk <= 128 {
				errors = append(errors, math.Abs(target.GPU.PrefillAttentionCost(1, s.chunk, s.finished, s.heads).Seconds/s.Seconds-1))
			}
		}
		slices.Sort(errors)
		if n := len(errors); n != c.rows || errors[n/2] > c.median || errors[n*9/10] > c.p90 {
			t.Errorf("%s: %d prompts, median error %.3f, 90th percentile %.3f", c.folder, n, errors[n/2], errors[n*9/10])
		} else {
			t.Logf("%s: %d prompts, median error %.3f, 90th percentile %.3f", c.folder, n, errors[n/2], errors[n*9/10])
		}
	}
}

// TestPageSparse judges the preset on the page-sparse kernels that it was fitted to, and decode
// attention on the dense ones measured with them, to which it was not.
func TestPageSparse(t *testing.T) {
	checkBounds(t, suite(t, "h200-sxm", gpu.SuitePyTorch), ByKind(files(t, "testdata/h200_iterations/sparse_attention.csv")), []bound{
		{PageSparse, scoreOp, 0.05, 0.12}, {PageSparse, topKOp, 0.055, 0.12}, {PageSparse, attentionOp, 0.03, 0.06}, {Decode, "", 0.08, 0.12},
	})
}

// TestA100 judges the preset on published kernel times.
func TestA100(t *testing.T) {
	target := preset(t, "a100-sxm-80gb")
	checkBounds(t, target, ByKind(files(t, "testdata/a100_sxm/gemm.csv", "testdata/a100_sxm/*_attention.csv", "testdata/a100_sxm/all_reduce_graph.csv")), []bound{
		{GEMM, "", 0.10, 0.25}, {Decode, "", 0.10, 0.25}, {Prefill, "", 0.10, 0.25}, {AllReduce, "", 0.10, 0.25},
	})
	target.GPU.Collective.Method = gpu.AllReduceNCCL
	checkBounds(t, target, ByKind(files(t, "testdata/a100_sxm/all_reduce_nccl.csv")), []bound{{AllReduce, "above 1 MB", 0.15, 0.25}})
}

func TestStatistics(t *testing.T) {
	target := h200(t)
	var samples []Sample
	// Predicted over measured: 1.1, 0.9, 1.2, and eight exact ones.
	for _, factor := range []float64{1.1, 0.9, 1.2, 1, 1, 1, 1, 1, 1, 1} {
		s := Sample{kind: GEMM, m: 64, n: 4096, k: 4096}
		s.Seconds = target.Predict(&s) / factor
		samples = append(samples, s)
	}
	e := target.Judge(samples)
	for name, c := range map[string][2]float64{
		"mape": {e.MAPE, 0.04}, "bias": {e.Bias, 0.02}, "median": {e.Median, 0}, "p90": {e.P90, 0.1},
	} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, c[0], c[1])
		}
	}
	if w := e.Worst(2); len(w) != 2 || math.Abs(w[0].Error-0.2) > 1e-9 || math.Abs(w[1].Error) < 0.099 {
		t.Errorf("worst: %+v", w)
	}
	if empty := target.Judge(nil); empty.Points != 0 || empty.MAPE != 0 || empty.P90 != 0 {
		t.Errorf("no samples: %+v", empty)
	}
}

// TestRegionsPartition: each sample lies in exactly one region of its kind.
func TestRegionsPartition(t *testing.T) {
	for kind, samples := range read(t, "testdata/h200") {
		for i := range samples {
			in := 0
			for _, r := range Regions(kind) {
				if r.in(&samples[i]) {
					in++
				}
			}
			if in != 1 {
				t.Errorf("%v lies in %d regions", samples[i].String(), in)
			}
		}
	}
}

// TestRegionsAreWhatTheySay: a region's name describes its samples, and every sample is in one
// region.
func TestRegionsAreWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		sample Sample
		region string
	}{
		{Sample{kind: GEMM, m: 1}, "m = 1"}, {Sample{kind: GEMM, m: 2}, "1 < m <= 32"}, {Sample{kind: GEMM, m: 32}, "1 < m <= 32"},
		{Sample{kind: GEMM, m: 33}, "32 < m <= 256"}, {Sample{kind: GEMM, m: 256}, "32 < m <= 256"}, {Sample{kind: GEMM, m: 257}, "m > 256"},
		{Sample{kind: Decode, context: 1023}, "context < 1024"}, {Sample{kind: Decode, context: 1024}, "context >= 1024"},
		{Sample{kind: Prefill, chunk: 511}, "chunk < 512"}, {Sample{kind: Prefill, chunk: 512}, "chunk >= 512"},
		{Sample{kind: AllReduce, bytes: 99_999}, "below 0.1 MB"}, {Sample{kind: AllReduce, bytes: 100_000}, "0.1 to 1 MB"},
		{Sample{kind: AllReduce, bytes: 1_000_000}, "0.1 to 1 MB"}, {Sample{kind: AllReduce, bytes: 1_000_001}, "above 1 MB"},
		{Sample{kind: PCIe, bytes: 1<<20 - 1}, "below 1 MiB"}, {Sample{kind: PCIe, bytes: 1 << 20}, "1 MiB and more"},
		{Sample{kind: PageSparse, op: "topk"}, "topk"}, {Sample{kind: PageSparse, op: "attention"}, "attention"},
		{Sample{kind: Extend, op: "split"}, "split"}, {Sample{kind: Extend, op: "unsplit"}, "unsplit"},
		{Sample{kind: Elementwise, op: "gelu"}, "gelu"}, {Sample{kind: Elementwise, op: "copy"}, "copy"},
	} {
		var in []string
		for _, r := range Regions(c.sample.kind) {
			if len(r.Select([]Sample{c.sample})) == 1 {
				in = append(in, r.Name)
			}
		}
		if len(in) != 1 || in[0] != c.region {
			t.Errorf("%+v is in %q, want %q", c.sample, in, c.region)
		}
	}
}
