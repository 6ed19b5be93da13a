// Package b returns products to another package.
package b

// Scale returns a product.
func Scale(x float64) float64 { return 2 * x }

// Rounded returns a rounded one.
func Rounded(x float64) float64 { return float64(2 * x) }
