package dataflow

import (
	"math"
	"slices"
)

// pastStates is the longest period, in layers, in which a repeat is found.
const pastStates = 16

// snapshot is the state of all resources at the start of a layer, relative to the time, the layer
// and the numbering of lanes then.
type snapshot struct {
	state []int64
	at    Time
	waits Waits // until then
}

// history is the latest snapshots of an iteration.
type history struct {
	ring  [pastStates]snapshot
	count int
	over  bool // a repeat has been found and used
}

func (h *history) reset() { h.count, h.over = 0, false }

// skipRepeats jumps over layers. With rotating lanes numbered from the layer's first (L3, section
// 5.1), equal ranges of operations are equal work, and the state at a layer's start determines the
// future as long as the ranges stay the same. If it equals the state n layers earlier, the n layers
// between repeat, and multiples of them are added without simulation. The result is the same to the
// picosecond; the switch that runs every layer is Exact.
func (e *Engine) skipRepeats(s int8) {
	if e.Exact || e.past.over || s != e.reference() {
		return
	}
	h := &e.past
	now := &h.ring[h.count%pastStates]
	now.state = e.appendState(now.state[:0])
	now.at = e.now
	e.settle(e.now)
	now.waits = e.waits
	h.count++
	for back := 1; back <= min(h.count, pastStates)-1; back++ {
		then := &h.ring[(h.count-1-back)%pastStates]
		if slices.Equal(then.state, now.state) {
			if times := e.repeats(int32(back)); times > 0 {
				more := now.waits
				more.add(&then.waits, -1)
				e.waits.add(&more, Time(times))
				e.shift(Time(times)*(e.now-then.at), times*int32(back))
				h.over = true
			}
			return
		}
	}
}

// reference returns the sub-batch whose layers are counted.
func (e *Engine) reference() int8 {
	if e.sub[0].active {
		return 0
	}
	return 1
}

// repeats returns how often the last period layers are repeated by those that follow. It stops at
// the first layer of either sub-batch that differs from the layer a period before it. A last layer
// differs from all others.
func (e *Engine) repeats(period int32) int32 {
	most := int32(math.MaxInt32)
	for s := range e.sub {
		if e.sub[s].active && !e.over(s) {
			most = min(most, e.same(s, period))
		}
	}
	return most / period
}

// same returns how many layers after a sub-batch's layer have the same operations as the layers a
// period before them.
func (e *Engine) same(s int, period int32) int32 {
	sub, order := &e.sub[s], e.it.Sub[s].Order
	next := sub.layer + 1
	at, until := sub.at, sub.until       // of the next layer
	back, backUntil := 0, order[0].Count // of the layer a period before it
	for next < sub.total-1 && next >= period {
		for next >= until {
			at++
			until += order[at].Count
		}
		for next-period >= backUntil {
			back++
			backUntil += order[back].Count
		}
		if order[at].Kind != order[back].Kind {
			break
		}
		next = min(until, backUntil+period, sub.total-1)
	}
	return next - sub.layer - 1
}

// over says whether a sub-batch has ended its last layer.
func (e *Engine) over(s int) bool { return e.sub[s].layer == e.sub[s].total }

// shift moves the whole state forward by a time and a number of layers.
func (e *Engine) shift(by Time, layers int32) {
	if e.spans != nil {
		e.spans.shift(e, by, layers)
	}
	e.now += by
	e.end += by
	e.idle.until += by
	e.idle.mark += by
	for i := range e.story {
		e.story[i].end += by
	}
	for i := range e.servers {
		s := &e.servers[i]
		s.free += by
		for j := range s.ahead {
			s.ahead[j].begin += by
			s.ahead[j].end += by
		}
	}
	for i := range e.wakes {
		e.wakes[i].at += by
		e.wakes[i].layer += layers
	}
	for i := range e.state {
		e.state[i].ready += by
	}
	for s := range e.sub {
		if e.sub[s].active && !e.over(s) {
			sub := &e.sub[s]
			for sub.layer += layers; sub.layer >= sub.until; {
				sub.at++
				sub.until += e.it.Sub[s].Order[sub.at].Count
			}
		}
	}
	e.shiftLanes(by, layers)
	for i := range e.links {
		l := &e.links[i]
		l.end += by
		l.current.move(by, layers)
		for c := range l.queues {
			for j := range l.queues[c].rest() {
				l.queues[c].rest()[j].move(by, layers)
			}
		}
	}
}

