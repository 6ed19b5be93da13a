package policy

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/internal/portable"
)

// Attender computes attention over selections in float32, each part for itself as its device
// does. It is not for concurrent use.
type Attender struct {
	weights []float32 // of the tokens of all parts
	part    []float32 // [dim], the result of a part
}

// NewAttender returns one for sequences of up to limit tokens.
func NewAttender(limit, dim int) *Attender {
	return &Attender{weights: make([]float32, limit), part: make([]float32, dim)}
}

// Attend sets out [dim] to the attention of a query head over its parts of a selection. Scores
// are q·k/√d by token, of which only those of selected tokens are read; v is [tokens, dim]. It
// returns the logarithm of the sum of exponentials (natural, −∞ without tokens), and the
// weights as Observe takes them, valid until the next call.
func (a *Attender) Attend(out []float32, sel *Selection, head int, scores, v []float32) (lse float64, weights []float32) {
	clear(out)
	lse = math.Inf(-1)
	weights = a.weights[:0]
	for i := range sel.Parts {
		p := &sel.Parts[i]
		n := len(weights)
		if !p.For(head) {
			continue
		}
		for _, r := range p.Ranges {
			weights = append(weights, scores[r[0]:r[1]]...)
		}
		if len(weights) == n {
			continue
		}
		own := a.partOf(p, weights[n:], v)
		if math.IsInf(lse, -1) {
			copy(out, a.part)
			lse = own
		} else {
			lse = Merge(out, lse, a.part, own)
		}
	}
	return lse, weights
}

// partOf computes one part and turns its scores into weights.
func (a *Attender) partOf(p *Part, w, v []float32) (lse float64) {
	top := w[0]
	for _, s := range w {
		top = max(top, s)
	}
	var sum float64
	for i, s := range w {
		e := portable.Exp(float64(s - top))
		w[i] = float32(e)
		sum += e
	}
	scale := float32(1 / sum)
	for i := range w {
		w[i] *= scale
	}
	clear(a.part)
	dim := len(a.part)
	for _, r := range p.Ranges {
		n := r[1] - r[0]
		rows := blas32.General{Rows: n, Cols: dim, Stride: dim, Data: v[r[0]*dim : r[1]*dim]}
		blas32.Gemv(blas.Trans, 1, rows, blas32.Vector{N: n, Inc: 1, Data: w[:n]}, 1, blas32.Vector{N: dim, Inc: 1, Data: a.part})
		w = w[n:]
	}
	return float64(top) + portable.Log(sum)
}

// Merge sets out to attention over two sets of tokens that share none, of which out and other
// are the results over either, and returns the logarithm of the sum of exponentials of both
// (natural base; FlashInfer's merge_state is of base 2). A set of none has −∞ and any finite
// result.
func Merge(out []float32, lse float64, other []float32, otherLSE float64) float64 {
	top := max(lse, otherLSE)
	if math.IsInf(top, -1) {
		return top
	}
	a, b := portable.Exp(lse-top), portable.Exp(otherLSE-top)
	sum := a + b
	for i, x := range other {
		out[i] = float32((float64(a*float64(out[i])) + float64(b*float64(x))) / sum)
	}
	return top + portable.Log(sum)
}

// Scores sets the scores q·k/√d of the tokens of ranges, by token; k is [tokens, dim].
func Scores(scores, q, k []float32, ranges [][2]int) {
	dim := len(q)
	for _, r := range ranges {
		n := r[1] - r[0]
		rows := blas32.General{Rows: n, Cols: dim, Stride: dim, Data: k[r[0]*dim : r[1]*dim]}
		blas32.Gemv(blas.NoTrans, float32(1/math.Sqrt(float64(dim))), rows, blas32.Vector{N: dim, Inc: 1, Data: q}, 0, blas32.Vector{N: n, Inc: 1, Data: scores[r[0]:r[1]]})
	}
}

// Cut returns the k-th highest of scores, 1 ≤ k ≤ len(scores), and how many of the scores that
// are equal to it are among the k highest: of equal ones the lower index wins. scratch has at
// least as many elements.
func Cut(scores []float32, k int, scratch []float32) (cut float32, ties int) {
	copy(scratch, scores)
	cut, ties = highest(scratch[:len(scores)], k), k
	for _, s := range scores {
		if s > cut {
			ties--
		}
	}
	return cut, ties
}
