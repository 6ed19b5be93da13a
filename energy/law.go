package energy

import (
	"fmt"
	"math"
)

// Broken describes how joules contradict one another, or returns "". The laws: no part is negative, the parts add up to the
// total, and the total lies between the totals with all constants at their low and high ends.
func Broken(parts []float64, total, low, high float64) string {
	sum := 0.0
	for i, joules := range parts {
		if !(joules >= 0) {
			return fmt.Sprintf("part %d of %d is %g J", i+1, len(parts), joules)
		}
		sum += joules
	}
	const rounding = 1e-9
	switch {
	case !(math.Abs(sum-total) <= rounding*total):
		return fmt.Sprintf("the parts add up to %g J, the total is %g J", sum, total)
	case !(low <= total*(1+rounding) && total <= high*(1+rounding)):
		return fmt.Sprintf("the total is %g J, its band %g to %g J", total, low, high)
	}
	return ""
}
