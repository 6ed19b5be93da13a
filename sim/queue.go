package sim

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Tuning of Queue, by BenchmarkHold on x86-64. None of it changes the order of
// events.
const (
	// smallQueue is the number of pending events up to which the sorted array
	// alone is at least as fast as the wheel.
	smallQueue = 32
	// longestShift is the number of events in near that a push may pass.
	longestShift = 48
	// crowdedNear is the number of near events at which the wheel's buckets are too
	// wide for the load and are laid out again.
	crowdedNear = 64
	// spanOfMedian is how far the wheel reaches, in distances from the
	// earliest pending event to the median one. With exponential delays about
	// one event in six then lies beyond the wheel when it is pushed.
	spanOfMedian = 8
	// medianSample is the number of pending times that estimate the median.
	medianSample = 64
	// maxBuckets bounds the wheel's memory at 1 MiB.
	maxBuckets = 1 << 18
)

// Queue is the set of pending events of a simulation. The zero value is an
// empty queue at time 0.
//
// It is a calendar queue (R. Brown, CACM 31(10), 1988) with the lazy sorting
// of a ladder queue (Tang, Goh and Thng, TOMACS 15(3), 2005), in three parts
// by distance from now:
//
//   - near: all events up to the end of the current bucket, in a sorted array;
//     a push that would have to pass many of them goes to a heap beside it;
//   - the wheel: buckets of equal width, unordered, each moved into near when
//     its time comes;
//   - far: an unordered list of the events beyond the wheel, from which the
//     next wheel is laid out, its width chosen from their times, when this one
//     is used up.
//
// An event is moved a constant number of times on average, and sorted only
// among the few of its bucket. Where times defeat the buckets the heap does
// the work, O(log n).
type Queue struct {
	near  []node // sorted; those before head have been popped
	head  int
	heap  nodeHeap // near events out of turn
	limit Time     // the last time of near
	far   []node   // in no order

	// The wheel: bucket i holds the times [start + i<<shift, start +
	// (i+1)<<shift) as a list of nodes, by index + 1 (0 ends a list); bit i of
	// occupied says whether it is empty. Buckets up to current are in near.
	heads    []int32
	occupied []uint64
	nodes    []node
	free     int32 // list of unused nodes, by index + 1
	start    Time
	shift    uint
	current  uint64
	wheeled  int // events in the wheel

	nextLayout uint64 // the sequence from which a crowded near may lay out the wheel again

	now      Time
	sequence uint64
	err      error
	sample   []Time
}

// node is an event in the queue: 32 bytes and four fields, which the compiler
// keeps in registers.
type node struct {
	time  Time
	order uint64 // priority << 56 | sequence
	work  work
	next  int32 // in the list of a bucket or of unused nodes, by index + 1
}

// work is the part of an event that the queue does not look at.
type work struct{ kind, a, b int32 }

// before reports whether n is due before m.
func (n *node) before(m *node) bool {
	return n.time < m.time || (n.time == m.time && n.order < m.order)
}

// Now returns the time of the event popped last.
func (q *Queue) Now() Time { return q.now }

// Len returns the number of pending events.
func (q *Queue) Len() int { return q.nearLen() + q.wheeled + len(q.far) }

// nearLen returns the number of events up to limit.
func (q *Queue) nearLen() int { return len(q.near) - q.head + len(q.heap) }

// Pushed returns the number of events pushed so far.
func (q *Queue) Pushed() int64 { return int64(q.sequence) }

// Err returns the first error of the queue: an event pushed into the past, or a
// time beyond the range of Time. A
// queue with an error pops no more events, so that the loop over it ends.
func (q *Queue) Err() error { return q.err }

// Push adds e with priority p. An event before Now is dropped and becomes the
// queue's error.
func (q *Queue) Push(p Priority, e Event) {
	if e.Time < q.now {
		q.fail(e)
		return
	}
	n := node{time: e.Time, order: uint64(p)<<56 | q.sequence, work: work{e.Kind, e.A, e.B}}
	q.sequence++
	if n.time > q.limit {
		q.pushBeyond(n)
		return
	}
	q.pushNear(n)
	if q.nearLen() > crowdedNear && q.sequence >= q.nextLayout {
		q.layOut()
	}
}

