package lm

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// LatentShape is the shape of latent attention, alike in all layers. The zero value is for models whose heads have their own keys
// and values.
type LatentShape struct {
	attention.Latent
	Rank int     // elements of the vector from which queries are made
	Base float64 // of the rotary positions
	llm.Indexer
	Layers string // letters of llm.LayerPattern: I for a layer with an indexer, S for one that shares a choice; "" if all have one
}

// Is says that attention is latent.
func (s *LatentShape) Is() bool { return s.Latent.Latent > 0 }

// frequencies returns the angle by position of each pair of the rotated key.
func (s *LatentShape) frequencies() (all []float64) {
	for i := range s.Rope / 2 {
		all = append(all, math.Pow(s.Base, -2*float64(i)/float64(s.Rope)))
	}
	return all
}

// latentLayer is the parameters of latent attention in one layer.
type latentLayer struct {
	queryDown blas32.General // [Rank, Width]
	queryNorm []float32      // [Rank]
	queryUp   blas32.General // [Heads·Key, Rank]
	row       blas32.General // [Row, Width]
	rowNorm   []float32      // [Latent]
	expand    []float32      // [Heads·(Nope + Value), Latent], in the form of attention.Expand
	index     *indexLayer    // nil: no indexer
}

// indexLayer is the parameters of an indexer in one layer.
type indexLayer struct {
	queries       blas32.General // [IndexHeads·IndexDim, Rank]
	key           blas32.General // [IndexDim, Width]
	keyNorm, bias []float32      // [IndexDim], of its LayerNorm
	weights       blas32.General // [IndexHeads, Width]
}

// latentLane is a token's vectors in latent attention.
type latentLane[T real] struct {
	rank     []T // [Rank], normed
	queries  []T // [Heads, Key], rotated
	row      []T // [Row]: the normed latent, the rotated key
	absorbed []T // [Heads, Row]: queries for rows
	latents  []T // [Heads, Latent]: results over rows
	cos, sin []T // of each pair, at the token's position
	index    indexLane[T]
	selected policy.Selection // choice of a policy
	choice   policy.Selection // choice of the latest layer with an indexer
}

// indexLane is a token's vectors in the indexer.
type indexLane[T real] struct {
	queries, key, weights []T
	wide                  policy.Index
}

func newLatentLane[T real](s *LatentShape) latentLane[T] {
	queries := s.IndexHeads * s.IndexDim
	return latentLane[T]{
		rank: make([]T, s.Rank), queries: make([]T, s.Heads*s.Key()), row: make([]T, s.Row()),
		absorbed: make([]T, s.Heads*s.Row()), latents: make([]T, s.Heads*s.Latent.Latent),
		cos: make([]T, s.Rope/2), sin: make([]T, s.Rope/2),
		index: indexLane[T]{make([]T, queries), make([]T, s.IndexDim), make([]T, s.IndexHeads),
			policy.Index{Queries: make([]float64, queries), Key: make([]float64, s.IndexDim), Weights: make([]float64, s.IndexHeads)}},
	}
}

// projectLatent sets queries and row of each token, and its vectors in the indexer.
func projectLatent[T real](m *Model, y *latentLayer, lanes []*lane[T]) {
	multiply(m, lanes, func(l *lane[T]) []product[T] {
		all := []product[T]{{&y.queryDown, l.normed, l.latent.rank}, {&y.row, l.normed, l.latent.row}}
		if x := y.index; x != nil {
			all = append(all, product[T]{&x.key, l.normed, l.latent.index.key}, product[T]{&x.weights, l.normed, l.latent.index.weights})
		}
		return all
	})
	m.each(len(lanes), func(_, n int) {
		l := &lanes[n].latent
		l.turn(m.frequencies, lanes[n].position)
		latent := l.row[:m.Latent.Latent.Latent]
		normalise(l.rank, l.rank, y.queryNorm, m.epsilon)
		normalise(latent, latent, y.rowNorm, m.epsilon)
		l.rotate(l.row[len(latent):])
	})
	multiply(m, lanes, func(l *lane[T]) []product[T] {
		all := []product[T]{{&y.queryUp, l.latent.rank, l.latent.queries}}
		if x := y.index; x != nil {
			all = append(all, product[T]{&x.queries, l.latent.rank, l.latent.index.queries})
		}
		return all
	})
	m.each(len(lanes), func(_, n int) {
		l, s := &lanes[n].latent, &m.Latent
		for h := range s.Heads {
			l.rotate(l.queries[h*s.Key()+s.Nope : (h+1)*s.Key()])
		}
		if y.index != nil {
			l.indexes(s, y.index, m.epsilon)
		}
	})
}

// indexes normalises and rotates the token's vectors in the indexer: the first Rope elements of the key and of each
// query.
func (l *latentLane[T]) indexes(s *LatentShape, y *indexLayer, epsilon float64) {
	i := &l.index
	layerNorm(i.key, y.keyNorm, y.bias, epsilon)
	l.rotate(i.key[:s.Rope])
	for h := range s.IndexHeads {
		l.rotate(i.queries[h*s.IndexDim:][:s.Rope])
	}
	for h, w := range i.weights {
		i.weights[h] = w * T(1/math.Sqrt(float64(s.IndexHeads*s.IndexDim)))
	}
	widen64(i.wide.Queries, i.queries)
	widen64(i.wide.Key, i.key)
	widen64(i.wide.Weights, i.weights)
}

func widen64[T real](to []float64, x []T) {
	for i, v := range x {
		to[i] = float64(v)
	}
}

// turn sets cosine and sine of each pair at a position.
func (l *latentLane[T]) turn(frequencies []float64, position int) {
	for i, f := range frequencies {
		sin, cos := math.Sincos(float64(position) * f)
		l.cos[i], l.sin[i] = T(cos), T(sin)
	}
}

// rotate turns neighbours (2i, 2i+1) by the token's position.
func (l *latentLane[T]) rotate(x []T) {
	for i, c := range l.cos {
		a, b, s := x[2*i], x[2*i+1], l.sin[i]
		x[2*i] = T(a*c) - T(b*s)
		x[2*i+1] = T(a*s) + T(b*c)
	}
}

// layerNorm is LayerNorm with a bias (Ba et al., 2016), in place.
func layerNorm[T real](x []T, weight, bias []float32, epsilon float64) {
	var mean, square float64
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		square += float64(d * d)
	}
	scale := 1 / math.Sqrt(square/float64(len(x))+epsilon)
	for i, v := range x {
		x[i] = T(T((float64(v)-mean)*scale)*T(weight[i])) + T(bias[i])
	}
}
