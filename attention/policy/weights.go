package policy

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/units/portable"
)

// PromptWeights computes causal attention weights of the queries [from, n) of a prompt of n tokens: query i over keys 0 to i. q has [n,
// dim] for each query head of the group, k is [n, dim]. It calls see with a query's token and the weights of one of its heads, which are
// valid until the next call.
func PromptWeights(q [][]float32, k []float32, dim, from int, see func(token int, weights []float32)) {
	n := len(k) / dim
	weights := make([]float32, n)
	for i := from; i < n; i++ {
		for _, head := range q {
			w := weights[:i+1]
			Products(w, k, head[i*dim:(i+1)*dim])
			Softmax(w, 1/math.Sqrt(float64(dim)))
			see(i, w)
		}
	}
}

// Products sets out to the products of a vector with each row of a matrix of at least
// len(out) rows.
func Products(out, rows, x []float32) {
	a := blas32.General{Rows: len(out), Cols: len(x), Stride: len(x), Data: rows[:len(out)*len(x)]}
	blas32.Gemv(blas.NoTrans, 1, a, blas32.Vector{N: len(x), Inc: 1, Data: x}, 0, blas32.Vector{N: len(out), Inc: 1, Data: out})
}

// Softmax converts products into weights, the softmax of scale times the products, and returns the natural logarithm of the sum of
// exponentials.
func Softmax[T float32 | float64](x []T, scale float64) (lse float64) {
	top := x[0]
	for _, s := range x {
		top = max(top, s)
	}
	var sum float64
	for i, s := range x {
		e := portable.Exp(scale * float64(s-top))
		x[i] = T(e)
		sum += e
	}
	for i, e := range x {
		x[i] = T(float64(e) / sum)
	}
	return float64(scale*float64(top)) + portable.Log(sum)
}

// AppendTop appends the indices of the k highest scores, ascending; ties go to the lower index. scratch needs at least len(scores)
// elements.
func AppendTop[T float32 | float64](to []int32, scores []T, k int, scratch []T) []int32 {
	if k <= 0 {
		return to
	}
	cut, ties := T(math.Inf(-1)), len(scores)
	if k < len(scores) {
		cut, ties = Cut(scores, k, scratch)
	}
	for i, s := range scores {
		if s > cut {
			to = append(to, int32(i))
		} else if s == cut && ties > 0 {
			to = append(to, int32(i))
			ties--
		}
	}
	return to
}

// highest returns the k-th highest of x, 1 ≤ k ≤ len(x), and reorders x by Hoare's quickselect, with equal elements set aside.
func highest[T float32 | float64](x []T, k int) T {
	for {
		pivot := middle(x[0], x[len(x)/2], x[len(x)-1])
		above, below := 0, len(x) // x[:above] > pivot, x[below:] < pivot
		for i := 0; i < below; {
			switch s := x[i]; {
			case s > pivot:
				x[i], x[above] = x[above], s
				above++
				i++
			case s < pivot:
				below--
				x[i], x[below] = x[below], s
			default:
				i++
			}
		}
		switch {
		case k <= above:
			x = x[:above]
		case k <= below:
			return pivot
		default:
			x, k = x[below:], k-below
		}
	}
}

func middle[T float32 | float64](a, b, c T) T {
	return max(min(a, b), min(max(a, b), c))
}

// AppendRanges appends the ranges formed by ascending tokens.
func AppendRanges(ranges [][2]int, tokens []int32) [][2]int {
	for i := 0; i < len(tokens); {
		first := i
		for i++; i < len(tokens) && tokens[i] == tokens[i-1]+1; i++ {
		}
		ranges = append(ranges, [2]int{int(tokens[first]), int(tokens[i-1]) + 1})
	}
	return ranges
}
