package lm

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/units/portable"
)

// gated is a gated network (SwiGLU).
type gated struct {
	gate, up blas32.General // [its width, Width]
	down     blas32.General // [Width, its width]
}

// network is the part of a layer after attention: networks for every token, and experts, from which a router chooses.
type network struct {
	always []gated // a dense layer's own, or the shared experts
	routed
}

// routed is experts and their router (DeepSeek-V3, section 2.1.2, https://arxiv.org/abs/2412.19437). The choice adds a bias to the sigmoids
// of the router's products, the weights do not. They are divided by their sum.
type routed struct {
	experts []gated
	router  blas32.General // [experts, Width]
	bias    []float32
	chosen  int     // per token
	scale   float64 // of their sum
}

// networkLane is a token's data in the networks of a layer.
type networkLane[T real] struct {
	router   []T       // the router's products
	order    []float64 // router with the bias that only the choice of experts uses
	top      []float64 // scratch
	indices  []int32   // of the chosen experts
	branches []branch[T]
	passed   []branch[T] // networks of the layer for this token
}

// branch is a network that a token uses, and the weight of its result.
type branch[T real] struct {
	of              *gated
	weight          T
	gate, up, added []T
}

func newNetworkLane[T real](m *Model) (n networkLane[T]) {
	experts, branches, width := 0, 0, 0
	for i := range m.layers {
		y := &m.layers[i].network
		experts, branches = max(experts, len(y.experts)), max(branches, len(y.always)+y.chosen)
		for _, g := range append(y.experts[:len(y.experts):len(y.experts)], y.always...) {
			width = max(width, g.gate.Rows)
		}
	}
	n.router, n.order, n.top, n.indices = make([]T, experts), make([]float64, experts), make([]float64, experts), make([]int32, 0, experts)
	for range branches {
		n.branches = append(n.branches, branch[T]{gate: make([]T, width), up: make([]T, width), added: make([]T, m.Width)})
	}
	return n
}

// passNetwork adds the results of a layer's networks for the tokens' norms.
func passNetwork[T real](m *Model, y *network, lanes []*lane[T]) {
	if len(y.experts) > 0 {
		multiply(m, lanes, func(l *lane[T]) []product[T] {
			return []product[T]{{&y.router, l.normed, l.networks.router[:len(y.experts)]}}
		})
	}
	m.each(len(lanes), func(_, n int) { lanes[n].networks.route(y) })
	multiply(m, lanes, func(l *lane[T]) (all []product[T]) {
		for i := range l.networks.passed {
			b := &l.networks.passed[i]
			all = append(all, product[T]{&b.of.gate, l.normed, b.gate[:b.of.gate.Rows]}, product[T]{&b.of.up, l.normed, b.up[:b.of.up.Rows]})
		}
		return all
	})
	m.each(len(lanes), func(_, n int) {
		for i := range lanes[n].networks.passed {
			b := &lanes[n].networks.passed[i]
			activate(b.gate[:b.of.gate.Rows], b.up)
		}
	})
	multiply(m, lanes, func(l *lane[T]) (all []product[T]) {
		for i := range l.networks.passed {
			b := &l.networks.passed[i]
			all = append(all, product[T]{&b.of.down, b.gate[:b.of.gate.Rows], b.added})
		}
		return all
	})
	m.each(len(lanes), func(_, n int) {
		for _, b := range lanes[n].networks.passed {
			for i, v := range b.added {
				lanes[n].x[i] += T(b.weight * v)
			}
		}
	})
}

// route chooses the token's networks. Of equal experts the lower one is better.
func (n *networkLane[T]) route(y *network) {
	n.passed = n.branches[:len(y.always)+y.chosen]
	for i := range y.always {
		n.passed[i].of, n.passed[i].weight = &y.always[i], 1
	}
	if y.chosen == 0 {
		return
	}
	order := n.order[:len(y.experts)]
	for i := range order {
		n.router[i] = T(1 / (1 + portable.Exp(float64(-n.router[i]))))
		order[i] = float64(n.router[i]) + float64(y.bias[i])
	}
	var sum T
	n.indices = policy.AppendTop(n.indices[:0], order, y.chosen, n.top)
	for _, expert := range n.indices {
		sum += n.router[expert]
	}
	for i, expert := range n.indices {
		b := &n.passed[len(y.always)+i]
		b.of, b.weight = &y.experts[expert], T(n.router[expert]/sum)*T(y.scale)
	}
}
