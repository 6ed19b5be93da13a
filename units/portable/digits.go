package portable

import "strconv"

// Significant rounds x to a number of decimal digits.
func Significant(x float64, digits int) float64 {
	// It reads what it wrote.
	r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', digits-1, 64), 64)
	return r
}

// Quantile interpolates between the elements of a sorted slice (R. J. Hyndman and Y. Fan,
// "Sample Quantiles in Statistical Packages", 1996, definition 7).
func Quantile(sorted []float64, q float64) float64 {
	at := float64(q * float64(len(sorted)-1))
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + float64((at-float64(i))*(sorted[i+1]-sorted[i]))
}
