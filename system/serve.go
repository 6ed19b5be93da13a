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

// front is what stands before the replicas of a node where these depend on one another: a
// router that looks at them, or users who wait for answers. Everything happens in one loop
// over time.
type front struct {
	replicas []*replica
	router   string
	requests []traces.Request
	next     int32   // first request of order that has not come
	order    []int32 // of the requests, by arrival; nil in a closed loop
	users    users   // times at which users send a request
	think    func() units.Duration
	now      units.Duration
}

// together says whether the replicas of a node depend on one another.
func (n *Node) together(trace *traces.Trace) bool {
	return n.Replicas() > 1 && n.cfg.Serving.Router != scheduler.RouteRoundRobin || trace.Arrivals.Closed != nil
}

// newFront returns the front of replicas that know none of the requests yet.
func newFront(trace *traces.Trace, router string, replicas []*replica) *front {
	f := &front{replicas: replicas, router: router, requests: trace.Requests}
	if c := trace.Arrivals.Closed; c != nil {
		f.think = c.Thinking()
		for range min(c.Users, len(f.requests)) {
			f.send()
		}
		for _, r := range replicas {
			r.left = f.send
		}
		return f
	}
	f.order = inOrder(f.requests)
	return f
}

// inOrder returns the places of requests by arrival.
func inOrder(requests []traces.Request) []int32 {
	order := make([]int32, len(requests))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(requests[a].Arrival, requests[b].Arrival) })
	return order
}

// send has a user who has an answer now, or begins, send a request after a thought.
func (f *front) send() { heap.Push(&f.users, f.now+f.think()) }

// arrival returns when the next request comes, never after the last.
func (f *front) arrival() units.Duration {
	switch {
	case int(f.next) == len(f.requests):
	case f.order != nil:
		return f.requests[f.order[f.next]].Arrival
	case len(f.users) > 0:
		return f.users[0]
	}
	return never
}

// run simulates all replicas until all requests are done or ctx is.
func (f *front) run(ctx context.Context) error {
	for _, r := range f.replicas {
		r.begin()
	}
	for {
		now := f.arrival()
		for _, r := range f.replicas {
			now = min(now, r.ends)
		}
		if now == never {
			break
		}
		if err := f.step(ctx, now); err != nil {
			return err
		}
	}
	for _, r := range f.replicas {
		r.kvUnits.end()
		if err := r.finish(); err != nil {
			return err
		}
	}
	return nil
}

// step handles all that happens at an instant: iterations end, requests come, and replicas
// without an iteration form the next one.
func (f *front) step(ctx context.Context, now units.Duration) error {
	f.now = now
	for _, r := range f.replicas {
		if r.ends == now {
			if err := r.ended(ctx, now); err != nil {
				return err
			}
		}
	}
	for f.arrival() == now {
		f.take()
	}
	for _, r := range f.replicas {
		if r.ends == never {
			r.decide(now)
			if r.fault != nil {
				return r.fault
			}
		}
		r.settle(now)
	}
	return nil
}

// take sends the request that comes now to a replica.
func (f *front) take() {
	place := f.next
	if f.order != nil {
		place = f.order[f.next]
	} else {
		heap.Pop(&f.users)
	}
	f.next++
	q := f.requests[place]
	q.Arrival = f.now
	f.choose(place).receive(q, place, f.now)
}

// choose returns the replica for a request; of several alike the first.
func (f *front) choose(place int32) *replica {
	if f.router == scheduler.RouteRoundRobin {
		return f.replicas[int(place)%len(f.replicas)]
	}
	return slices.MinFunc(f.replicas, func(a, b *replica) int {
		if f.router == scheduler.RouteLeastKV {
			return cmp.Compare(a.load.kv, b.load.kv)
		}
		return cmp.Compare(a.load.outstanding, b.load.outstanding)
	})
}

// users is a heap of the times at which users send their next request.
type users []units.Duration

func (u users) Len() int           { return len(u) }
func (u users) Less(i, j int) bool { return u[i] < u[j] }
func (u users) Swap(i, j int)      { u[i], u[j] = u[j], u[i] }
func (u *users) Push(x any)        { *u = append(*u, x.(units.Duration)) }
func (u *users) Pop() any {
	last := len(*u) - 1
	x := (*u)[last]
	*u = (*u)[:last]
	return x
}

// load is the tokens of a replica's requests as a router sees them: what was sent and what
// came back. How long an output will be it is told.
type load struct {
	kv          int64 // prompts, and tokens emitted so far
	outstanding int64 // prompts without a first token, and tokens to come
}

func (l *load) add(q *traces.Request) {
	l.kv += int64(q.Input)
	l.outstanding += int64(q.Input + q.Output)
}

// drop removes a request that emitted nothing.
func (l *load) drop(q *traces.Request) {
	l.kv -= int64(q.Input)
	l.outstanding -= int64(q.Input + q.Output)
}

// emit counts tokens that came back, and the prompts of those requests of which these are
// the first.
func (l *load) emit(tokens, prompts int) {
	l.kv += int64(tokens)
	l.outstanding -= int64(tokens + prompts)
}

// end removes a request that has emitted all.
func (l *load) end(q *traces.Request) { l.kv -= int64(q.Input + q.Output) }
