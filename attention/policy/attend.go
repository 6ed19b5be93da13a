package policy

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/units/portable"
)

// Attender computes attention over selections in float64, each part separately, as its device does. It is not safe for concurrent use.
type Attender struct {
	weights []float32 // of the tokens of all parts
	exact   []float64 // of a part's tokens
	part    []float64 // [dim], the result of a part
}

// NewAttender returns an Attender for sequences of up to limit tokens.
func NewAttender(limit, dim int) *Attender {
	return &Attender{weights: make([]float32, limit), exact: make([]float64, limit), part: make([]float64, dim)}
}

// Attend sets out [dim] to a query head's attention over its parts of a selection. scores are q·k/√d by token; only those of selected
// tokens are read. v is [tokens, dim]. It returns the natural logarithm of the sum of exponentials (−∞ without tokens), and the weights in
// the form of Observe, valid until the next call.
func (a *Attender) Attend(out []float64, sel *Selection, head int, scores []float64, v []float32) (lse float64, weights []float32) {
	clear(out)
	lse = math.Inf(-1)
	weights = a.weights[:0]
	for i := range sel.Parts {
		p := &sel.Parts[i]
		if !p.For(head) || len(p.Ranges) == 0 {
			continue
		}
		w := a.exact[:0]
		for _, r := range p.Ranges {
			w = append(w, scores[r[0]:r[1]]...)
		}
		own := a.partOf(p.Ranges, w, v)
		for _, x := range w {
			weights = append(weights, float32(x))
		}
		lse = Merge(out, lse, a.part, own)
	}
	return lse, weights
}

// partOf sets part to the result over some ranges, and replaces their scores by weights.
func (a *Attender) partOf(ranges [][2]int, w []float64, v []float32) (lse float64) {
	lse = Softmax(w, 1)
	clear(a.part)
	dim, at := len(a.part), w
	for _, r := range ranges {
		rows := v[r[0]*dim : r[1]*dim]
		for ; len(rows) >= 4*dim; rows, at = rows[4*dim:], at[4:] {
			addFour(a.part, at, rows)
		}
		for ; len(rows) > 0; rows, at = rows[dim:], at[1:] {
			for c, x := range rows[:dim] {
				a.part[c] += float64(at[0] * float64(x))
			}
		}
	}
	return lse
}

// addFour adds four weighted rows at once, which needs a quarter of the loads and stores.
func addFour(to, w []float64, rows []float32) {
	n := len(to)
	r0, r1, r2, r3 := rows[:n], rows[n:][:n], rows[2*n:][:n], rows[3*n:][:n]
	w0, w1, w2, w3 := w[0], w[1], w[2], w[3]
	for c := range to {
		a := float64(w0*float64(r0[c])) + float64(w1*float64(r1[c]))
		b := float64(w2*float64(r2[c])) + float64(w3*float64(r3[c]))
		to[c] += a + b
	}
}

// Merge combines attention over two disjoint sets of tokens. out and other are the results over each; out becomes the result over both. It
// returns the natural logarithm of the total sum of exponentials (FlashInfer's merge_state uses base 2). An empty set has −∞ and any finite
// result.
func Merge(out []float64, lse float64, other []float64, otherLSE float64) float64 {
	top := max(lse, otherLSE)
	if math.IsInf(top, -1) {
		return top
	}
	a, b := portable.Exp(lse-top), portable.Exp(otherLSE-top)
	sum := a + b
	for i, x := range other {
		out[i] = (float64(a*out[i]) + float64(b*x)) / sum
	}
	return top + portable.Log(sum)
}

// Scores sets the scores q·k/√d of the tokens in ranges, by token; k is [tokens, dim].
func Scores(scores []float64, q, k []float32, ranges [][2]int) {
	dim := len(q)
	scale := 1 / math.Sqrt(float64(dim))
	x := blas32.Vector{N: dim, Inc: 1, Data: q}
	for _, r := range ranges {
		for t := r[0]; t < r[1]; t++ {
			scores[t] = scale * blas32.DDot(x, blas32.Vector{N: dim, Inc: 1, Data: k[t*dim : (t+1)*dim]})
		}
	}
}

// Cut returns the k-th highest of scores, 1 ≤ k ≤ len(scores), and how many scores equal to it are among the k highest; ties go to the
// lower index. scratch needs at least as many elements.
func Cut[T float32 | float64](scores []T, k int, scratch []T) (cut T, ties int) {
	copy(scratch, scores)
	cut, ties = highest(scratch[:len(scores)], k), k
	for _, s := range scores {
		if s > cut {
			ties--
		}
	}
	return cut, ties
}
