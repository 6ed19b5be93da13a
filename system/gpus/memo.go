package gpus

import (
	"sync"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// Memo caches a cost by a count, as successive batches differ by few tokens.
type Memo[T any] struct {
	costs []*T
	Cost  func(n int) *T
	anew  *anew
}

// anew is a switch that disables caches of costs; nil is off.
type anew struct{ set bool }

func (a *anew) on() bool { return a != nil && a.set }

// At returns the cost of n, which callers must not change.
func (m *Memo[T]) At(n int) *T {
	if m.anew.on() {
		return m.Cost(n)
	}
	if n >= len(m.costs) {
		m.costs = append(m.costs, make([]*T, n+1-len(m.costs))...)
	}
	if m.costs[n] == nil {
		m.costs[n] = m.Cost(n)
	}
	return m.costs[n]
}

// Times caches a time by a count, in one array: predictions ask for many counts, each of them rarely.
type Times struct {
	known []units.Duration // 0: unknown, or none
	of    func(n int) units.Duration
	anew  *anew
}

// At returns the time of n.
func (m *Times) At(n int) units.Duration {
	if m.anew.on() {
		return m.of(n)
	}
	if n >= len(m.known) {
		m.known = append(m.known, make([]units.Duration, n+1-len(m.known))...)
	}
	if m.known[n] == 0 {
		m.known[n] = m.of(n)
	}
	return m.known[n]
}

// lately caches the costs of dense layers of recent nodes. All rates of a search, and most points of it or of a sweep, have the same GPUs and
// model.
var lately knownCosts

// costed determines the costs of dense layers.
type costed struct {
	gpu      gpu.Spec
	model    llm.Model
	verified int // tokens of a request's decode step
}

// knownCosts is a cache of costs, by what determines them.
type knownCosts struct {
	sync.Mutex
	by map[costed]*costs
}

const mostKnown = 32 // bounds the memory of knownCosts, with up to a few megabytes each

// costs are those of dense layers, by tokens, and of the LM head, by emitted tokens.
type costs struct {
	dense shared[dense]
	head  shared[headCost]
}

// of returns the costs of GPUs and a model. A full cache drops all others.
func (k *knownCosts) of(x *costed) *costs {
	k.Lock()
	defer k.Unlock()
	known := k.by[*x]
	if known == nil {
		if k.by == nil || len(k.by) == mostKnown {
			k.by = map[costed]*costs{}
		}
		known = &costs{}
		k.by[*x] = known
	}
	return known
}

// shared caches a cost by a count, for replicas that run in parallel.
type shared[T any] struct {
	mu sync.Mutex
	by map[int]*T
}

// at returns the cost of n. It computes the cost if it is not cached, or if anew is set.
func (s *shared[T]) at(n int, anew bool, cost func() T) *T {
	if anew {
		c := cost()
		return &c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[n] == nil {
		if s.by == nil {
			s.by = map[int]*T{}
		}
		c := cost()
		s.by[n] = &c
	}
	return s.by[n]
}
