package system

import (
	"context"
	"fmt"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/traces"
)

// Kinds of events of a replica's run loop.
const (
	eventArrive   = iota // request A is there
	eventDecide          // an iteration can be formed
	eventComplete        // the iteration in progress ends
)

// replica is one data-parallel replica: some of the GPUs, channels and requests
// of the node, run on its own.
type replica struct {
	devices   *devices
	scheduler *scheduler.Scheduler
	pipeline  *pipeline
	costs     iterationCosts
	queue     sim.Queue
	batch     *scheduler.Batch
	started   sim.Time // of the iteration in progress
	running   bool

	requests []traces.Request
	out      replicaResult
	progress func(tokens int64)
}

// replicaResult is what a replica leaves.
type replicaResult struct {
	requests   []results.Request
	tbt        results.Distribution
	batch      steps // requests that decode
	kvUnits    steps // allocation units in use, on one channel
	work       work
	iterations int64
	tokens     int64
	end        sim.Time
}

// steps is a piecewise constant function of time.
type steps struct {
	at    []sim.Time
	value []int64
}

// set changes the value from time t on.
func (s *steps) set(t sim.Time, v int64) {
	n := len(s.at)
	if n > 0 && s.value[n-1] == v {
		return
	}
	if n > 0 && s.at[n-1] == t {
		s.value[n-1] = v
		return
	}
	s.at, s.value = append(s.at, t), append(s.value, v)
}

// checkEvery is how many iterations pass between looks at the context and
// reports of progress.
const checkEvery = 256

// run simulates the replica until all its requests are done or ctx is.
func (r *replica) run(ctx context.Context) error {
	for i := range r.requests {
		r.out.requests = append(r.out.requests, results.Request{Request: r.requests[i]})
		r.queue.Push(sim.Arrive, sim.Event{Time: 0, Kind: eventArrive, A: int32(i)})
	}
	for {
		e, ok := r.queue.Pop()
		if !ok {
			break
		}
		switch e.Kind {
		case eventArrive:
			r.arrive(int(e.A))
		case eventComplete:
			r.complete(e.Time)
		case eventDecide:
			r.decide(e.Time)
		}
		if r.out.iterations%checkEvery == 0 && e.Kind == eventComplete {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.progress(r.out.tokens)
		}
	}
	r.progress(r.out.tokens)
	if n := r.scheduler.Waiting(); n > 0 {
		return fmt.Errorf("%d requests wait and none can run: scheduler and memory disagree", n)
	}
	return r.queue.Err()
}

// arrive hands a request to the scheduler.
func (r *replica) arrive(i int) {
	if !r.scheduler.Add(int32(i)) {
		r.out.requests[i].Rejected = true
		return
	}
	r.wake()
}

// wake has the scheduler decide at this instant, unless an iteration is running.
func (r *replica) wake() {
	if !r.running {
		r.running = true
		r.queue.Push(sim.Decide, sim.Event{Time: r.queue.Now(), Kind: eventDecide})
	}
}

// decide forms the next iteration and runs its layers.
func (r *replica) decide(now sim.Time) {
	r.batch = r.scheduler.Next()
	r.out.batch.set(now, int64(r.batch.Decoding()))
	r.out.kvUnits.set(now, r.scheduler.Ledger().Used())
	if r.batch.Empty() {
		r.running = false
		return
	}
	r.started = now
	r.devices.fill(&r.costs, r.batch)
	end := r.pipeline.run(&r.costs, now)
	r.queue.Push(sim.Complete, sim.Event{Time: end, Kind: eventComplete})
}

// complete emits the iteration's tokens, all at its end, and has the next one
// formed.
func (r *replica) complete(now sim.Time) {
	n := int64(r.batch.Decoding())
	r.out.tbt.Add(int64(now-r.started), n)
	r.out.tokens += n
	r.out.iterations++
	r.out.end = now
	r.scheduler.Complete(func(request int32, tokens int) {
		q := &r.out.requests[request]
		if tokens == 1 {
			q.FirstToken = now
			r.out.tokens++
		}
		if tokens == q.Request.Output {
			q.Finish = now
		}
	})
	r.running = false
	r.wake()
}