// shiftLanes is shift for the lanes. Rotating lanes change places, too.
func (e *Engine) shiftLanes(by Time, layers int32) {
	for q := range e.lanes {
		l := &e.lanes[q]
		l.freeAt += by
		l.running.layer += layers
		for i := range l.waiting {
			l.waiting[i].layer += layers
		}
	}
	for i := range e.due {
		if e.due[i] != never {
			e.due[i] += by
		}
	}
	for i := range e.resources {
		if r := &e.resources[i]; r.Rotates {
			first, turn := e.servers[i].lanes, int(layers)%r.Count
			rotate(e.lanes[first:first+r.Count], turn)
			rotate(e.due[first:first+r.Count], turn)
		}
	}
}

// move shifts an operation over skipped layers.
func (t *queued) move(by Time, layers int32) {
	t.eligible += by
	t.layer += layers
}

// rotate moves element i to i + n, cyclically.
func rotate[T any](r []T, n int) {
	slices.Reverse(r)
	slices.Reverse(r[:n])
	slices.Reverse(r[n:])
}

// appendState appends all that determines the future. Times in the past that only bound the future
// from below are written as now. The lane of an operation follows from its layer. An operation that
// waits for a single other needs no entry: the other's entry determines it.
func (e *Engine) appendState(b []int64) []int64 {
	first := e.sub[e.reference()].layer
	since := func(t Time) int64 { return int64(max(t-e.now, 0)) }
	for s := range e.sub {
		if e.sub[s].active {
			b = append(b, int64(e.sub[s].layer-first))
			if e.over(s) {
				b[len(b)-1] = -1 << 32
				continue
			}
			b = append(b, int64(e.it.Sub[s].Order[e.sub[s].at].Kind))
		}
	}
	for _, i := range e.joins {
		s := &e.state[i]
		b = append(b, int64(s.waits))
		if s.waits > 0 {
			b = append(b, int64(s.from), since(s.ready))
		}
	}
	b = append(b, int64(len(e.wakes)))
	for i := range e.wakes {
		w := &e.wakes[i]
		b = append(b, int64(w.layer-first)<<8|int64(w.sub), w.order, int64(w.at-e.now))
	}
	for i := range e.resources {
		switch s := &e.servers[i]; e.resources[i].Discipline {
		case FIFO:
			b = append(b, since(s.free))
			for _, a := range s.ahead {
				if a.end > e.now {
					b = append(b, since(a.begin), int64(a.end-e.now))
				}
			}
			b = append(b, -1)
		case Link:
			b = e.links[s.link].appendState(b, e.now, first)
		case Lanes:
			b = e.appendLanes(b, i, first)
		}
	}
	return b
}

// identity packs a task, with its layer counted from first.
func (t *task) identity(first int32) int64 {
	return int64(t.op)<<32 | int64(uint16(t.layer-first))<<8 | int64(t.sub)
}

// appendState writes a link's running and waiting operations, relative to now and to the layer first: states
// with the same numbers have the same future.
func (l *link) appendState(b []int64, now Time, first int32) []int64 {
	b = append(b, -1)
	if l.busy {
		b[len(b)-1] = int64(l.end - now)
		b = l.current.appendState(b, now, first)
	}
	for c := range l.queues {
		rest := l.queues[c].rest()
		b = append(b, int64(len(rest)))
		for i := range rest {
			b = rest[i].appendState(b, now, first)
		}
	}
	return b
}

func (t *queued) appendState(b []int64, now Time, first int32) []int64 {
	return append(b, t.identity(first), int64(t.pieces), int64(max(t.eligible-now, 0)))
}

// appendLanes appends the lanes of a resource, beginning with the layer's first.
func (e *Engine) appendLanes(b []int64, resource int, layer int32) []int64 {
	r, lanes := &e.resources[resource], e.servers[resource].lanes
	q := r.turn(layer)
	for range r.Count {
		l := &e.lanes[lanes+q]
		b = append(b, int64(len(l.waiting)), int64(max(l.freeAt-e.now, 0)))
		if l.running.op == idle {
			b = append(b, -1)
		} else {
			b = append(b, int64(e.due[lanes+q]-e.now), l.running.identity(layer))
		}
		for i := range l.waiting {
			b = append(b, l.waiting[i].identity(layer))
		}
		if q++; q == r.Count {
			q = 0
		}
	}
	return b
}
