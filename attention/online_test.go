package attention

import (
	"math"

	"github.com/l3sim/l3sim/units/portable"
)

// Normalizer is the running state of a softmax that sees its logits once: the largest logit and the
// sum of exponentials relative to it (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", arXiv:1805.02867). Its zero value has seen a logit of 0 with weight 0: use
// NewNormalizer.
type Normalizer struct {
	Max, Sum float64
}

// NewNormalizer returns the state before the first logit: −∞ and 0.
func NewNormalizer() Normalizer { return Normalizer{Max: math.Inf(-1)} }

// Add takes one logit. It returns the factor for everything accumulated before, and the weight of
// this logit.
func (n *Normalizer) Add(logit float64) (decay, weight float64) {
	if logit <= n.Max {
		weight = 1
		if logit < n.Max {
			weight = portable.Exp(logit - n.Max)
		}
		n.Sum += weight
		return 1, weight
	}
	decay = portable.Exp(n.Max - logit)
	n.Max, n.Sum = logit, float64(n.Sum*decay)+1
	return decay, 1
}

// LSE returns the natural logarithm of the sum of exponentials, −∞ without logits.
func (n *Normalizer) LSE() float64 {
	if n.Sum == 0 {
		return math.Inf(-1)
	}
	return n.Max + portable.Log(n.Sum)
}

// Online computes the same as Reference in one pass over the keys. Shapes and result are those of
// Reference.
func Online(out []float64, q, k, v []float32, scale float64) (lse float64) {
	d := len(q)
	clear(out)
	state := NewNormalizer()
	for i := range len(k) / d {
		var s float64
		for j, x := range k[i*d : (i+1)*d] {
			s += float64(float64(q[j]) * float64(x))
		}
		decay, w := state.Add(s * scale)
		for j, x := range v[i*d : (i+1)*d] {
			out[j] = float64(out[j]*decay) + float64(w*float64(x))
		}
	}
	if state.Sum > 0 {
		for j := range out[:d] {
			out[j] /= state.Sum
		}
	}
	return state.LSE()
}

// Partial is attention over a part of the keys: the normalised output and the
// natural logarithm of the sum of exponentials of that part, −∞ for no keys.
type Partial struct {
	Out []float64
	LSE float64
}

// Merge combines attention over disjoint sets of keys into attention over their union, exactly:
// each part's output weighs exp(LSE − the union's LSE). out receives the output; the union's LSE is
// returned. Parts without keys do not count, whatever their Out; if there are no others, out is 0
// and the result −∞.
func Merge(out []float64, parts ...Partial) (lse float64) {
	clear(out)
	top := math.Inf(-1)
	for _, p := range parts {
		top = max(top, p.LSE)
	}
	if math.IsInf(top, -1) {
		return top
	}
	var sum float64
	for _, p := range parts {
		sum += portable.Exp(p.LSE - top)
	}
	for _, p := range parts {
		w := portable.Exp(p.LSE-top) / sum
		if w == 0 {
			continue
		}
		for j, x := range p.Out {
			out[j] += float64(w * x)
		}
	}
	return top + portable.Log(sum)
}