// fail keeps the first event that was pushed into the past. A sum of times that
// overflows is in the past, too, and mostly negative.
func (q *Queue) fail(e Event) {
	switch {
	case q.err != nil:
	case e.Time < 0 || q.now > math.MaxInt64/2:
		q.err = fmt.Errorf("simulated time exceeds 106 days, the range of 64 bits of picoseconds (at %.0f s)", q.now.Seconds())
	default:
		q.err = fmt.Errorf("sim: event of kind %d (%d, %d) pushed at %v for the past instant %v",
			e.Kind, e.A, e.B, q.now, e.Time)
	}
}

// Pop removes the first pending event and moves Now to its time. It returns
// false where none is pending or the queue has an error.
func (q *Queue) Pop() (Event, bool) {
	if q.err != nil || q.head == len(q.near) && len(q.heap) == 0 && !q.advance() {
		return Event{}, false
	}
	var n node
	if len(q.heap) == 0 || q.head < len(q.near) && q.near[q.head].before(&q.heap[0]) {
		n = q.near[q.head]
		q.head++
	} else {
		n = q.heap.pop()
	}
	q.now = n.time
	return Event{Time: n.time, Kind: n.work.kind, A: n.work.a, B: n.work.b}, true
}

// pushNear adds n to near, or to the heap where it would have to pass too many
// events.
func (q *Queue) pushNear(n node) {
	// At least half of it popped: moving the rest costs less than it has saved.
	if len(q.near) == cap(q.near) && 2*q.head >= len(q.near) {
		q.near = q.near[:copy(q.near, q.near[q.head:])]
		q.head = 0
	}
	q.near = append(q.near, n)
	i := len(q.near) - 1
	if i == q.head || !n.before(&q.near[i-1]) {
		return
	}
	q.sink(i, n)
}

// sink moves n, the last of near, to its place.
func (q *Queue) sink(i int, n node) {
	s := q.near
	stop := q.head
	if i-longestShift > stop {
		stop = i - longestShift
		if n.before(&s[stop]) {
			q.near = s[:i]
			q.heap.push(n)
			return
		}
	}
	for i > stop && n.before(&s[i-1]) {
		s[i] = s[i-1]
		i--
	}
	s[i] = n
}

// pushBeyond adds n, which is due after the current bucket, to its bucket or
// to far.
func (q *Queue) pushBeyond(n node) {
	i := uint64(n.time-q.start) >> q.shift
	if i >= uint64(len(q.heads)) {
		q.far = append(q.far, n)
		return
	}
	q.pushBucket(i, n)
}

// pushBucket adds n to bucket i of the wheel.
func (q *Queue) pushBucket(i uint64, n node) {
	n.next = q.heads[i]
	at := q.free
	if at == 0 {
		q.nodes = append(q.nodes, n)
		at = int32(len(q.nodes))
	} else {
		free := &q.nodes[at-1]
		q.free = free.next
		*free = n
	}
	q.heads[i] = at
	q.occupied[i>>6] |= 1 << (i & 63)
	q.wheeled++
}

// advance moves the next bucket that holds events into near, which is empty, laying
// out a new wheel where this one is used up. It returns false where nothing is
// pending.
func (q *Queue) advance() bool {
	if q.wheeled == 0 {
		if len(q.far) == 0 {
			return false
		}
		q.layOut()
		return true
	}
	i := q.current + 1
	word := q.occupied[i>>6] &^ (1<<(i&63) - 1)
	for i >>= 6; word == 0; word = q.occupied[i] {
		i++
	}
	q.current = i<<6 + uint64(bits.TrailingZeros64(word))
	q.setLimit()
	q.drain()
	return true
}

