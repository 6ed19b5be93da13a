package system

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// choose returns the replica for a request; of equals the first.
func (f *front) choose(place int32) *replica {
	if f.router == scheduler.RouteRoundRobin {
		return f.replicas[int(place)%len(f.replicas)]
	}
	return slices.MinFunc(f.replicas, func(a, b *replica) int {
		if f.router == scheduler.RouteLeastKV {
			return cmp.Compare(a.load.kv, b.load.kv)
		}
		return cmp.Compare(a.load.outstanding-f.cached(a, place), b.load.outstanding-f.cached(b, place))
	})
}

// cached returns the tokens of a request's prompt that a replica has in its cache, if the router's policy counts them.
func (f *front) cached(r *replica, place int32) int64 {
	if f.router != scheduler.RoutePrefixAffinity {
		return 0
	}
	return int64(r.assembly.Batcher.Cached(&f.requests[place]))
}

// load is the tokens of a replica's requests as a router sees them: those sent and those returned.
// The router knows each request's output length.
type load struct {
	kv          int64 // prompts, and tokens emitted so far
	outstanding int64 // prompts without a first token, and tokens still to be emitted
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

// emit counts returned tokens, and the prompts of requests whose first tokens are among them.
func (l *load) emit(tokens, prompts int) {
	l.kv += int64(tokens)
	l.outstanding -= int64(tokens + prompts)
}

func (l *load) end(q *traces.Request) { l.kv -= int64(q.Input + q.Output) }
