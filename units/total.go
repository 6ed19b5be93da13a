package units

import (
	"math"
	"math/bits"
)

// Total is an exact sum of durations that no run overflows: one Duration holds 106
// days, which 64 resources use up in two. The zero value is 0.
type Total struct {
	high int64 // of a number of 128 bits in two's complement
	low  uint64
}

// Add adds a duration.
func (t *Total) Add(d Duration) { t.AddTotal(Total{int64(d) >> 63, uint64(d)}) }

// AddTotal adds another sum.
func (t *Total) AddTotal(o Total) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, o.low, 0)
	t.high += o.high + int64(carry)
}

// AddTimes adds a duration n times.
func (t *Total) AddTimes(d Duration, n int64) {
	high, low := bits.Mul64(uint64(d), uint64(n))
	o := Total{int64(high), low}
	if d < 0 { // as an unsigned number d counts as d + 2^64
		o.high -= n
	}
	if n < 0 {
		o.high -= int64(d)
	}
	t.AddTotal(o)
}

// Times returns the sum n times.
func (t Total) Times(n int64) Total {
	high, low := bits.Mul64(t.low, uint64(n))
	if n < 0 {
		high -= t.low
	}
	return Total{t.high*n + int64(high), low}
}

// Picoseconds returns the sum, rounded to a float64.
func (t Total) Picoseconds() float64 {
	high, low, sign := uint64(t.high), t.low, 1.0
	if t.high < 0 {
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high, sign = -high-borrow, -1
	}
	return float64(sign * (float64(math.Ldexp(float64(high), 64)) + float64(low)))
}
