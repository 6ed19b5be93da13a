package system

import (
	"context"
	"fmt"
	"slices"

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
	learned   *scheduler.Learned // nil where the predictors are exact
	sample    scheduler.Sample
	profile   *profile // nil unless the run is for its samples
	pipeline  *pipeline
	costs     iterationCosts
	queue     sim.Queue
	batch     *scheduler.Batch
	started   sim.Time // of the iteration in progress
	running   bool
	fault     error
	recording *Recording // nil without a timeline
	unitBytes int64      // of an allocation unit on all channels of the replica

	requests []traces.Request
	// preemptedAt is when a preempted request emitted its latest token, or never.
	preemptedAt []sim.Time
	emitted     func(request int32, tokens int)
	out         replicaResult
	progress    func(tokens int64)
}

// replicaResult is what a replica leaves.
type replicaResult struct {
	requests      []results.Request
	tbt           results.Distribution
	batch         steps // requests that decode
	kvUnits       steps // allocation units in use, on one channel
	fragmentation float64
	imbalance     imbalance
	iterations    int64
	tokens        int64
	end           sim.Time
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

// kvBytes returns the bytes of allocation units that are counted on one channel.
func (r *replica) kvBytes(used int64) int64 { return used * r.unitBytes }

// checkEvery is how many iterations pass between looks at the context and
// reports of progress.
const checkEvery = 256

// run simulates the replica until all its requests are done or ctx is.
func (r *replica) run(ctx context.Context) error {
	r.preemptedAt = slices.Repeat([]sim.Time{never}, len(r.requests))
	r.emitted = r.emit
	for i := range r.requests {
		r.out.requests = append(r.out.requests, results.Request{Request: r.requests[i]})
		r.queue.Push(sim.Arrive, sim.Event{Time: r.requests[i].Arrival, Kind: eventArrive, A: int32(i)})
	}
	for r.fault == nil {
		e, ok := r.queue.Pop()
		if !ok {
			break
		}
		switch e.Kind {
		case eventArrive:
			r.arrive(int(e.A))
		case eventDecide:
			r.decide(e.Time)
		case eventComplete:
			r.complete(e.Time)
			if r.out.iterations%checkEvery == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
				r.progress(r.out.tokens)
			}
		}
	}
	r.progress(r.out.tokens)
	switch n := r.scheduler.Waiting(); {
	case r.fault != nil:
		return r.fault
	case r.queue.Err() != nil:
		return r.queue.Err()
	case n > 0:
		return fmt.Errorf("%d requests wait and none can run: scheduler and memory disagree", n)
	case r.pipeline.check != nil:
		return r.checkEnd()
	}
	return nil
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
	for _, p := range r.scheduler.Preempted() {
		r.preemptedAt[p.Request] = r.out.end
	}
	ledger := r.scheduler.Ledger()
	r.out.batch.set(now, int64(r.batch.Decoding()))
	r.out.kvUnits.set(now, ledger.Used())
	if r.batch.Empty() {
		r.running = false
		return
	}
	r.started = now
	r.devices.fill(&r.costs, r.batch)
	r.out.imbalance.add(&r.costs)
	before := r.pipeline.work
	end := r.pipeline.run(&r.costs, now)
	if err := r.pipeline.gpu.Err(); err != nil {
		r.fault = err
	}
	r.out.fragmentation += r.scheduler.Fragmentation() * (end - now).Seconds()
	if c := r.pipeline.check; c != nil {
		done := r.pipeline.work.since(&before)
		c.iteration(r.pipeline, now, end, &done)
		r.checkIteration(now)
	}
	if r.learned != nil {
		r.observe()
	}
	if r.profile != nil {
		r.profile.add(r)
	}
	if r.recording != nil && r.recording.overlaps(now, end) {
		r.record(now, end)
	}
	r.queue.Push(sim.Complete, sim.Event{Time: end, Kind: eventComplete})
}

// observe enters the executed sub-batches into the profile that the predictors
// learn from.
func (r *replica) observe() {
	b, d := r.batch, r.devices
	for i := range b.Sub {
		sub := &b.Sub[i]
		if sub.Tokens() == 0 {
			continue
		}
		other := 0
		if len(b.Sub) == 2 {
			other = b.Sub[1-i].PrefillTokens()
		}
		r.sample.Set(sub, b.Step, other)
		d.measure(&r.sample, b, i, other)
		if err := r.learned.Observe(&r.sample); err != nil {
			r.fault = err
		}
	}
}

