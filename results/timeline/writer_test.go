package timeline

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestNanoseconds: times are rounded to the nearest nanosecond, also where half of one more would not fit.
func TestNanoseconds(t *testing.T) {
	for ps, want := range map[units.Duration]units.Duration{0: 0, 499: 0, 500: 1, 1499: 1, 1500: 2, math.MaxInt64: math.MaxInt64/1000 + 1} {
		if got := nanoseconds(ps); got != want {
			t.Errorf("%d ps: got %d ns, want %d", ps, got, want)
		}
	}
}
