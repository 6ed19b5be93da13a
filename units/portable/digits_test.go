package portable

import "testing"

// TestDigits: rounding to digits, and quantiles by hand.
func TestDigits(t *testing.T) {
	for _, c := range []struct {
		x      float64
		digits int
		want   float64
	}{{123456, 3, 123000}, {-0.00012345, 2, -0.00012}, {9.996, 3, 10}, {0, 4, 0}, {1.0 / 3, 15, 0.333333333333333}} {
		if got := Significant(c.x, c.digits); got != c.want {
			t.Errorf("%g to %d digits is %g, want %g", c.x, c.digits, got, c.want)
		}
	}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 2.5, 0.9: 3.7, 1: 4} {
		if got := Quantile([]float64{1, 2, 3, 4}, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
}
