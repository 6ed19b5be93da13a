package attention

import (
	"math"

	"github.com/l3sim/l3sim/units/portable"
)

// Reference computes attention of one query over n keys in float64, in two passes: the plain definition, softmax(q·Kᵀ·scale)·V, with the
// largest logit subtracted before the exponential.
//
// q has d values, k and v n·d; out receives d values. The result is the natural logarithm of the sum of exponentials. Without keys, out is
// 0 and the result −∞.
func Reference(out []float64, q, k, v []float32, scale float64) (lse float64) {
	clear(out)
	return reference(out[:len(q)], q, k, v, scale)
}

// RowsReference is Reference over n rows of len(q) values. A row is a key, and its first len(out) values are the value.
func RowsReference(out []float64, q, rows []float32, scale float64) (lse float64) {
	clear(out)
	return reference(out, q, rows, rows, scale)
}

// reference adds attention to out, which must be 0. Values have len(out) elements and the same stride as keys.
func reference(out []float64, q, k, v []float32, scale float64) (lse float64) {
	d := len(q)
	n := len(k) / d
	if n == 0 {
		return math.Inf(-1)
	}
	logits := make([]float64, n)
	top := math.Inf(-1)
	for i := range logits {
		var s float64
		for j, x := range k[i*d : (i+1)*d] {
			s += float64(float64(q[j]) * float64(x))
		}
		logits[i] = s * scale
		top = max(top, logits[i])
	}
	var sum float64
	for i, s := range logits {
		w := portable.Exp(s - top)
		sum += w
		for j, x := range v[i*d:][:len(out)] {
			out[j] += float64(w * float64(x))
		}
	}
	for j := range out {
		out[j] /= sum
	}
	return top + portable.Log(sum)
}

// CausalLength returns the number of keys that query i of m sees among n keys, if the last query sees them all: n − m + i + 1, never
// negative.
func CausalLength(i, m, n int) int { return max(0, n-m+i+1) }

// CausalReference computes Reference for m queries over n keys of one head, the mask aligned to the
// last key (CausalLength). q has m·d values, k and v n·d; out receives m·d and lse m values.
func CausalReference(out, lse []float64, q, k, v []float32, d int, scale float64) {
	m, n := len(q)/d, len(k)/d
	for i := range m {
		seen := CausalLength(i, m, n) * d
		lse[i] = Reference(out[i*d:(i+1)*d], q[i*d:(i+1)*d], k[:seen], v[:seen], scale)
	}
}

// Error is the distance of a result from its reference.
type Error struct {
	RelativeL2 float64 // ‖got − want‖ / ‖want‖, in the Euclidean norm
	MaxAbs     float64 // the largest |got − want|
	NonFinite  int     // infinite or NaN values of got, counted as 0 in the norms
}

// Compare returns the distance of got from want. If want is all 0, RelativeL2 is the norm of got.
func Compare(got, want []float64) Error {
	var e Error
	var largest float64 // scales the squares, which could overflow
	finite := make([]float64, len(want))
	for i, w := range want {
		if g := got[i]; math.IsNaN(g) || math.IsInf(g, 0) {
			e.NonFinite++
		} else {
			finite[i] = g
		}
		e.MaxAbs = max(e.MaxAbs, math.Abs(finite[i]-w))
		largest = max(largest, math.Abs(w))
	}
	scale := max(largest, e.MaxAbs)
	if scale == 0 {
		return e
	}
	var difference, norm float64
	for i, w := range want {
		difference += float64((finite[i] - w) / scale * ((finite[i] - w) / scale))
		norm += float64(w / scale * (w / scale))
	}
	if largest == 0 {
		e.RelativeL2 = scale * math.Sqrt(difference)
		return e
	}
	e.RelativeL2 = min(math.Sqrt(difference/norm), math.MaxFloat64)
	return e
}
