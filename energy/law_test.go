package energy

import (
	"math"
	"strings"
	"testing"
)

// TestBroken: each way in which joules can contradict one another is seen, and rounding is none.
func TestBroken(t *testing.T) {
	for _, c := range []struct {
		parts            []float64
		total, low, high float64
		bad              string
	}{
		{[]float64{1, 2, 0}, 3, 2, 5, ""},
		{nil, 0, 0, 0, ""},
		{[]float64{0.1, 0.2}, 0.3, 0.3, 0.3, ""},
		{[]float64{4, -1}, 3, 2, 5, "part 2 of 2 is -1 J"},
		{[]float64{-1e-30, 1}, 1, 1, 1, "part 1 of 2"},
		{[]float64{math.NaN(), 1}, 1, 1, 1, "part 1 of 2"},
		{[]float64{1, 2}, 3.1, 2, 5, "the parts add up to 3 J"},
		{[]float64{1, 2}, 2.9, 2, 5, "the parts add up to 3 J"},
		{[]float64{1, 2}, math.NaN(), 2, 5, "the parts"},
		{[]float64{1, 2}, 3, 3.1, 5, "its band 3.1 to 5"},
		{[]float64{1, 2}, 3, 2, 2.9, "its band 2 to 2.9"},
		{[]float64{1, 2}, 3, 5, 2, "its band"},
		{[]float64{1, 2}, 3, math.NaN(), 5, "its band"},
		{[]float64{math.Inf(1)}, math.Inf(1), 0, math.Inf(1), "the parts"},
	} {
		if got := Broken(c.parts, c.total, c.low, c.high); (got == "") != (c.bad == "") || !strings.HasPrefix(got, c.bad) && !strings.Contains(got, c.bad) {
			t.Errorf("%v of %v in %v to %v: %q, want %q", c.parts, c.total, c.low, c.high, got, c.bad)
		}
	}
}
