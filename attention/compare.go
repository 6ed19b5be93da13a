package attention

import "math"

// Error is the distance of a result from its reference.
type Error struct {
	RelativeL2 float64 // ‖got − want‖ / ‖want‖, in the Euclidean norm
	MaxAbs     float64 // the largest |got − want|
	NonFinite  int     // values of got that are infinite or NaN; they enter the norms as 0
}

// Compare returns the distance of got from want. Where want is 0 throughout,
// RelativeL2 is the norm of got.
func Compare(got, want []float64) Error {
	var e Error
	var largest float64 // scales the squares, which could overflow
	for i, w := range want {
		g := got[i]
		if math.IsNaN(g) || math.IsInf(g, 0) {
			e.NonFinite++
			g = 0
		}
		e.MaxAbs = max(e.MaxAbs, math.Abs(g-w))
		largest = max(largest, math.Abs(w))
	}
	scale := max(largest, e.MaxAbs)
	if scale == 0 {
		return e
	}
	var difference, norm float64
	for i, w := range want {
		g := got[i]
		if math.IsNaN(g) || math.IsInf(g, 0) {
			g = 0
		}
		difference += float64((g - w) / scale * ((g - w) / scale))
		norm += float64(w / scale * (w / scale))
	}
	if largest == 0 {
		e.RelativeL2 = scale * math.Sqrt(difference)
		return e
	}
	e.RelativeL2 = min(math.Sqrt(difference/norm), math.MaxFloat64)
	return e
}
