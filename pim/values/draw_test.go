package values

import (
	"math"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestDrawCases: the same seed draws the same cases and another one others; elements are as wide as the case says, in FP16; and
// the reference of a head is attention.Reference over the keys that its query sees.
func TestDrawCases(t *testing.T) {
	deep.Heavy(t)
	cases, err := DrawCases(1)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := DrawCases(1)
	other, _ := DrawCases(2)
	if !reflect.DeepEqual(cases, again) || reflect.DeepEqual(cases[0].K, other[0].K) {
		t.Error("a seed draws other cases, or another one the same")
	}
	spread := func(x []float32, from, to int) float64 {
		sum, n := 0.0, 0
		for i, v := range x {
			if attention.RoundHalf(v) != v {
				t.Fatalf("%g is not of FP16", v)
			}
			if at := i % drawnDim; at >= from && at < to {
				sum += float64(float64(v) * float64(v))
				n++
			}
		}
		return math.Sqrt(sum / float64(n))
	}
	about := func(got, want float64) bool { return got > 0.8*want && got < 1.25*want }
	for i, c := range cases {
		d := drawings[i]
		if c.Name != d.name || len(c.Q) != d.queryHeads*d.queries*drawnDim || len(c.K) != d.kvHeads*d.keys*drawnDim || len(c.V) != len(c.K) {
			t.Errorf("%s: %d, %d and %d elements", c.Name, len(c.Q), len(c.K), len(c.V))
		}
		if q, k, v := spread(c.Q, 0, drawnDim), spread(c.K, outlierElements, drawnDim), spread(c.V, 0, drawnDim); !about(q, d.queryScale) || !about(k, 1) || !about(v, 1) {
			t.Errorf("%s: standard deviations %g, %g and %g", c.Name, q, k, v)
		}
		if k := spread(c.K, 0, outlierElements); d.keys > 100 && !about(k, d.outlierScale) {
			t.Errorf("%s: the outliers' standard deviation is %g", c.Name, k)
		}
		// The last query of the last head sees all keys of its group.
		last, keys := (c.QueryHeads*c.Queries-1)*drawnDim, (c.KVHeads-1)*c.Keys*drawnDim
		out := make([]float64, drawnDim)
		lse := attention.Reference(out, c.Q[last:], c.K[keys:], c.V[keys:], 1/math.Sqrt(drawnDim))
		if got := c.Out[last:]; !reflect.DeepEqual(got, out) || c.LSE[len(c.LSE)-1] != lse {
			t.Errorf("%s: the reference differs", c.Name)
		}
	}
}
