package portable

import (
	"math"
	"strconv"
)

// ln2 in two parts: the first has 33 bits, so that its product with an exponent is exact (W. J.
// Cody and W. Waite, Software Manual for the Elementary Functions, 1980, chapter 6).
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// Exp returns e^x, with an error below one unit in the last place.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > 710:
		return math.Inf(1)
	case x < -746:
		return 0
	}
	// x = k ln 2 + high − low, the remainder within ±0.35.
	k := math.Floor(float64(x/math.Ln2) + 0.5)
	high, low := x-float64(k*ln2High), float64(k*ln2Low)
	r := high - low
	// e^r − 1 − r by its series, from the smallest term on.
	sum := 0.0
	for _, c := range &expSeries {
		sum = float64(sum*r) + c
	}
	lost := (high - r) - low // by rounding r
	e := 1 + (r + (float64(float64(r*r)*sum) + lost))
	if k < -1000 || k > 1000 {
		return float64(math.Ldexp(e, int(k)))
	}
	return float64(e * math.Float64frombits(uint64(int64(k)+1023)<<52)) // exact
}

// expSeries is 1/n! from n = 14 down to 2.
var expSeries = [...]float64{
	1. / 87178291200, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
	1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2,
}

// Log returns the natural logarithm of x, with an error below two units in the last place.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	// x = m 2^k with m from √½ to √2.
	bits, k := math.Float64bits(x), -1022.
	if bits>>52 == 0 { // below the normal numbers
		bits, k = math.Float64bits(float64(x*(1<<52))), k-52
	}
	k += float64(bits >> 52)
	m := math.Float64frombits(bits&^(0x7ff<<52) | 1022<<52)
	if m < math.Sqrt2/2 {
		m, k = float64(2*m), k-1
	}
	return float64(k*ln2High) + (Log1p(m-1) + float64(k*ln2Low))
}

// Log1p returns log(1 + f), with an error below two units in the last place where f
// is within −0.3 and 0.42, and as Log elsewhere.
func Log1p(f float64) float64 {
	if f < -0.3 || f > 0.42 || math.IsNaN(f) {
		return Log(1 + f)
	}
	// With s = f/(2+f), log(1+f) = 2 atanh s = f − f²/2 + s (f²/2 + 2(s²/3 + s⁴/5 + ...)).
	s, half := f/(2+f), float64(0.5*float64(f*f))
	z, sum := float64(s*s), 0.0
	for _, c := range &log1pSeries {
		sum = float64(z * (sum + c))
	}
	return f - (half - float64(s*(half+sum)))
}

// log1pSeries is 2/n from n = 27 down to 3.
var log1pSeries = [...]float64{2. / 27, 2. / 25, 2. / 23, 2. / 21, 2. / 19, 2. / 17, 2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5, 2. / 3}

// Pow returns x^y for x ≥ 0, by Exp and Log, with an error below 2 + 3 |y log x| units in
// the last place: an error of the exponent is one of the result. Models raise ratios to
// small powers, millions of times a run; at the ends of the range some 2,000 units are lost.
func Pow(x, y float64) float64 {
	if y == 0 || x == 1 {
		return 1
	}
	return Exp(float64(y * Log(x))) // Exp may be inlined
}

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
