package measure

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/pcie"
)

// preset reads a GPU preset of package configs.
func preset(t testing.TB, name string) *Target {
	t.Helper()
	var target Target
	if _, err := toml.DecodeFile(filepath.Join("..", "..", "configs", "gpus", name+".toml"), &target); err != nil {
		t.Fatal(err)
	}
	target.Link = pcie.Typical(target.GPU.PCIeGeneration)
	return &target
}

func h200(t testing.TB) *Target { return preset(t, "h200-sxm") }

func read(t testing.TB, path string) map[Kind][]Sample {
	t.Helper()
	samples, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return ByKind(samples)
}

// bound is what a kind's errors may be.
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

// TestH200 judges the preset on the kernels it was fitted to.
func TestH200(t *testing.T) {
	checkBounds(t, h200(t), read(t, "testdata/h200"), []bound{
		{GEMM, "", 0.10, 0.25}, {Decode, "", 0.10, 0.25}, {Prefill, "", 0.10, 0.25},
		{AllReduce, "above 1 MB", 0.15, 0.25}, {PCIe, "1 MiB and more", 0.02, 0.05}, {PCIe, "", 0.10, 0.25}, {Elementwise, "", 0.10, 0.25},
	})
}

// TestPageSparse judges the preset on the page-sparse kernels that it was fitted to, and
// decode attention on the dense ones beside them, to which it was not.
func TestPageSparse(t *testing.T) {
	checkBounds(t, h200(t), read(t, "testdata/h200_iterations"), []bound{
		{PageSparse, scoreOp, 0.05, 0.12}, {PageSparse, topKOp, 0.055, 0.12}, {PageSparse, attentionOp, 0.03, 0.06}, {Decode, "", 0.08, 0.12},
	})
}

// TestA100 judges the preset on published kernel times, which are not part of
// this repository.
func TestA100(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "gpu", "a100_sxm")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no measurements of the A100: %v", err)
	}
	checkBounds(t, preset(t, "a100-sxm-80gb"), read(t, dir), []bound{
		{GEMM, "", 0.10, 0.25}, {Decode, "", 0.10, 0.25}, {Prefill, "", 0.10, 0.25}, {AllReduce, "above 1 MB", 0.15, 0.25},
	})
}

func TestStatistics(t *testing.T) {
	target := h200(t)
	var samples []Sample
	// Predicted over measured: 1.1, 0.9, 1.2, and eight exact ones.
	for _, factor := range []float64{1.1, 0.9, 1.2, 1, 1, 1, 1, 1, 1, 1} {
		s := Sample{kind: GEMM, m: 64, n: 4096, k: 4096}
		s.Seconds = target.Cost(&s).Seconds / factor
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

// TestSizeUnits: the samples of a kind have one unit, so that a figure's axis has a meaning.
func TestSizeUnits(t *testing.T) {
	target := h200(t)
	for _, dir := range []string{"testdata/h200", "testdata/h200_iterations"} {
		for kind, samples := range read(t, dir) {
			_, first := target.Size(&samples[0])
			for i := range samples {
				if size, flops := target.Size(&samples[i]); size <= 0 || flops != first {
					t.Errorf("%v: size %g, in FLOPs %v, of %s's first sample %v", samples[i].String(), size, flops, kind, first)
				}
			}
		}
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

// TestRegionsAreWhatTheySay: the name of a region says which samples are in it, and
// every sample is in one.
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
