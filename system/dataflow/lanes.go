package dataflow

import (
	"math"
	"math/bits"

	"github.com/l3sim/l3sim/units"
)

// Clock converts between time and the clocks that a rank computes; the rank refreshes in between,
// at its long-run rate.
type Clock struct {
	tCK                 Time
	interval, computing int64   // tREFI, and tREFI − tRFC: the computing clocks of an interval
	rate                float64 // clocks computed per picosecond
	most                int64   // clocks that take at most Longest
	inverse             uint64  // of computing, rounded up, in units of 2^-64
	exact               int64   // largest number for which inverse gives the exact quotient by computing
}

// Longest is the longest time of an operation: 75 minutes. Sums of a few do not overflow.
const Longest = Time(1 << 52)

// NewClock returns the clock of a rank that computes for computing clocks of each
// interval; both are positive.
func NewClock(tCK Time, interval, computing int64) Clock {
	c := Clock{tCK: tCK, interval: interval, computing: computing, rate: float64(computing) / (float64(interval) * float64(tCK))}
	c.inverse = math.MaxUint64/uint64(computing) + 1 // wraps to 0 for 1, and is then not used
	c.exact = int64(c.inverse>>1) - 1
	c.most = min(c.Clocks(Longest)-1, math.MaxInt64/interval-1)
	return c
}

// Time returns the time of a number of computing clocks, at most Longest.
func (c *Clock) Time(clocks int64) Time {
	if clocks > c.most {
		return Longest
	}
	n := clocks*c.interval + c.computing - 1
	if n <= c.exact {
		n, _ := bits.Mul64(uint64(n), c.inverse)
		return units.Duration(n) * c.tCK
	}
	return units.Duration(n/c.computing) * c.tCK
}

// Clocks returns the clocks that a rank has computed within t, to within one.
func (c *Clock) Clocks(t Time) int64 { return int64(float64(t) * c.rate) }

// Boundaries are where a claim can interrupt an operation: at the end of a head, or earlier at a
// multiple of Step from the head's start.
type Boundaries struct {
	Clock Clock
	Each  int64 // heads in each of the operation's Parts
	Step  int64 // clocks; 0: only at the ends of heads
}

// wait returns how long a claim that arrives elapsed > 0 after an operation's start waits for a
// boundary. The boundary's time counts from the operation's start, so that the stop does not depend
// on when within a clock the claim arrived.
func (b *Boundaries) wait(parts []int64, elapsed Time) Time {
	at := b.Clock.Clocks(elapsed)
	boundary := b.Clock.Time(b.next(parts, at))
	if boundary < elapsed { // at is rounded down
		boundary = b.Clock.Time(b.next(parts, at+1))
	}
	return max(boundary-elapsed, 0)
}

// longest returns an upper bound of a claim's wait for a boundary.
func (b *Boundaries) longest() Time {
	if b.Step == 0 {
		return Longest
	}
	return b.Clock.Time(b.Step)
}

// next returns the first boundary not before at, in clocks from the operation's start.
func (b *Boundaries) next(parts []int64, at int64) int64 {
	start := int64(0)
	for _, head := range parts {
		end := start + head*b.Each
		if at > end {
			start = end
			continue
		}
		within := (at - start) % head // within a head
		switch {
		case within == 0:
			return at
		case b.Step == 0:
			return at + head - within
		}
		return at + min(head-within, b.Step-1-(within-1)%b.Step)
	}
	return at // within the drain of the last head
}

// task is an operation of a sub-batch in a layer.
type task struct {
	op    int32
	layer int32
	sub   int8
}

// idle is the operation of a lane that computes nothing.
const idle = int32(-1)

// lane is one of the lanes of a resource. The end of its running operation is in the engine's due
// times.
type lane struct {
	running task
	freeAt  Time // nothing runs before this time: the lane receives
	stop    Time // when it stopped for the transfer in progress, or never
	active  bool // the stopped operation had begun
	waiting []task
}

// lane returns the index, among the lanes of all resources, of a resource's lane n, counted from
// the layer's first.
func (s *server) lane(n int16, layer int32) int {
	if s.rotates > 0 {
		turn := uint32(n) + uint32(layer) + s.rotates - 1
		if s.rotates&(s.rotates-1) == 0 { // usual, and ten times as fast as a division
			return s.lanes + int(turn&(s.rotates-1))
		}
		return s.lanes + int(turn%s.rotates)
	}
	return s.lanes + int(n)
}

