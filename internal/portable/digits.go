package portable

import "strconv"

// Significant rounds x to a number of decimal digits.
func Significant(x float64, digits int) float64 {
	// It reads what it wrote.
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', digits-1, 64), 64)
	return r
}
