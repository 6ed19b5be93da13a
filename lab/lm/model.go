package lm

import (
	"math"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/units/portable"
)

// Model computes the GPU's part: all but the attention of decode steps. It computes in float32 or,
// for step-by-step comparison with independent results, in float64. blas32 computes the sums of
// products in float32; their order depends only on the machine's instruction set, so any number of
// workers gives the same bits.
type Model struct {
	*Weights
	workers     int
	cos, sin    []float32 // [Context, HeadDim/2], of the rotary positions; empty with latent attention
	frequencies []float64 // of pairs of the rotated key; only with latent attention
}

// rotaryBase and normEpsilon are those of models without latent attention (ReadWeights).
const (
	rotaryBase  = 10000
	normEpsilon = 1e-5
)

// NewModel returns a model that computes on workers goroutines, at least 1.
func NewModel(w *Weights, workers int) *Model {
	m := &Model{Weights: w, workers: workers, frequencies: w.Latent.frequencies()}
	if w.Latent.Is() {
		return m
	}
	half := w.HeadDim / 2
	m.cos, m.sin = make([]float32, w.Context*half), make([]float32, w.Context*half)
	for j := range half {
		// In float64: at position 8,191 an angle in float32 is off by 2^-12.
		frequency := math.Pow(rotaryBase, -2*float64(j)/float64(w.HeadDim))
		for position := range w.Context {
			sin, cos := math.Sincos(float64(position) * frequency)
			m.cos[position*half+j], m.sin[position*half+j] = float32(cos), float32(sin)
		}
	}
	return m
}

// real is the number type of a model's computation.
type real interface{ float32 | float64 }

// lane is one token in its computation through the model.
type lane[T real] struct {
	sequence, position int
	token              int

	x, normed  []T    // [Width]: the residual stream, and its norm
	qkv        [3][]T // [Heads·HeadDim] each; empty with latent attention
	latent     latentLane[T]
	attended   []T // [Heads·HeadDim], the heads' results
	added      []T // [Width], the result of attention
	networks   networkLane[T]
	logits     []T // [Vocab], if requested
	withLogits bool
}

// newLane returns the vectors of one token.
func newLane[T real](m *Model) *lane[T] {
	inner := m.Heads * m.HeadDim
	l := &lane[T]{
		x: make([]T, m.Width), normed: make([]T, m.Width), added: make([]T, m.Width),
		attended: make([]T, inner), networks: newNetworkLane[T](m), logits: make([]T, m.Vocab),
	}
	if m.Latent.Is() {
		l.latent = newLatentLane[T](&m.Latent)
		return l
	}
	for i := range l.qkv {
		l.qkv[i] = make([]T, inner)
	}
	return l
}

// attender computes attention in one layer: it keeps the lanes' keys and values, and sets attended
// of each lane, over all positions of its sequence up to its own.
type attender[T real] interface {
	attend(layer int, lanes []*lane[T]) error
}

// forward computes tokens through the model. Lanes of one sequence are in the order of their
// positions, which continue those that a has seen.
func forward[T real](m *Model, lanes []*lane[T], a attender[T]) error {
	for _, l := range lanes {
		for i, x := range m.embedding[l.token*m.Width:][:m.Width] {
			l.x[i] = T(x)
		}
	}
	for i := range m.layers {
		y := &m.layers[i]
		m.each(len(lanes), func(_, n int) { normalise(lanes[n].normed, lanes[n].x, y.attentionNorm, m.epsilon) })
		if y.latent != nil {
			projectLatent(m, y.latent, lanes)
		} else {
			projectHeads(m, y, lanes)
		}
		if err := a.attend(i, lanes); err != nil {
			return err
		}
		multiply(m, lanes, func(l *lane[T]) []product[T] { return []product[T]{{&y.output, l.attended, l.added}} })
		m.each(len(lanes), func(_, n int) {
			add(lanes[n].x, lanes[n].added)
			normalise(lanes[n].normed, lanes[n].x, y.networkNorm, m.epsilon)
		})
		passNetwork(m, &y.network, lanes)
	}
	multiply(m, lanes, func(l *lane[T]) []product[T] {
		if !l.withLogits {
			return nil
		}
		normalise(l.normed, l.x, m.norm, m.epsilon)
		return []product[T]{{&m.head, l.normed, l.logits}}
	})
	return nil
}

// projectHeads sets q, k and v of each head, rotated.
func projectHeads[T real](m *Model, y *layer, lanes []*lane[T]) {
	multiply(m, lanes, func(l *lane[T]) []product[T] {
		return []product[T]{{&y.qkv[0], l.normed, l.qkv[0]}, {&y.qkv[1], l.normed, l.qkv[1]}, {&y.qkv[2], l.normed, l.qkv[2]}}
	})
	m.each(len(lanes), func(_, n int) {
		rotate(m, lanes[n].qkv[0], lanes[n].position)
		rotate(m, lanes[n].qkv[1], lanes[n].position)
	})
}

