package batching

import (
	"slices"

	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// Waiting is a request that has prompt tokens to prefill. For one that was
// preempted, the tokens that it had emitted are part of the prompt.
type Waiting struct {
	Request  int32
	Prompt   int            // tokens to prefill
	Emitted  int            // output tokens emitted before
	finished int            // prompt tokens prefilled, or found in the cache
	prefix   int            // prompt tokens found in the cache; finished contains them
	others   int            // prompt tokens that other requests had computed and that were found in the cache; prefix contains them
	begun    bool           // some prompt tokens were prefilled once
	Cut      bool           // its keys and values are counted in usage.cutPrompts
	held     bool           // hold is reserved
	comes    units.Duration // when its keys and values arrive, of one that is prefilled elsewhere and holds memory
	Hold     memory.Reservation
	Staged   memory.Reservation // on the GPUs, of a cut prompt that goes to the host
}

// fresh says that no token of the request was ever computed.
func (w *Waiting) fresh() bool { return !w.begun && w.Emitted == 0 }

// queue is the waiting requests in order of arrival. Only its head may start. Requests that hold
// memory are at the head.
type queue struct {
	list    []Waiting // from head on
	head    int
	Blocked bool    // the head may not start, and no memory was freed since it was refused
	Refusal Refusal // why the head may not start

	elsewhere bool // prompts run elsewhere: no batch has prompt tokens
}

// Refusal is the reason why the head of the queue may not start.
type Refusal struct {
	Cause refusalCause
	step  int64 // the step of the refusal
}

// refusalCause is why a request was not admitted. It decides which event lets the request ask
// again.
type refusalCause int

const (
	noMemory refusalCause = iota // its tokens do not fit
	NoGrowth                     // its tokens fit now, but not after running requests have grown as expected
	NoSeat                       // MaxNumSeqs requests run
	NoGain                       // the host or ranks have room, but the request would slow others there
)

// Len returns the number of requests that wait.
func (q *queue) Len() int { return len(q.list) - q.head }

// First returns the head of a queue that is not empty.
func (q *queue) First() *Waiting { return &q.list[q.head] }

// At returns the request behind i others.
func (q *queue) At(i int) *Waiting { return &q.list[q.head+i] }

// Asks says whether the head of the queue may find memory for its prompt here.
func (q *queue) Asks() bool { return q.head < len(q.list) && !q.Blocked && !q.elsewhere }

// Held returns the requests that have memory.
func (q *queue) Held() []Waiting {
	end := q.head
	for end < len(q.list) && q.list[end].held {
		end++
	}
	return q.list[q.head:end]
}

// add puts a request at the end. The queue is compacted when more than half of its list is free;
// some free slots stay in front of the head for requests that return.
func (q *queue) add(w Waiting) {
	const slots = 256
	if q.head > 4*slots && q.head > len(q.list)/2 {
		q.list = append(q.list[:slots], q.list[q.head:]...)
		q.head = slots
	}
	q.list = append(q.list, w)
}

// pushFront returns a request to the head.
func (q *queue) pushFront(w Waiting) {
	if q.head == 0 {
		q.list, q.head = slices.Insert(q.list, 0, Waiting{}), 1
	}
	q.head--
	q.list[q.head] = w
	q.Blocked = false
}

// insert puts a request that lost its memory back in its place by arrival. No request in front of it has memory.
func (q *queue) insert(w Waiting) {
	q.pushFront(w)
	for i := q.head; i+1 < len(q.list) && q.list[i+1].Request < w.Request; i++ {
		q.list[i], q.list[i+1] = q.list[i+1], q.list[i]
	}
}

// Expire drops the requests that arrived before a time and whose prompts have not begun, oldest
// first, even those that the scheduler has not seen yet. A dropped request frees the memory that it
// holds.
func (s *State) Expire(before units.Duration, dropped func(request int32)) {
	q := &s.Queue
	first := q.head
	for first < len(q.list) && !q.list[first].fresh() {
		first++
	}
	last := first
	for ; last < len(q.list) && s.expired(&q.list[last], before); last++ {
		if w := &q.list[last]; w.held {
			s.Release(w.Hold)
		}
		dropped(q.list[last].Request)
	}
	if last > first {
		q.list = slices.Delete(q.list, first, last)
		q.Blocked = false
	}
	s.during.came = slices.DeleteFunc(s.during.came, func(w Waiting) bool {
		late := s.expired(&w, before)
		if late {
			dropped(w.Request)
		}
		return late
	})
}

// expired says that a request arrived before a time and that its prompt has not begun.
func (s *State) expired(w *Waiting, before units.Duration) bool {
	return w.fresh() && s.Requests[w.Request].Arrival < before
}
