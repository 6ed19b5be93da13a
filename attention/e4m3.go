package attention

import "math"

// E4M3Max is the largest finite number of FP8 in its format E4M3: 4 exponent bits, 3 fraction bits, no infinities, and NaN
// where all of these are 1 (OCP 8-bit Floating Point Specification, 2023).
const E4M3Max = 448

// e4m3 converts E4M3 to float32 by table.
var e4m3 = func() *[256]float32 {
	table := new([256]float32)
	for code := range table {
		exponent, fraction := code>>3&0xf, float64(code&7)
		x := math.Ldexp(8+fraction, exponent-10)
		switch {
		case code&0x7f == 0x7f:
			x = math.NaN()
		case exponent == 0: // subnormal
			x = math.Ldexp(fraction, -9)
		}
		table[code] = float32(math.Copysign(x, float64(0x7f-code)))
	}
	return table
}()

// E4M3Table returns the exact numbers of FP8's format E4M3 by their bits. It must not be changed.
func E4M3Table() *[256]float32 { return e4m3 }

// Float32ToE4M3 rounds x to E4M3, ties to even, and returns its bits. Numbers beyond E4M3Max, including infinities, become E4M3Max.
func Float32ToE4M3(x float32) uint8 {
	u := math.Float32bits(x)
	sign, size := uint8(u>>24&0x80), math.Abs(float64(x))
	switch {
	case x != x:
		return sign | 0x7f
	case size >= E4M3Max:
		return sign | 0x7e
	}
	exponent := max(int(u>>23&0xff)-127, -6)
	steps := int(math.RoundToEven(math.Ldexp(size, 3-exponent))) // 8 to 16 (16 carries), or below 8 for a subnormal
	return sign | uint8((exponent+6)<<3+steps)
}
