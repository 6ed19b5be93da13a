package lm

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/units/portable"
)

// host is attention in float32 on keys and values in memory: for prompts on the GPU, and as the
// reference without DIMMs.
type host struct {
	model *Model
	// rounded rounds q, k and v to FP16 first, as DIMMs store them.
	rounded bool
	kept    [][]keptHead // by sequence; by layer and head
	scores  [][]float32  // by worker
	exact   [][]float64  // by worker
}

// keptHead is the keys and values of one head, [positions, HeadDim] each.
type keptHead struct{ keys, values []float32 }

// newHost returns a host for sequences of those lengths.
func newHost(m *Model, lengths []int, rounded bool) *host {
	h := &host{model: m, rounded: rounded, scores: make([][]float32, m.workers), exact: make([][]float64, m.workers)}
	longest := 0
	for _, n := range lengths {
		heads := make([]keptHead, m.Layers*m.Heads)
		for i := range heads {
			heads[i] = keptHead{make([]float32, n*m.HeadDim), make([]float32, n*m.HeadDim)}
		}
		h.kept = append(h.kept, heads)
		longest = max(longest, n)
	}
	for i := range h.scores {
		h.scores[i], h.exact[i] = make([]float32, longest), make([]float64, longest)
	}
	return h
}

// scale returns the factor of the scores, 1/√d.
func (m *Model) scale() float64 { return 1 / math.Sqrt(float64(m.HeadDim)) }

// headOf returns one head's part of a lane's q, k, v or result.
func headOf[T real](m *Model, x []T, head int) []T {
	return x[head*m.HeadDim : (head+1)*m.HeadDim]
}

func (h *host) keep(layer int, lanes []*lane[float32]) {
	m := h.model
	m.each(len(lanes), func(_, n int) {
		l := lanes[n]
		if h.rounded {
			for _, x := range l.qkv {
				for i, v := range x {
					x[i] = attention.RoundHalf(v)
				}
			}
		}
		for head := range m.Heads {
			kept := &h.kept[l.sequence][layer*m.Heads+head]
			copy(kept.keys[l.position*m.HeadDim:], headOf(m, l.qkv[1], head))
			copy(kept.values[l.position*m.HeadDim:], headOf(m, l.qkv[2], head))
		}
	})
}

// attend keeps the tokens' keys and values, then attends for each token and head, in parallel.
func (h *host) attend(layer int, lanes []*lane[float32]) error {
	m := h.model
	h.keep(layer, lanes)
	m.each(len(lanes)*m.Heads, func(worker, n int) {
		l, head := lanes[n/m.Heads], n%m.Heads
		h.head(worker, &h.kept[l.sequence][layer*m.Heads+head], l.position+1, headOf(m, l.qkv[0], head), headOf(m, l.attended, head))
	})
	return nil
}

// head computes the attention of one query over the first n positions.
func (h *host) head(worker int, kept *keptHead, n int, q, out []float32) {
	d := h.model.HeadDim
	w := h.scores[worker][:n]
	matrix := blas32.General{Rows: n, Cols: d, Stride: d}
	vector := func(x []float32) blas32.Vector { return blas32.Vector{N: len(x), Inc: 1, Data: x} }
	matrix.Data = kept.keys
	blas32.Gemv(blas.NoTrans, float32(h.model.scale()), matrix, vector(q), 0, vector(w))
	top := w[0]
	for _, s := range w {
		top = max(top, s)
	}
	var sum float64
	for i, s := range w {
		w[i] = float32(portable.Exp(float64(s - top)))
		sum += float64(w[i])
	}
	matrix.Data = kept.values
	blas32.Gemv(blas.Trans, float32(1/sum), matrix, vector(w), 0, vector(out))
}

// deviation returns the largest difference of a head's result from attention in float64 on the keys
// and values sent to the DIMMs.
func (h *host) deviation(worker int, kept *keptHead, n int, q, got []float32) float64 {
	d := h.model.HeadDim
	w, scale := h.exact[worker][:n], h.model.scale()
	top := math.Inf(-1)
	query := blas32.Vector{N: d, Inc: 1, Data: q}
	for i := range w {
		w[i] = scale * blas32.DDot(query, blas32.Vector{N: d, Inc: 1, Data: kept.keys[i*d : (i+1)*d]})
		top = max(top, w[i])
	}
	var sum float64
	out := make([]float64, d)
	for i, s := range w {
		weight := portable.Exp(s - top)
		sum += weight
		for j, x := range kept.values[i*d : (i+1)*d] {
			out[j] += float64(weight * float64(x))
		}
	}
	largest := 0.0
	for j, x := range out {
		e := math.Abs(x/sum - float64(got[j]))
		if math.IsNaN(e) {
			return math.Inf(1)
		}
		largest = max(largest, e)
	}
	return largest
}
