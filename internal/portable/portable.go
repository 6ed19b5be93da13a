package portable

import "math"

// ln2 in two parts: the first has 33 bits, so that its product with an exponent is
// exact (W. J. Cody and W. Waite, Software Manual for the Elementary Functions,
// 1980, chapter 6).
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// Exp returns e^x, with an error below one unit in the last place.
func Exp(x float64) float64 { return expOf(x, 0) }

// expOf returns e^(x + rest) for a rest below x's last place.
func expOf(x, rest float64) float64 {
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
	for _, c := range expSeries {
		sum = float64(sum*r) + c
	}
	lost := (high - r) - low // by rounding r
	e := 1 + (r + (float64(float64(r*r)*sum) + lost))
	return float64(math.Ldexp(e+float64(e*rest), int(k)))
}

// expSeries is 1/n! from n = 14 down to 2.
var expSeries = [...]float64{
	1. / 87178291200, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
	1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2,
}

// Log returns the natural logarithm of x, with an error below two units in the last
// place.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	m, exponent := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, exponent = float64(2*m), exponent-1
	}
	k := float64(exponent)
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
	for n := 27.0; n >= 3; n -= 2 {
		sum = float64(z * (sum + 2/n))
	}
	return f - (half - float64(s*(half+sum)))
}

// Pow returns x^y for x ≥ 0, with an error below two units in the last place where the
// result has all its bits. An error of the exponent is one of the result, and the exponent may be
// 700: so the logarithm and its product with y are kept to 20 bits more than a number has.
func Pow(x, y float64) float64 {
	if y == 0 || x == 1 {
		return 1
	}
	high, low := logParts(x)
	z, lost := product(y, high)
	if !(math.Abs(z) < 800) { // beyond the ends, or NaN
		return Exp(z)
	}
	return expOf(z, lost+float64(y*low))
}

// logParts returns log x in two parts, with a relative error below 2^-62: Log's series with
// its first two terms, s and s³/3, in two parts each (T. J. Dekker, A Floating-Point
// Technique for Extending the Available Precision, 1971).
func logParts(x float64) (high, low float64) {
	if !(x > 0) || math.IsInf(x, 1) {
		return Log(x), 0
	}
	m, exponent := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, exponent = float64(2*m), exponent-1
	}
	f := m - 1
	d := 2 + f
	s := f / d
	p, pLow := product(s, d)
	sLow := (((f - p) - pLow) - float64(s*(f-(d-2)))) / d
	z, zLow := product(s, s)
	zLow += float64(2 * float64(s*sLow))
	sum := 0.0
	for _, c := range atanhSeries {
		sum = float64(sum*z) + c
	}
	// t = 1/3 + z/5 + ..., u = z t, then log m = 2 (s + s u).
	t, tLow := add(third, float64(sum*z)+thirdLow)
	u, uLow := product(z, t)
	uLow += float64(z*tLow) + float64(zLow*t)
	v, vLow := product(s, u)
	vLow += float64(s*uLow) + float64(sLow*u)
	w, wLow := add(s, v)
	// k ln 2 is the larger, or 0.
	k := float64(exponent)
	high, low = add(float64(k*ln2High), float64(2*w))
	return add(high, low+(float64(2*(wLow+(vLow+sLow)))+float64(k*ln2Low)))
}

// add returns a + b in two parts: the nearest number, and what it lacks. |a| ≥ |b|, or a = 0.
func add(a, b float64) (sum, lost float64) {
	sum = a + b
	return sum, b - (sum - a)
}

// product returns a b in two parts: the nearest number, and what it lacks, from halves of the
// factors whose products are exact (Dekker). .ci/arm64 lets no fused instruction pass, so no math.FMA.
func product(a, b float64) (p, lost float64) {
	p = float64(a * b)
	aHigh, bHigh := half(a), half(b)
	aLow, bLow := a-aHigh, b-bHigh
	lost = float64(aHigh*bHigh) - p
	lost += float64(aHigh * bLow)
	lost += float64(aLow * bHigh)
	return p, lost + float64(aLow*bLow)
}

// half returns the upper 26 bits of a.
func half(a float64) float64 {
	c := float64((1<<27 + 1) * a)
	return c - (c - a)
}

const (
	third    = 1. / 3 // rounded where it is a float64
	thirdLow = 1.850371707708594e-17
)

// atanhSeries is 1/n from n = 27 down to 5.
var atanhSeries = [...]float64{1. / 27, 1. / 25, 1. / 23, 1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5}
