package energy

import (
	"math"
	"testing"
)

// TestBroken: each contradiction between joules is detected, and rounding is not one.
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
		{[]float64{-1e-30, 1}, 1, 1, 1, "part 1 of 2 is -1e-30 J"},
		{[]float64{math.NaN(), 1}, 1, 1, 1, "part 1 of 2 is NaN J"},
		{[]float64{1, 2}, 3.1, 2, 5, "the parts add up to 3 J, the total is 3.1 J"},
		{[]float64{1, 2}, 2.9, 2, 5, "the parts add up to 3 J, the total is 2.9 J"},
		{[]float64{1, 2}, math.NaN(), 2, 5, "the parts add up to 3 J, the total is NaN J"},
		{[]float64{1, 2}, 3, 3.1, 5, "the total is 3 J, its band 3.1 to 5 J"},
		{[]float64{1, 2}, 3, 2, 2.9, "the total is 3 J, its band 2 to 2.9 J"},
		{[]float64{1, 2}, 3, 5, 2, "the total is 3 J, its band 5 to 2 J"},
		{[]float64{1, 2}, 3, math.NaN(), 5, "the total is 3 J, its band NaN to 5 J"},
		{[]float64{math.Inf(1)}, math.Inf(1), 0, math.Inf(1), "the parts add up to +Inf J, the total is +Inf J"},
		// Rounding is a billionth of the total, not of a joule: 2 mJ in 1 MJ is too much, and so is 1 mJ in a joule.
		{[]float64{1e6}, 1e6 + 5e-4, 0, 2e6, ""}, {[]float64{1e6}, 1e6 - 5e-4, 0, 2e6, ""}, {[]float64{1e6}, 1e6 + 2e-3, 0, 2e6, "the parts add up to 1e+06 J, the total is 1.000000002e+06 J"},
		{[]float64{1}, 1 + 1e-8, 0, 2, "the parts add up to 1 J, the total is 1.00000001 J"}, {[]float64{1}, 1 - 1e-8, 0, 2, "the parts add up to 1 J, the total is 0.99999999 J"},
		{[]float64{1e6}, 1e6, 1e6 + 5e-4, 2e6, ""}, {[]float64{1e6}, 1e6, 1e6 + 2e-3, 2e6, "the total is 1e+06 J, its band 1.000000002e+06 to 2e+06 J"},
		{[]float64{1e6}, 1e6, 0, 1e6 - 5e-4, ""}, {[]float64{1e6}, 1e6, 0, 1e6 - 2e-3, "the total is 1e+06 J, its band 0 to 999999.998 J"},
	} {
		if got := Broken(c.parts, c.total, c.low, c.high); got != c.bad {
			t.Errorf("%v of %v in %v to %v: %q, want %q", c.parts, c.total, c.low, c.high, got, c.bad)
		}
	}
}
