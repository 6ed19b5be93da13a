package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// OffloadCosts tells what an iteration costs on GPUs beside which CPUs attend for
// some requests. All times are of one layer where nothing else is said.
type OffloadCosts interface {
	// Linear returns the time of the batched operations of so many tokens.
	Linear(tokens int) units.Duration
	// Attention returns the time of attention on the GPUs: of the sub-batch's prompts
	// and of what it decodes there.
	Attention(s *SubBatch, step int64) units.Duration
	// HostAttention returns the time of attention on the CPUs for requests whose
	// contexts add up to tokens, with the transfers of their vectors.
	HostAttention(requests int, tokens int64) units.Duration
	// Move returns the time that the keys and values of tokens tokens, of all layers,
	// take between host and GPUs.
	Move(tokens int) units.Duration
	// Iteration returns the time of a whole iteration, exactly.
	Iteration(b *Batch) units.Duration
	// Idle returns for how much of an iteration the links to and from the GPUs carry
	// none of its own vectors and prompts.
	Idle(b *Batch) (up, down units.Duration)
}

// OffloadConfig is what an Offload has beside a Scheduler.
type OffloadConfig struct {
	Host  *Ledger // memory of the host
	Costs OffloadCosts
	// AllOnHost has all requests decode on the CPUs, in two sub-batches that take turns
	// on GPUs and CPUs (FastDecode: He and Zhai, 2024). Else the CPUs help where that
	// is faster than the GPUs alone.
	AllOnHost bool
	// MaxDelay is how much later than with the GPUs alone a request may be for the sake
	// of others, as a share of the time since the replica had no requests.
	MaxDelay float64
}

// Offload forms the iterations of a replica whose requests are on the GPUs or on
// the host, with all their keys and values (NEO: Jiang et al., "NEO: Saving GPU
// Memory Crisis with CPU Offloading for Online LLM Inference", MLSys 2025, sections
// 3 and 4).
//
// An iteration is what the Scheduler's policy makes of the GPUs' requests, or has
// requests of the host as well: in the same sub-batch, or in two sub-batches, of
// which the first has the prompts, all that decodes on the GPUs and maybe requests of
// the host, the second one only requests of the host. While the GPUs compute for one,
// the CPUs attend for the other. Requests of the host that do not fit that sit the
// iteration out.
//
// What the host is used for takes time from the requests on the GPUs, and is worth
// it only later, if at all. So an Offload also follows what the GPUs alone would have
// done, and uses the host only while no request is late against that.
type Offload struct {
	*Scheduler
	OffloadConfig
	hosted    []hosted       // decoding requests on the host, in the order of arrival
	movable   int            // of these, that the GPUs could hold
	settled   int64          // step up to which Base and Last of those that sit out are right
	full      bool           // the GPUs had no room for a move, and none has been freed since
	shut      int32          // the request that the GPUs refused memory, until it may ask again
	refused   refusal        // why the head of the queue may not go to the host
	waits     bool           // it may not because requests are late
	gathering bool           // it waits for memory for those that began with it on the GPUs alone
	apart     int            // how often a group was since one began together
	costly    bool           // the host's requests make the present iterations longer
	leaving   units.Duration // that moves to the host still take
	gpus      Batch          // that is tried for its time
	unused    unused
	alone     *alone
	clock     clock
	report    func(request int32, tokens int) // of Complete
	emitted   func(request int32, tokens int)
}

// nobody is no request.
const nobody = -1

// clock is an Offload's time. It knows when requests arrive and what iterations take.
type clock struct {
	idle  bool
	since units.Duration // when it was idle last
	now   units.Duration // end of the latest iteration
	took  units.Duration // by the latest iteration
	step  int64          // that ended last
}

// unused is the tokens that the host's requests have memory for and do not fill yet.
type unused struct {
	valid        bool
	tokens, step int64 // as of a step
	running      int64 // requests that take part: each fills one a step
}

// hosted is a decoding request on the host. While it sits out, Base and Last are
// those of step Offload.settled: contexts are relative to the step, and the many
// that sit out are not touched in every step.
type hosted struct {
	Decoding
	runs    bool // takes part in the present steps
	chosen  bool // for the iteration that is being formed
	movable bool // the GPUs could hold it
	comes   bool // from the GPUs, and is not all there
}

// NewOffload returns an Offload that has the GPUs' memory, the queue and the policy
// for iterations of the GPUs alone from s, which has two sub-batches and nothing to
// do yet.
func NewOffload(s *Scheduler, c OffloadConfig) *Offload {
	o := &Offload{Scheduler: s, OffloadConfig: c, shut: nobody, gpus: Batch{Sub: make([]SubBatch, 1)}, alone: newAlone(s, c.Costs), clock: clock{idle: true, step: -1}}
	s.place = o
	o.report = func(request int32, tokens int) {
		o.alone.next[request] = int32(tokens + 1)
		o.emitted(request, tokens)
	}
	return o
}

