package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// waiting is a request that has prompt tokens to prefill. For one that was
// preempted, the tokens that it had emitted are part of the prompt.
type waiting struct {
	request  int32
	prompt   int  // tokens to prefill
	emitted  int  // output tokens emitted before
	finished int  // prompt tokens prefilled, or found in the cache
	prefix   int  // of these, found in the cache
	begun    bool // some were prefilled once
	cut      bool // its keys and values are counted in usage.cutPrompts
	held     bool // hold is reserved
	hold     Reservation
	staged   Reservation // on the GPUs, of a cut prompt that goes to the host
}

// fresh says that no token of a request was ever computed.
func (w *waiting) fresh() bool { return !w.begun && w.emitted == 0 }

// queue is the requests that wait, in the order of their arrival. Only its head may start. The requests
// that have memory are at the head.
type queue struct {
	list    []waiting // from head on
	head    int
	blocked bool    // the head may not start, and no memory was freed since it was refused
	refusal refusal // why the head may not start
}

// refusal is the reason why the head of the queue may not start.
type refusal struct {
	cause refusalCause
	step  int64 // the step of the refusal
}

// refusalCause is why a request was not admitted: it says after which event to ask again.
type refusalCause int

const (
	noMemory refusalCause = iota // its tokens do not fit
	noGrowth                     // its tokens fit now, but not after the expected growth of requests
	noSeat                       // MaxNumSeqs requests run
)

// len returns the number of requests that wait.
func (q *queue) len() int { return len(q.list) - q.head }

// first returns the head of a queue that is not empty.
func (q *queue) first() *waiting { return &q.list[q.head] }

// asks says whether a request waits that may find memory.
func (q *queue) asks() bool { return q.head < len(q.list) && !q.blocked }

// held returns the requests that have memory.
func (q *queue) held() []waiting {
	end := q.head
	for end < len(q.list) && q.list[end].held {
		end++
	}
	return q.list[q.head:end]
}

// add puts a request at the end. The queue is compacted when more than half of its list is free.
// Then some free slots stay in front of the head for requests that return.
func (q *queue) add(w waiting) {
	const slots = 256
	if q.head > 4*slots && q.head > len(q.list)/2 {
		q.list = append(q.list[:slots], q.list[q.head:]...)
		q.head = slots
	}
	q.list = append(q.list, w)
}

// pushFront returns a request to the head.
func (q *queue) pushFront(w waiting) {
	if q.head == 0 {
		q.list, q.head = slices.Insert(q.list, 0, waiting{}), 1
	}
	q.head--
	q.list[q.head] = w
	q.blocked = false
}

// Expire drops the requests that came before a time and whose prompts have not begun, the
// oldest first. One that has memory already frees it.
func (s *State) Expire(before units.Duration, dropped func(request int32)) {
	q := &s.queue
	first := q.head
	for first < len(q.list) && !q.list[first].fresh() {
		first++
	}
	last := first
	for ; last < len(q.list) && q.list[last].fresh() && s.requests[q.list[last].request].Arrival < before; last++ {
		if w := &q.list[last]; w.held {
			s.release(w.hold)
		}
		dropped(q.list[last].request)
	}
	if last > first {
		q.list = slices.Delete(q.list, first, last)
		q.blocked = false
	}
}
