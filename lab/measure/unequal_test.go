package measure

import (
	"path/filepath"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestUnequalUnseen: decode attention over unequal contexts with fixed and with balanced splits, each number of heads
// predicted by a fit to the other.
func TestUnequalUnseen(t *testing.T) {
	deep.Turn(t, 1, 2)
	target := suite(t, "h200-sxm", gpu.SuiteServer)
	held, _, err := target.FitHeldOut(Decode, files(t, "testdata/h200_unequal/unequal_decode.csv"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	points := map[string][]Point{}
	for _, p := range held.Relative {
		points[p.Sample.op] = append(points[p.Sample.op], p)
	}
	judgeUnequal(t, points, 100, 0.12)
	// The preset is the fit to all of them; its other parameters are those of kernels in iterations.
	want, got := target.GPU.Decode, suite(t, "h200-sxm", gpu.SuiteServer).GPU.Decode
	if got.UnequalTime != want.UnequalTime || got.UnequalShare != want.UnequalShare || got.UnequalTarget != want.UnequalTarget || got.UnequalBandwidth != want.UnequalBandwidth {
		t.Errorf("the preset has %+v, the fit %+v", got, want)
	}
}

// judgeUnequal requires a number of points for each way to split, a median error of at most 5%, and a 90th
// percentile.
func judgeUnequal(t *testing.T, points map[string][]Point, n int, p90 float64) {
	t.Helper()
	for _, split := range []gpu.Split{gpu.SplitFixed, gpu.SplitBalanced} {
		e := pooled(points[string(split)])
		t.Logf("%s: %d, mean %.3f, median %.3f, p90 %.3f, bias %+.3f", split, e.Points, e.MAPE, e.Median, e.P90, e.Bias)
		if e.Points != n || e.Median > 0.05 || e.P90 > p90 {
			t.Errorf("%s: %d, median %.3f, p90 %.3f, want %d, at most 0.05, %g", split, e.Points, e.Median, e.P90, n, p90)
		}
	}
}

// TestUnequalInPreset: the preset's extra time for unequal contexts, relative to equal ones of the same sum, agrees with the
// measurements, for fitted numbers of heads and for others. Equal ones are those of the same row, since the measured kernel was
// not the preset's, and faster in small batches. An H100's parameters are the H200's.
func TestUnequalInPreset(t *testing.T) {
	for _, c := range []struct {
		gpu, file string
		points    int
		p90       float64
	}{
		{"h200-sxm", "h200_unequal", 74, 0.12}, {"h200-sxm", "h200_unequal_unseen", 86, 0.12}, {"h100-sxm", "h100_unequal_unseen", 86, 0.17},
	} {
		target := suite(t, c.gpu, gpu.SuiteServer)
		equal := map[string]Point{}
		points := map[string][]Point{}
		for _, p := range target.Judge(files(t, "testdata/"+c.file+"/unequal_decode.csv")).Relative {
			s := &p.Sample
			if s.tokens == int64(s.batch*s.context) {
				equal[s.op] = p
				continue
			}
			e := equal[s.op]
			p.Error = p.Predicted/e.Predicted/(s.Seconds/e.Sample.Seconds) - 1
			points[s.op] = append(points[s.op], p)
		}
		judgeUnequal(t, points, c.points, c.p90)
	}
}

// TestMeasuredRanges: presets state the range of the samples that they were fitted to.
func TestMeasuredRanges(t *testing.T) {
	for name, folders := range map[string][]string{
		"h200-sxm": {"h200", "h200_server", "h200_graph"}, "h100-sxm": {"h100", "h100_server", "h100_graph"}, "a100-sxm-80gb": {"a100_sxm"},
	} {
		got := suite(t, name, gpu.SuiteServer)
		want := got.GPU.Measured
		got.GPU.Measured = gpu.MeasuredSpec{}
		kinds := map[Kind]string{GEMM: "gemm", Decode: "decode_attention", Prefill: "prefill_attention", AllReduce: "all_reduce", Elementwise: "elementwise"}
		switch name {
		case "h100-sxm": // sums as the h200-sxm
			got.GPU.Measured.AllReduceGPUs, got.GPU.Measured.AllReduceBytes = 4, 1<<28
		case "a100-sxm-80gb": // has small kernels as the h200-sxm
			got.GPU.Measured.SmallRows = 4096
		}
		for kind, file := range kinds {
			var samples []Sample
			for _, p := range folders {
				if found, _ := filepath.Glob(filepath.Join("testdata", p, file+"*.csv")); len(found) > 0 {
					samples = append(samples, files(t, found...)...)
				}
			}
			if samples != nil {
				got.measured(kind, samples)
			}
		}
		if got.GPU.Measured != want {
			t.Errorf("%s: says %+v, its samples go to %+v", name, want, got.GPU.Measured)
		}
	}
}