// Next forms the next iteration.
func (o *Offload) Next() *Batch {
	b := &o.batch
	if o.outdated() {
		o.shut = nobody
	}
	o.begin()
	if c := &o.clock; c.idle {
		c.now = max(c.now, o.alone.latest())
		c.since = c.now
	}
	b.Pauses, b.Moves = b.Pauses[:0], Moves{}
	if o.leaving <= 0 {
		o.arriveOnHost()
	}
	o.askAgain()
	o.moveUp()
	if o.policy == PolicyChunkedPrefill {
		o.step()
		if o.AllOnHost {
			o.help()
		}
		if o.prompts() {
			o.stayOnGPUs()
			o.fill()
		}
		if !o.AllOnHost {
			o.help()
		}
	} else if !o.promptsFirst() {
		o.step()
		o.help()
	}
	o.account()
	return b
}

// askAgain has requests ask for room again that were not refused for want of memory.
func (o *Offload) askAgain() {
	again := o.batch.Step%dealEvery == 0 // none may be late any more, or be expected to grow as much
	if o.full && o.movable > 0 && (again || o.due(o.hosted[o.firstMovable()].Request)) {
		o.full = false
	}
	if o.blocked && o.head < len(o.queue) && (again && (o.waits || o.refused.cause == noGrowth) || o.due(o.queue[o.head].request)) {
		o.blocked = false
	}
}

// account adds the iteration to the clock, and what the links have left of it to the
// requests that move.
func (o *Offload) account() {
	b, c := &o.batch, &o.clock
	if c.idle = b.Empty(); c.idle {
		return
	}
	c.took = o.Costs.Iteration(b)
	c.now += c.took
	if len(o.moving) > 0 || o.leaving > 0 {
		up, down := o.Costs.Idle(b)
		for i := range o.moving {
			o.moving[i].left -= up
		}
		o.leaving -= down
	}
}

// promptsFirst forms an iteration of prompts where memory has room for one, and says
// whether it has.
func (o *Offload) promptsFirst() bool {
	if !o.prompts() {
		return false
	}
	o.clear()
	o.stayOnGPUs()
	o.fill()
	return len(o.batch.Sub[0].Prefill) > 0
}

// clear has nothing decode.
func (o *Offload) clear() {
	for i := range o.batch.Sub {
		s := &o.batch.Sub[i]
		s.Decode, s.Host = s.Decode[:0], s.Host[:0]
	}
	o.dealt, o.costly = -1, false
}

// step has the GPUs' requests take a step, with those of the host that took part in
// the step before, unless these are to be chosen anew.
func (o *Offload) step() {
	b := &o.batch
	b.Step++
	if o.memory.Admission == AdmitCurrent {
		o.grow()
	}
	again := o.dealt < 0 || b.Step-o.dealt >= dealEvery || o.prompts() || o.costly && o.late(o.clock.took, 1, 0)
	if again {
		o.settle(b.Step)
	}
	if o.memory.Admission == AdmitCurrent {
		o.growHosted(again)
	}
	if again || o.dealt < 0 {
		o.settle(b.Step)
		o.clear()
		b.Sub[0].Decode = append(b.Sub[0].Decode, o.decoding...)
	}
}

// help decides which requests of the host take part in a step that has been dealt
// anew. GPUs without work wait for a request that is on its way to them.
func (o *Offload) help() {
	b := &o.batch
	prompts := len(b.Sub[0].Prefill) > 0
	if len(o.decoding) == 0 && !prompts {
		if len(o.moving) > 0 {
			b.Moves.Up.Wait = max(o.moving[0].left, 0)
			o.arrive()
			b.Sub[0].Decode = append(b.Sub[0].Decode, o.decoding...)
		} else if o.leaving > 0 {
			b.Moves.Down.Wait = o.leaving
			o.arriveOnHost()
		}
	}
	if o.dealt >= 0 {
		return
	}
	if !prompts {
		o.dealt = b.Step
	}
	switch {
	case len(o.hosted) == 0:
		return
	case o.AllOnHost:
		o.spread(2)
	case len(o.decoding) == 0 && !prompts:
		o.spreadBest()
	default:
		o.helpBest()
	}
	o.choose()
}

// settle moves Base and Last of the requests that sit out on to a step.
func (o *Offload) settle(step int64) {
	missed := step - o.settled
	o.settled = step
	for i := range o.hosted {
		if h := &o.hosted[i]; !h.runs {
			h.Base -= missed
			h.Last += missed
		}
	}
}

// Complete applies the batch that Next formed.
func (o *Offload) Complete(emitted func(request int32, tokens int)) {
	b := &o.batch
	o.emitted, o.clock.step = emitted, b.Step
	for i := range b.Sub {
		for k := range b.Sub[i].Host {
			if d := &b.Sub[i].Host[k]; d.Last <= b.Step {
				o.leave(o.find(d.Request))
				o.release(o.holds[d.Request])
				o.forecast.ended(o.requests[d.Request].Output)
				o.dealt = -1
				o.report(d.Request, o.requests[d.Request].Output)
			}
		}
	}
	o.Scheduler.Complete(o.report)
}

// find returns the place of a request among those of the host.
func (o *Offload) find(request int32) int {
	i, _ := slices.BinarySearchFunc(o.hosted, request, func(h hosted, r int32) int { return int(h.Request) - int(r) })
	return i
}

// leave removes a request from those of the host.
func (o *Offload) leave(at int) hosted {
	h := o.hosted[at]
	o.hosted = slices.Delete(o.hosted, at, at+1)
	if h.movable {
		o.movable--
	}
	o.dealt, o.unused.valid = -1, false
	return h
}
