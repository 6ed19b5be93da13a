package system

import (
	"context"
	"fmt"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// replica is one data-parallel replica: a part of the node's GPUs, channels and requests.
type replica struct {
	assembly  kinds.Assembly
	iteration iteration
	observers observers
	tallied   tallied
	check     *flow.Checker // nil without checks
	fault     error
	requests  []traces.Request
	arrivals  []int32 // known requests that are still to arrive, in order of arrival
	context   int     // length in tokens beyond which a request is refused, 0 for no limit
	serving   *scheduler.ServingSpec
	slo       *scheduler.SLO
	api       *apiServer // shared by all replicas; nil for none
	load      load
	gaps      gaps
	drafts    units.Duration // time of the draft model in an iteration that decodes
	host      gpu.HostSpec   // host work of each iteration
	emitted   func(request int32, tokens int)
	left      func(place int32) // is called when the request at a place in the trace has left; nil: not called
	out       replicaResult
	bounds    bounds
	unitBytes int64 // of an allocation unit on all channels of the replica
}

// iteration is the iteration of a replica in progress.
type iteration struct {
	batch   *scheduler.Batch
	started units.Duration
	ends    units.Duration // never while idle
	late    units.Duration // while the end of an iteration is handled: how much later users have its tokens
}

// observers record what a replica does.
type observers struct {
	recording *Recording   // nil without a timeline
	diary     *diary       // nil if iterations are not recorded
	measure   *Window      // the part of the run whose gaps are measured; nil for none
	misses    *Misses      // nil if no misses end the run
	power     *power.Watts // with a timeline or iterations, else nil
	progress  func(tokens int64)
}

// tallied is a replica's work and occupancy over time.
type tallied struct {
	population  population
	kvUnits     steps // allocation units in use, on one channel
	cached      steps // allocation units of blocks of the cache of prefixes
	busy        flow.Busy
	booked      flow.Work      // work that is already in busy
	bookedUntil units.Duration // end of the last iteration in booked
}

// replicaResult is the result of a replica.
type replicaResult struct {
	requests      []results.Request
	places        []int32 // by request: its place in the trace
	batch         steps   // decoding requests
	fragmentation float64
	iterations    int64
	steps         int64 // iterations that decode
	decoded       int64 // decoding requests of these iterations, each with a token
	drafted       int64 // accepted drafts that they emitted in addition
	tokens        int64
	iterating     units.Duration // time of all iterations
	end           units.Duration
}

// steps is a piecewise constant function of time.
type steps struct {
	at    []units.Duration
	value []int64
}

// set changes the value from time t on.
func (s *steps) set(t units.Duration, v int64) {
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

// kvBytes converts allocation units, counted on one channel, to bytes of the replica.
func (r *replica) kvBytes(used int64) int64 { return used * r.unitBytes }

// checkEvery is the number of iterations between checks of the context, and between reports of
// progress.
const checkEvery = 256

// run simulates the replica until all its requests are done or ctx is.
func (r *replica) run(ctx context.Context) error {
	r.begin()
	r.arrivals = inOrder(r.requests)
	for r.fault == nil {
		now := min(r.arrival(), r.iteration.ends)
		if now == never {
			break
		}
		if err := r.step(ctx, now); err != nil {
			return err
		}
	}
	return r.finish()
}

// begin prepares a replica to run the requests that it knows.
func (r *replica) begin() {
	r.gaps = newGaps(len(r.requests), r.slo.TBT)
	r.gaps.measure, r.gaps.diary = r.observers.measure, r.observers.diary
	r.emitted = r.emit
	r.out.requests = make([]results.Request, len(r.requests))
	for i := range r.requests {
		r.out.requests[i] = results.Request{Request: r.requests[i], Start: never}
	}
	r.iteration.ends = never
}

// finish verifies that nothing is left to do.
func (r *replica) finish() error {
	r.assembly.Engine.Settle()
	r.count(r.out.end)
	r.observers.progress(r.out.tokens)
	switch n := r.assembly.Batcher.Waiting(); {
	case r.fault != nil:
		return r.fault
	case n > 0:
		return fmt.Errorf("%d requests wait and none can run: scheduler and memory disagree", n)
	case r.check != nil:
		return r.checkEnd()
	}
	return nil
}

// arrival returns when the next request arrives, never after the last.
func (r *replica) arrival() units.Duration {
	if len(r.arrivals) == 0 {
		return never
	}
	return r.requests[r.arrivals[0]].Arrival
}

// step handles all that happens at an instant, in this order. The iteration in progress ends and frees
// its memory. Requests arrive. If no iteration is in progress then, the next one is formed.
func (r *replica) step(ctx context.Context, now units.Duration) error {
	if now == r.iteration.ends {
		if err := r.ended(ctx, now); err != nil {
			return err
		}
	}
	for r.arrival() == now {
		i := r.arrivals[0]
		r.arrivals = r.arrivals[1:]
		r.take(i, now)
	}
	if r.iteration.ends == never {
		r.decide(now)
	}
	r.settle(now)
	return nil
}

// ended handles the end of the iteration in progress.
func (r *replica) ended(ctx context.Context, now units.Duration) error {
	r.iteration.late = r.api.send(r.iteration.batch, now)
	r.complete(now + r.iteration.late)
	r.iteration.late, r.iteration.ends = 0, never
	if r.out.iterations%checkEvery == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.observers.progress(r.out.tokens)
	}
	return nil
}

// settle records how many requests are in the replica after all events of this instant.
func (r *replica) settle(now units.Duration) {
	n := r.assembly.Batcher.InSystem()
	if n != r.tallied.population.n {
		r.tallied.population.set(now, n)
	}
	if c := r.check; c != nil && n != c.Here {
		c.Fail(flow.LawRequests, now, "the scheduler has %d requests, %d have come and not left", n, c.Here)
		r.fault = c.Err()
	}
}

// receive takes a request that a router sends to this replica; place is its place in the trace.
func (r *replica) receive(q traces.Request, place int32, now units.Duration) {
	r.requests = append(r.requests, q)
	r.assembly.Batcher.Extend(r.requests)
	r.gaps.extend()
	r.out.requests = append(r.out.requests, results.Request{Request: q, Start: never})
	r.out.places = append(r.out.places, place)
	r.take(int32(len(r.requests)-1), now)
}

// take queues a request that arrives now, or turns it away.
func (r *replica) take(i int32, now units.Duration) {
	q := &r.out.requests[i]
	if r.observers.misses != nil {
		r.observers.misses.Came++
	}
	switch most := r.serving.MaxWaiting; {
	case r.context > 0 && q.Request.Input+q.Request.Output > r.context:
		q.Outcome = results.TooLong
	case most > 0 && r.assembly.Batcher.Waiting() >= most:
		q.Outcome = results.Refused
	case !r.assembly.Batcher.Add(i):
		q.Outcome = results.TooLarge
	default:
		r.load.add(&q.Request)
		if r.check != nil {
			r.check.Comes(&q.Request)
		}
		return
	}
	q.Finish = now
	r.leave(i, false)
}

// expire drops the requests that have waited too long.
func (r *replica) expire(now units.Duration) {
	if r.serving.Deadline == 0 {
		return
	}
	r.assembly.Batcher.Expire(now-r.serving.Deadline, func(i int32) {
		q := &r.out.requests[i]
		q.Outcome, q.Finish = results.Expired, now
		r.load.drop(&q.Request)
		r.leave(i, true)
	})
}

// leave records that a request has left; queued says whether it had been queued.
func (r *replica) leave(request int32, queued bool) {
	if r.check != nil && queued {
		r.check.Here--
	}
	if r.left != nil {
		r.left(r.out.places[request])
	}
	if q := &r.out.requests[request]; r.observers.misses != nil && !q.Attained && !r.firstLate(q) {
		r.miss(request)
	}
}

// firstLate says whether the first token of a request came too late for its targets.
func (r *replica) firstLate(q *results.Request) bool {
	return r.slo.TTFT > 0 && q.FirstToken-q.Request.Arrival > r.slo.TTFT
}

// miss counts a request that misses its targets, once.
func (r *replica) miss(request int32) {
	if r.observers.misses.more(int(r.out.places[request]), &r.out.requests[request]) {
		r.fault = ErrMissed
	}
}

// decide forms the next iteration and runs its layers.
func (r *replica) decide(now units.Duration) {
	r.expire(now)
	r.assembly.Batcher.Coming.Now = now
	r.iteration.batch = r.assembly.Batcher.Next()
	for _, p := range r.assembly.Batcher.Preempted() {
		r.gaps.leave(p.Request)
	}
	for _, p := range r.iteration.batch.Pauses {
		if p.Ends {
			r.gaps.rejoin(p.Request)
		} else {
			r.gaps.leave(p.Request)
		}
	}
	r.out.batch.set(now, int64(r.iteration.batch.Decoding()))
	r.tallied.kvUnits.set(now, r.assembly.Batcher.UsedUnits())
	r.tallied.cached.set(now, r.assembly.Batcher.Ledger.CachedUnits())
	r.noteStarts(now)
	if r.iteration.batch.Empty() {
		if at, ok := r.assembly.Batcher.Comes(); ok { // nothing runs until the next prompt arrives
			r.iteration.ends = at
		}
		return
	}
	r.iteration.started = now
	var before flow.Work
	if r.observers.diary != nil || r.observers.recording != nil {
		r.assembly.Engine.Settle()
		before = r.assembly.Engine.Core().Work
	}
	end, err := r.assembly.Engine.Run(r.iteration.batch, now)
	if err != nil {
		r.fault = err
	}
	if r.drafts > 0 && r.iteration.batch.Decoding() > 0 {
		end += r.assembly.Engine.Core().Pause(r.drafts)
	}
	if took := r.host.Visible(end-now, r.iteration.batch.Requests()); took > 0 {
		end += r.assembly.Engine.Core().Pause(took)
	}
	if end-r.tallied.bookedUntil > countEvery {
		r.count(end)
	}
	r.out.fragmentation += float64(r.assembly.Batcher.Fragmentation() * (end - now).Seconds())
	if r.check != nil {
		r.checkIteration(now)
	}
	if r.observers.diary != nil || r.observers.recording != nil {
		r.assembly.Engine.Settle()
	}
	if r.observers.diary != nil {
		did := r.assembly.Engine.Core().Work.Since(&before)
		r.observers.diary.add(r, now, end, &did)
	}
	if r.observers.recording != nil && r.observers.recording.admits(now, end, r.iteration.batch) {
		did := r.assembly.Engine.Core().Work.Since(&before)
		r.record(now, end, &did)
	}
	r.iteration.ends = end
}

// noteStarts records which prompts begin, here or in transfer.
func (r *replica) noteStarts(now units.Duration) {
	for _, i := range r.assembly.Batcher.Coming.Sent {
		r.out.requests[i].Start = min(r.out.requests[i].Start, now)
	}
	for s := range r.iteration.batch.Sub {
		for i := range r.iteration.batch.Sub[s].Prefill {
			if c := &r.iteration.batch.Sub[s].Prefill[i]; r.out.requests[c.Request].Start == never {
				r.out.requests[c.Request].Start = now
			}
		}
	}
}

// countEvery is the time after which the resources' work is moved to sums of 128 bits. Until then
// the work of 1,024 ranksets, with one more iteration of any length, does not overflow.
const countEvery = units.Duration(1 << 50)

// count adds the resources' work since the last count.
func (r *replica) count(end units.Duration) {
	done := &r.assembly.Engine.Core().Work
	did := done.Since(&r.tallied.booked)
	r.tallied.busy.Did(&did)
	r.tallied.booked, r.tallied.bookedUntil = *done, end
}

// complete emits the iteration's tokens, all at its end.
func (r *replica) complete(now units.Duration) {
	r.assembly.Batcher.Coming.Now = r.iteration.ends
	if r.iteration.batch.Empty() {
		r.out.end = now
		r.assembly.Batcher.Complete(r.emitted)
		return
	}
	n := r.iteration.batch.Decoding()
	drafted := 0
	if n > 0 {
		drafted = r.iteration.batch.Drafted
	}
	r.gaps.decoded(now, n, drafted)
	r.load.emit(n+drafted, 0)
	r.out.tokens += int64(n + drafted)
	r.out.iterations++
	r.out.iterating += r.iteration.ends - r.iteration.started
	if n > 0 {
		r.out.steps++
		r.out.decoded += int64(n)
		r.out.drafted += int64(drafted)
	}
	r.out.end = now
	r.assembly.Batcher.Complete(r.emitted)
}

// emit records the first token after a request's prompt, or its last token.
func (r *replica) emit(request int32, tokens int) {
	q, now := &r.out.requests[request], r.out.end
	prompt := true
	switch {
	case tokens == 1:
		q.FirstToken = now
		r.load.emit(0, q.Request.Input)
		if r.observers.misses != nil && r.firstLate(q) {
			r.miss(request)
		}
	case r.gaps.left(request):
		r.gaps.resume(request, now)
	default:
		prompt = false
	}
	if prompt {
		r.out.tokens++
		r.load.emit(1, 0)
	}
	if tokens == q.Request.Output {
		q.Finish = now
		slow := r.gaps.slowOf(request, prompt)
		q.Attained, q.Slow = r.slo.Attains(q.Request.Arrival, q.FirstToken, now, tokens, slow), r.slo.Slow(tokens, slow)
		r.load.end(&q.Request)
		r.leave(request, true)
	} else if prompt {
		r.gaps.enter(request, now)
	}
}
