package system

import (
	"cmp"
	"container/heap"
	"context"
	"slices"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// front runs replicas that depend on one another in one loop over time: a router looks at all of
// them, or users wait for answers before they send.
type front struct {
	replicas []*replica
	router   string
	requests []traces.Request
	order    []int32 // requests that arrive independently of others, by arrival; in a closed loop in the order in which users send them
	next     int     // first of order that has not arrived
	closed   bool    // order waits for users
	think    func() units.Duration
	due      due               // what users will send
	after    map[int32][]int32 // of a turn of a conversation, the turns that wait for its end
	waits    map[int32]joining // what each of these waits for
	api      *apiServer        // nil for none
	now      units.Duration
}

// together says whether the replicas of a node depend on one another.
func (n *Node) together(trace *traces.Trace) bool {
	return n.Replicas() > 1 && n.cfg.Serving.Router != scheduler.RouteRoundRobin || n.cfg.Serving.HasAPIServer() || trace.Arrivals.Closed != nil || trace.Waits()
}

func newFront(trace *traces.Trace, router string, replicas []*replica) *front {
	f := &front{replicas: replicas, router: router, requests: trace.Requests, order: inOrder(trace.Requests), api: replicas[0].api}
	for _, r := range replicas {
		r.left = func(place int32) { f.answer(place, r.iteration.late) }
	}
	if c := trace.Arrivals.Closed; c != nil {
		f.closed, f.think = true, c.Thinking()
		for range min(c.Users, len(f.requests)) {
			f.answer(nobody, 0)
		}
	} else if trace.Waits() {
		f.after, f.waits = trace.Turns(), map[int32]joining{}
		for _, turns := range f.after {
			for _, next := range turns {
				f.waits[next] = joining{turns: f.waits[next].turns + 1}
			}
		}
		f.order = slices.DeleteFunc(f.order, func(place int32) bool { return f.waits[place].turns > 0 })
	}
	return f
}

// joining is a turn of a conversation that waits for others.
type joining struct {
	turns int            // that have not ended
	last  units.Duration // the latest end of turns that have ended
}

const nobody = -1 // the place of no request

func inOrder(requests []traces.Request) []int32 {
	order := make([]int32, len(requests))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(requests[a].Arrival, requests[b].Arrival) })
	return order
}

// answer makes a user send the next request: in a closed loop the next of all, in a conversation the next
// turn. The user has the answer to the request at place after a time late, and then thinks. With nobody
// as place, the user begins.
func (f *front) answer(place int32, late units.Duration) {
	if f.api != nil {
		f.api.inside.Add(late)
	}
	if f.closed {
		heap.Push(&f.due, sent{f.now + late + f.think(), nobody})
		return
	}
	for _, next := range f.after[place] {
		w := f.waits[next]
		w.turns, w.last = w.turns-1, max(w.last, f.now+late)
		if f.waits[next] = w; w.turns == 0 {
			heap.Push(&f.due, sent{w.last + f.requests[next].Turn.Think, next})
		}
	}
}

// arrival returns when the next request arrives, from a user or from the API server; never after the last.
func (f *front) arrival() units.Duration {
	at := never
	if f.next < len(f.order) && !f.closed {
		at = f.requests[f.order[f.next]].Arrival
	}
	if len(f.due) > 0 && (!f.closed || f.next < len(f.order)) {
		at = min(at, f.due[0].at)
	}
	return min(at, f.api.ready())
}

// run simulates all replicas until all requests are done or ctx is.
func (f *front) run(ctx context.Context) error {
	for _, r := range f.replicas {
		r.begin()
	}
	for {
		now := f.arrival()
		for _, r := range f.replicas {
			now = min(now, r.iteration.ends)
		}
		if now == never {
			break
		}
		if err := f.step(ctx, now); err != nil {
			return err
		}
	}
	for _, r := range f.replicas {
		if err := r.finish(); err != nil {
			return err
		}
	}
	return nil
}

// step handles all that happens at an instant: iterations end, requests arrive, and replicas
// without an iteration form the next one.
func (f *front) step(ctx context.Context, now units.Duration) error {
	f.now = now
	for _, r := range f.replicas {
		if r.iteration.ends == now {
			if err := r.ended(ctx, now); err != nil {
				return err
			}
		}
	}
	for f.arrival() == now {
		f.take()
	}
	for _, r := range f.replicas {
		if r.iteration.ends == never {
			r.decide(now)
			if r.fault != nil {
				return r.fault
			}
		}
		r.settle(now)
	}
	return nil
}

// take sends the request that arrives now to a replica, or to the API server in front of it.
func (f *front) take() {
	if f.api.ready() == f.now {
		p := f.api.next()
		f.choose(p.place).receive(p.request, p.place, f.now)
		return
	}
	place := int32(nobody)
	if len(f.due) > 0 && f.due[0].at == f.now {
		place = heap.Pop(&f.due).(sent).place
	}
	if place == nobody {
		place = f.order[f.next]
		f.next++
	}
	q := f.requests[place]
	q.Arrival = f.now
	if f.api != nil {
		f.api.take(q, place, f.now)
		return
	}
	f.choose(place).receive(q, place, f.now)
}

// sent is a request that a user sends at a time: the one at a place in the trace, or (nobody) the
// next of all.
type sent struct {
	at    units.Duration
	place int32
}

type due []sent // a heap of requests that users will send, by time and place

// Len, Less, Swap, Push and Pop are those of container/heap.
func (d due) Len() int { return len(d) }
func (d due) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(d[i].at, d[j].at), cmp.Compare(d[i].place, d[j].place)) < 0
}
func (d due) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *due) Push(x any)   { *d = append(*d, x.(sent)) }
func (d *due) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}
