package units

import (
	"math"
	"testing"
)

// TestTotalsByHand: sums beyond 64 bits, of either sign.
func TestTotalsByHand(t *testing.T) {
	of := func(d Duration, n int64) (x Total) {
		x.AddTimes(d, n)
		return x
	}
	for _, c := range []struct {
		got  Total
		want float64
	}{
		{of(3, 5), 15}, {of(-3, 5), -15}, {of(3, -5), -15}, {of(-3, -5), 15}, {of(3, 0), 0}, {of(0, -5), 0},
		{of(math.MaxInt64, 4), 4 * math.MaxInt64}, {of(math.MaxInt64, -4), -4 * math.MaxInt64}, {of(math.MinInt64, 4), -math.Exp2(65)}, {of(math.MinInt64, -4), math.Exp2(65)},
		{of(1<<62, 1<<40), math.Exp2(102)}, {of(3, 5).Times(7), 105}, {of(-3, 5).Times(7), -105}, {of(3, 5).Times(-7), -105}, {of(-3, 5).Times(-7), 105}, {of(3, 5).Times(0), 0},
		{of(1<<62, 1<<10).Times(8), math.Exp2(75)}, {of(1<<62, 1<<10).Times(-8), -math.Exp2(75)}, {of(-(1 << 62), 1<<10).Times(8), -math.Exp2(75)}, {of(1<<62, 6).Times(3), 18 * math.Exp2(62)},
	} {
		if got := c.got.Picoseconds(); got != c.want {
			t.Errorf("%v, by hand %v", got, c.want)
		}
	}
	var x Total
	for _, d := range []Duration{math.MaxInt64, math.MaxInt64, 5, -3, math.MinInt64, math.MinInt64} {
		x.Add(d)
	}
	if x != of(0, 0) { // 2·(2^63 − 1) + 2 − 2·2^63
		t.Errorf("%v is left", x.Picoseconds())
	}
	x.AddTotal(of(1<<62, 8))
	x.AddTotal(of(1<<62, -8))
	if x != (Total{}) {
		t.Errorf("%v is left", x.Picoseconds())
	}
}