// product is y = a·x.
type product[T real] struct {
	a    *blas32.General // [len(y), len(x)]
	x, y []T
}

// outputs computes the elements [from, to) of y.
func (p *product[T]) outputs(from, to int) {
	switch x := any(p.x).(type) {
	case []float32:
		a := blas32.General{Rows: to - from, Cols: p.a.Cols, Stride: p.a.Stride, Data: p.a.Data[from*p.a.Stride:]}
		y := any(p.y[from:to]).([]float32)
		blas32.Gemv(blas.NoTrans, 1, a, blas32.Vector{N: p.a.Cols, Inc: 1, Data: x}, 0, blas32.Vector{N: to - from, Inc: 1, Data: y})
	case []float64:
		for i := from; i < to; i++ {
			p.y[i] = T(dot(x, p.a.Data[i*p.a.Stride:][:p.a.Cols]))
		}
	}
}

// dot returns x·w in float64. Four sums hide the latency of additions.
func dot(x []float64, w []float32) float64 {
	var a, b, c, d float64
	w = w[:len(x)]
	i := 0
	for ; i < len(x)-3; i += 4 {
		x, w := (*[4]float64)(x[i:]), (*[4]float32)(w[i:]) // one check for four
		a += float64(x[0] * float64(w[0]))
		b += float64(x[1] * float64(w[1]))
		c += float64(x[2] * float64(w[2]))
		d += float64(x[3] * float64(w[3]))
	}
	for ; i < len(x); i++ {
		a += float64(x[i] * float64(w[i]))
	}
	return (a + b) + (c + d)
}

// multiply computes products of all lanes. With fewer lanes than workers, the workers share the
// outputs of a product.
func multiply[T real](m *Model, lanes []*lane[T], of func(*lane[T]) []product[T]) {
	if len(lanes) >= m.workers {
		m.each(len(lanes), func(_, n int) {
			for _, p := range of(lanes[n]) {
				p.outputs(0, p.a.Rows)
			}
		})
		return
	}
	var all []product[T]
	for _, l := range lanes {
		all = append(all, of(l)...)
	}
	m.each(m.workers, func(_, part int) {
		for _, p := range all {
			p.outputs(p.a.Rows*part/m.workers, p.a.Rows*(part+1)/m.workers)
		}
	})
}

// each calls work for 0 to n-1 on the model's workers, numbered from 0.
func (m *Model) each(n int, work func(worker, i int)) {
	if n == 1 || m.workers == 1 {
		for i := range n {
			work(0, i)
		}
		return
	}
	var next atomic.Int64
	var group sync.WaitGroup
	run := func(worker int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			work(worker, i)
		}
	}
	for worker := 1; worker < min(m.workers, n); worker++ {
		group.Go(func() { run(worker) })
	}
	run(0)
	group.Wait()
}

// normalise is RMSNorm (Zhang and Sennrich, 2019): out = x/√(mean x² + ε) · weight.
func normalise[T real](out, x []T, weight []float32, epsilon float64) {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	scale := T(1 / math.Sqrt(sum/float64(len(x))+epsilon))
	for i, v := range x {
		out[i] = T(v*scale) * T(weight[i])
	}
}

// rotate turns each head's halves by its position (RoPE, Su et al., 2021; element j is
// paired with element j + HeadDim/2).
func rotate[T real](m *Model, x []T, position int) {
	half := m.HeadDim / 2
	cos, sin := m.cos[position*half:(position+1)*half], m.sin[position*half:(position+1)*half]
	for ; len(x) > 0; x = x[m.HeadDim:] {
		low, high := x[:half], x[half:m.HeadDim]
		for j, a := range low {
			b, c, s := high[j], T(cos[j]), T(sin[j])
			low[j] = T(a*c) - T(b*s)
			high[j] = T(b*c) + T(a*s)
		}
	}
}

// activate is SwiGLU (Shazeer, 2020): gate = gate·σ(gate)·up.
func activate[T real](gate, up []T) {
	for i, g := range gate {
		gate[i] = T(g/(1+T(portable.Exp(float64(-g))))) * up[i]
	}
}

// add adds y to x.
func add[T real](x, y []T) {
	for i, v := range y {
		x[i] += v
	}
}

// nllOf returns the negative log-likelihood of a token, in nats.
func nllOf[T real, N byte | int](logits []T, token N) float64 {
	top := float64(logits[0])
	for _, x := range logits {
		top = max(top, float64(x))
	}
	var sum float64
	for _, x := range logits {
		sum += portable.Exp(float64(x) - top)
	}
	return top + portable.Log(sum) - float64(logits[token])
}