// drain moves the events of the current bucket into near, which is empty.
func (q *Queue) drain() {
	q.near, q.head = q.near[:0], 0
	for at := q.heads[q.current]; at != 0; {
		n := &q.nodes[at-1]
		q.near = append(q.near, *n)
		next := n.next
		n.next = q.free
		q.free = at
		at = next
	}
	q.wheeled -= len(q.near)
	q.heads[q.current] = 0
	q.occupied[q.current>>6] &^= 1 << (q.current & 63)

	// The list has the latest push first; events of one time, of which there
	// may be many, want the earliest first.
	slices.Reverse(q.near)
	unsorted := q.near
	q.near = q.near[:1]
	for _, n := range unsorted[1:] {
		q.pushNear(n)
	}
}

// setLimit sets limit to the end of the current bucket.
func (q *Queue) setLimit() {
	q.limit = Time(min(uint64(q.start)+(q.current+1)<<q.shift-1, math.MaxInt64))
}

// layOut distributes all pending events, of which there is at least one, over
// the three parts anew, with buckets that suit their times. It leaves at least
// one event in near.
func (q *Queue) layOut() {
	q.gather()
	if len(q.far) <= smallQueue {
		for _, n := range q.far {
			q.pushNear(n)
		}
		q.far = q.far[:0]
		q.limit = math.MaxInt64
		q.nextLayout = q.sequence
		return
	}
	q.chooseBuckets()
	q.current = 0
	q.setLimit()
	kept := 0
	for _, n := range q.far {
		switch i := uint64(n.time-q.start) >> q.shift; {
		case i == 0:
			q.pushNear(n)
		case i < uint64(len(q.heads)):
			q.pushBucket(i, n)
		default:
			q.far[kept] = n
			kept++
		}
	}
	q.far = q.far[:kept]
	// A layout costs a few nanoseconds a pending event: wait for as many
	// pushes before the next one, and longer where this one did not help.
	q.nextLayout = q.sequence + uint64(q.Len())
	if q.nearLen() > crowdedNear {
		q.nextLayout += 15 * uint64(q.Len())
	}
}

// gather moves all events to far.
func (q *Queue) gather() {
	q.far = append(q.far, q.near[q.head:]...)
	q.far = append(q.far, q.heap...)
	q.near, q.head, q.heap = q.near[:0], 0, q.heap[:0]
	if q.wheeled == 0 {
		return
	}
	for i, at := range q.heads {
		for at != 0 {
			n := &q.nodes[at-1]
			q.far = append(q.far, *n)
			at = n.next
		}
		q.heads[i] = 0
	}
	clear(q.occupied)
	q.nodes = q.nodes[:0]
	q.free = 0
	q.wheeled = 0
}

// chooseBuckets sets number, width and start of the buckets, all empty, from
// the times in far. The median decides, as a few events in the remote future
// (requests that arrive later) must not widen the buckets for all others.
func (q *Queue) chooseBuckets() {
	first := q.far[0].time
	for i := range q.far {
		first = min(first, q.far[i].time)
	}
	q.sample = q.sample[:0]
	// An odd stride, so that a pattern of pushes does not repeat in it.
	for i, stride := 0, len(q.far)/medianSample|1; i < len(q.far); i += stride {
		q.sample = append(q.sample, q.far[i].time)
	}
	slices.Sort(q.sample)
	median := q.sample[len(q.sample)/2]
	reach := min(uint64(median-first), math.MaxInt64/spanOfMedian) * spanOfMedian

	buckets := min(1<<bits.Len(uint(2*len(q.far)-1)), maxBuckets)
	q.start = first
	q.shift = 0
	for uint64(buckets)<<q.shift < reach {
		q.shift++
	}
	if buckets > cap(q.heads) {
		q.heads = make([]int32, buckets)
		q.occupied = make([]uint64, buckets/64)
	}
	// Empty lists are zero, also beyond the length: see gather and advance.
	q.heads = q.heads[:buckets]
	q.occupied = q.occupied[:buckets/64]
}