// turn returns the lane that is lane 0 of a layer: 0 for the model's first layer, which is layer 1.
func (r *Resource) turn(layer int32) int {
	if !r.Rotates {
		return 0
	}
	return (int(layer) + r.Count - 1) % r.Count
}

// queueOnLane runs a task on its lane, or queues it there.
func (e *Engine) queueOnLane(t task, x *opState) {
	q := x.on.lane(x.Lane, t.layer)
	l := &e.lanes[q]
	if x.Resource == e.device {
		e.reached(t.sub)
	}
	if l.running.op != idle || len(l.waiting) > 0 {
		l.waiting = append(l.waiting, t)
		return
	}
	e.startOnLane(q, t, x)
}

// startOnLane starts an operation on a free lane.
func (e *Engine) startOnLane(q int, t task, x *opState) {
	l := &e.lanes[q]
	at := max(e.now, l.freeAt)
	e.story[t.op].begun = e.now
	l.running.op, l.running.layer, l.running.sub, e.due[q] = t.op, t.layer, t.sub, at+x.Last
	if e.spans != nil {
		e.spans.open(q, Span{Start: at, Ready: e.now, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: x.Resource, Lane: int16(q - x.on.lanes)})
	}
}

// endOnLane ends the running task of a lane and starts the next.
func (e *Engine) endOnLane(q int) {
	l := &e.lanes[q]
	t := l.running
	if e.spans != nil {
		e.spans.close(q, e.now)
	}
	l.running.op, e.due[q] = idle, never
	if e.state[t.op].Resource == e.device {
		e.left(t.sub, e.now)
	}
	e.ended(t, &e.state[t.op], e.now)
	if l.running.op == idle && len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting = append(l.waiting[:0], l.waiting[1:]...)
		e.startOnLane(q, next, &e.state[next.op])
	}
}

// claim stops the lanes that a transfer of the given length goes to at their next boundaries,
// returns when its data begins, and lets the lanes resume after it.
func (e *Engine) claim(t task, x *opState, length Time) (begin Time) {
	spec, s := &e.resources[x.Claims-1], &e.servers[x.Claims-1]
	if x.Flags&ClaimAll == 0 {
		q := s.lane(x.Lane, t.layer)
		begin = e.clear(x, e.leave(q, spec)+x.Open, length)
		e.resume(q, spec, t, x, begin, length)
		return begin
	}
	for q := range spec.Count {
		begin = max(begin, e.leave(s.lanes+q, spec))
	}
	begin = e.clear(x, begin+x.Open, length)
	for q := range spec.Count {
		e.resume(s.lanes+q, spec, t, x, begin, length)
	}
	return begin
}

// resume lets a lane continue after a transfer.
func (e *Engine) resume(q int, spec *Resource, t task, x *opState, begin, length Time) {
	l, at := &e.lanes[q], begin+length+x.Close
	if l.stop != never {
		if l.active {
			at += spec.Reactivate
		}
		e.due[q] += at - l.stop
	}
	l.freeAt = at
	if e.spans != nil {
		e.spans.claimed(t, x.Claims-1, q, int16(q-e.servers[x.Claims-1].lanes), l, begin, length)
	}
}

// leave returns when a lane has stopped: at the next boundary of its running operation, which it
// records, or never if nothing is interrupted. An operation that has not begun has no row open and
// stops at once.
func (e *Engine) leave(q int, spec *Resource) Time {
	l := &e.lanes[q]
	left := max(e.now, l.freeAt)
	l.stop = never
	if l.running.op == idle {
		return left
	}
	remaining, o := e.due[q]-left, &e.it.Ops[l.running.op]
	if remaining <= 0 { // it ends before another link's claim can stop it
		return left
	}
	l.active = remaining < o.Last
	if !l.active {
		l.stop = left
		return left
	}
	wait := spec.Boundaries.wait(e.it.Parts[o.Parts.From:o.Parts.To], o.Last-remaining)
	if wait >= remaining {
		return left + remaining
	}
	l.stop = left + wait
	return l.stop + spec.Vacate
}
