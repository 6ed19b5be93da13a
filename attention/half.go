package attention

import "math"

// Limits of IEEE 754 binary16 ("FP16"): 5 exponent bits, 11 significand bits.
const (
	HalfMax     = 65504           // the largest finite value
	HalfEpsilon = 1.0 / (1 << 11) // u, the largest relative error of one rounding in the normal range
)

// Float32 bit patterns at which rounding to binary16 changes its rule.
const (
	halfNormalMin = 0x38800000 // 2^-14, the smallest normal binary16
	halfOverflow  = 0x477ff000 // 65520: from here on rounding to nearest gives infinity
)

var infinity = float32(math.Inf(1)) // result of an overflow of binary16

// widen converts binary16 to float32 by table. The conversion is the innermost operation of the functional model, and the table handles
// subnormals, infinities and NaN without branches.
var widen = func() *[1 << 16]float32 {
	table := new([1 << 16]float32)
	for h := range table {
		table[h] = halfToFloat32(uint16(h))
	}
	return table
}()

// halfToFloat32 converts by arithmetic: moving exponent and fraction into place gives a float32 that is too small by a factor of 2^112,
// also for subnormals.
func halfToFloat32(h uint16) float32 {
	u := uint32(h&0x8000)<<16 | uint32(h&0x7fff)<<13
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(u | 0x7f800000)
	}
	return math.Float32frombits(u) * 0x1p112
}

// HalfTable returns the exact values of the binary16 numbers by their bits; NaN keep their payload. It must not be changed.
func HalfTable() *[1 << 16]float32 { return widen }

// RoundHalf rounds x to the nearest binary16 number, ties to even, and returns it as a float32. From 65520 on the result is infinite.
//
// It adds 1.5·2^(e+13), where e is the exponent of x, or that of the smallest normal binary16 if larger. The sum's last place then has the
// weight of binary16's last place, so that the addition rounds, also for subnormals. The only branch is for overflow. Weights of long
// contexts make most products subnormal.
func RoundHalf(x float32) float32 {
	u := math.Float32bits(x)
	if u&0x7fffffff >= halfOverflow {
		return float32(x * infinity) // NaN stays NaN
	}
	m := math.Float32frombits(max(u&0x7f800000, halfNormalMin) + (13<<23 | 1<<22))
	return math.Float32frombits(math.Float32bits(float32(x)+m-m) | u&0x80000000)
}

// RoundHalf64 is RoundHalf of a float64, in one rounding. It goes through float32 with round-to-odd: the last bit becomes odd if anything
// is cut off, so that no false tie between two binary16 numbers arises.
func RoundHalf64(x float64) float32 {
	f := float32(x)
	if u := math.Float32bits(f); float64(f) != x && u&1 == 0 && u&0x7f800000 != 0x7f800000 {
		if math.Abs(float64(f)) < math.Abs(x) {
			f = math.Float32frombits(u + 1)
		} else {
			f = math.Float32frombits(u - 1)
		}
	}
	return RoundHalf(f)
}

// Float32ToHalf rounds x to binary16, ties to even, and returns its bits.
func Float32ToHalf(x float32) uint16 {
	u := math.Float32bits(x)
	sign := uint16(u >> 16 & 0x8000)
	e := u & 0x7fffffff
	switch {
	case e > 0x7f800000:
		return sign | 0x7e00 | uint16(u>>13&0x1ff)
	case e >= halfOverflow:
		return sign | 0x7c00
	case e < halfNormalMin:
		r := math.Float32frombits(e) + 0.5
		return sign | uint16(math.Float32bits(r)-math.Float32bits(0.5))
	}
	e += 0xfff + e>>13&1
	return sign | uint16((e-(112<<23))>>13)
}

// BFloat16ToFloat32 returns the exact value of the bfloat16 number with bits b.
func BFloat16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToBFloat16 rounds x to bfloat16, ties to even, and returns its bits.
func Float32ToBFloat16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}