// complete emits the iteration's tokens, all at its end, and has the next one
// formed.
func (r *replica) complete(now sim.Time) {
	n := int64(r.batch.Decoding())
	r.out.tbt.Add(int64(now-r.started), n)
	r.out.tokens += n
	r.out.iterations++
	r.out.end = now
	r.scheduler.Complete(r.emitted)
	r.running = false
	r.wake()
}

// emit notes the first token after a prompt, or the last one, of a request.
func (r *replica) emit(request int32, tokens int) {
	q, now := &r.out.requests[request], r.out.end
	if tokens == 1 {
		q.FirstToken = now
		r.out.tokens++
	} else if at := r.preemptedAt[request]; at != never {
		// The gap of a preempted request spans its wait and its second prefill.
		r.out.tbt.Add(int64(now-at), 1)
		r.out.tokens++
		r.preemptedAt[request] = never
	}
	if tokens == q.Request.Output {
		q.Finish = now
	}
}

// checkIteration verifies the laws of scheduling and memory for the batch that
// has been formed, and reports what the pipeline found.
func (r *replica) checkIteration(now sim.Time) {
	c := r.pipeline.check
	if err := r.scheduler.CheckMemory(); err != nil {
		c.fail(LawMemory, now, "%v", err)
	}
	if err := r.scheduler.CheckAdmission(); err != nil {
		c.fail(LawAdmission, now, "%v", err)
	}
	if c.violation != nil {
		r.fault = c.violation
	}
}

// checkEnd verifies the laws of a whole run.
func (r *replica) checkEnd() error {
	c := r.pipeline.check
	var tokens, gaps int64
	for i := range r.out.requests {
		q := &r.out.requests[i]
		if q.Rejected {
			continue
		}
		tokens += int64(q.Request.Output)
		gaps += int64(q.Request.Output - 1)
		if q.FirstToken <= q.Request.Arrival || q.Finish < q.FirstToken {
			c.fail(LawTokens, r.out.end, "request %d arrives at %v, emits its first token at %v and its last at %v",
				q.Request.ID, q.Request.Arrival, q.FirstToken, q.Finish)
		}
	}
	if r.out.tokens != tokens || r.out.tbt.Count() != gaps {
		c.fail(LawTokens, r.out.end, "%d tokens and %d gaps, want %d and %d", r.out.tokens, r.out.tbt.Count(), tokens, gaps)
	}
	if used := r.scheduler.Ledger().Used(); used != 0 {
		c.fail(LawMemory, r.out.end, "%d allocation units are in use after the last request", used)
	}
	r.checkThroughput()
	if c.violation != nil {
		return c.violation
	}
	return nil
}

// checkThroughput verifies that the replica was not faster than the peak
// bandwidth of its PIM for the keys and values that it read, nor than that of its
// GPUs for reading all weights once an iteration.
func (r *replica) checkThroughput() {
	c, d := r.pipeline.check, r.devices
	var read float64
	for i := range r.out.requests {
		if q := &r.out.requests[i]; !q.Rejected {
			steps := float64(q.Request.Output - 1)
			read += (float64(q.Request.Input) + (steps+1)/2) * steps
		}
	}
	// Tokens that follow a preemption are computed by the GPU.
	read -= float64(r.scheduler.RecomputedContexts())
	took := r.out.end.Seconds()
	if least := read * float64(d.model.KVBytesPerToken()) / float64(d.pimPeak); took < least {
		c.fail(LawThroughput, r.out.end, "reading all keys and values takes %.6f s at the peak of the PIM, the run %.6f s", least, took)
	}
	weights := float64(d.model.Layers) * float64(d.model.LayerWeightBytes()) * float64(r.out.iterations)
	if least := weights / float64(d.hbmPeak); took < least {
		c.fail(LawThroughput, r.out.end, "reading the weights %d times takes %.6f s at the peak of HBM, the run %.6f s", r.out.iterations, least, took)
	}
}
