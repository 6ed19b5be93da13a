package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// OffloadCosts returns the times of an iteration in which CPUs compute the attention
// of some requests beside the GPUs. A time is that of one layer unless its comment says more.
type OffloadCosts interface {
	// Linear returns the time of the batched operations for a number of tokens.
	Linear(tokens int) units.Duration
	// Attention returns the time of attention on the GPUs, for the sub-batch's prompts
	// and for the requests that it decodes on the GPUs.
	Attention(s *SubBatch, step int64) units.Duration
	// HostAttention returns the time of attention on the CPUs for a number of requests
	// with tokens tokens of context in all. It includes the transfers of their vectors.
	HostAttention(requests int, tokens int64) units.Duration
	// Move returns the transfer time of the keys and values of tokens tokens between host
	// and GPUs, for all layers.
	Move(tokens int) units.Duration
	// Iteration returns the exact time of a whole iteration.
	Iteration(b *Batch) units.Duration
	// Idle returns how long, in a whole iteration, the links to the GPUs (up) and from
	// them (down) carry neither vectors nor prompts of the iteration.
	Idle(b *Batch) (up, down units.Duration)
}

// OffloadConfig is the part of an Offload's configuration that a Scheduler lacks.
type OffloadConfig struct {
	Host  *Ledger // memory of the host
	Costs OffloadCosts
	// AllOnHost has the CPUs compute all decode attention, with two sub-batches that take
	// turns on GPUs and CPUs (FastDecode: He and Zhai, 2024). Else the CPUs help where
	// that is faster than the GPUs alone.
	AllOnHost bool
	// MaxDelay is how much later than with the GPUs alone a request may be so that others
	// gain. It is a share of the time since the replica last had no requests.
	MaxDelay float64
}

// Offload forms the iterations of a replica with two memories. The keys and values of a
// request are all on the GPUs, or all on the host (NEO: Jiang et al., "NEO: Saving GPU
// Memory Crisis with CPU Offloading for Online LLM Inference", MLSys 2025, sections
// 3 and 4).
//
// The Scheduler's policy forms an iteration from the GPUs' requests. Requests of the
// host may join, in one sub-batch or in two. Of two, the first has the prompts, the
// requests that decode on the GPUs, and maybe requests of the host. The second has only
// requests of the host. While the GPUs compute for one sub-batch, the CPUs compute
// attention for the other. Requests of the host that do not fit sit the iteration out.
//
// To use the host takes time from the requests on the GPUs, and pays only later, if at
// all. So an Offload also simulates the GPUs alone. It uses the host only while no
// request is late compared with them.
type Offload struct {
	*Scheduler
	OffloadConfig
	hosted    []hosted       // decoding requests on the host, in the order of arrival
	movable   int            // number of hosted requests that the GPUs could hold
	settled   int64          // step for which Base and Last of hosted requests that sit out are right
	full      bool           // the GPUs had no room for a swap in, and no memory was freed since
	shut      int32          // the request that the GPUs refused memory, until it may ask again
	refused   refusal        // why the head of the queue may not go to the host
	waits     bool           // the head may not go to the host because requests are late
	gathering bool           // the head waits for its group, see gathers
	apart     int            // number of groups that were split since a group last began together
	costly    bool           // the host's requests make the present iterations longer
	leaving   units.Duration // transfer time left of swaps out to the host
	gpus      Batch          // scratch: a batch whose time is computed
	unused    unused
	alone     *alone
	clock     clock
	report    func(request int32, tokens int) // of Complete
	emitted   func(request int32, tokens int)
}

// nobody is the index of no request.
const nobody = -1

// clock is an Offload's time.
type clock struct {
	idle  bool           // the latest iteration was empty
	since units.Duration // when the replica was idle last
	now   units.Duration // end of the latest iteration
	took  units.Duration // duration of the latest iteration
	step  int64          // the step that ended last
}

// unused counts the tokens that the host has reserved memory for and that do not exist yet.
type unused struct {
	valid        bool
	tokens, step int64 // the count, at a step
	running      int64 // requests that take part: each fills one token a step
}

// hosted is a decoding request on the host. While it sits out, Base and Last are right
// for step Offload.settled. Contexts are relative to a step: that way, the many requests
// that sit out are not written in every step.
type hosted struct {
	Decoding
	runs    bool // takes part in the present steps
	chosen  bool // takes part in the iteration that is being formed
	movable bool // the GPUs could hold it
	comes   bool // swaps out from the GPUs now: not all of it is on the host
}

// NewOffload returns an Offload. It takes over s with the GPUs' memory, the queue and the
// policy for the GPUs' requests. s must have two sub-batches and no requests yet.
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

// askAgain clears old refusals of the GPUs and the host, except those for lack of memory.
func (o *Offload) askAgain() {
	again := o.batch.Step%dealEvery == 0 // lateness and forecasts change with time
	if o.full && o.movable > 0 && (again || o.due(o.hosted[o.firstMovable()].Request)) {
		o.full = false
	}
	if o.blocked && o.head < len(o.queue) && (again && (o.waits || o.refused.cause == noGrowth) || o.due(o.queue[o.head].request)) {
		o.blocked = false
	}
}

// account adds the iteration to the clock. Swaps progress while the links are idle in
// the iteration.
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

// promptsFirst forms an iteration of prompts where memory has room for one. It returns
// whether the iteration has a prompt.
func (o *Offload) promptsFirst() bool {
	decoding := len(o.decoding) + len(o.hosted)
	if !o.prompts() || o.streak.over(decoding) {
		return o.streak.next(false, decoding)
	}
	o.clear()
	o.stayOnGPUs()
	o.fill()
	return o.streak.next(len(o.batch.Sub[0].Prefill) > 0, decoding)
}

// clear removes all decoding requests from the iteration.
func (o *Offload) clear() {
	for i := range o.batch.Sub {
		s := &o.batch.Sub[i]
		s.Decode, s.Host = s.Decode[:0], s.Host[:0]
	}
	o.dealt, o.costly = -1, false
}

// step has the GPUs' requests take a step. The host's requests of the step before take
// part again, unless it is time to choose them again.
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

// help chooses the requests of the host that take part, if it is time to choose them
// again. GPUs without work wait for a swap in, or for all swaps out.
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

// settle makes Base and Last of the requests that sit out right for a step.
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

// find returns the index of a request in hosted, or the index at which to insert it.
func (o *Offload) find(request int32) int {
	i, _ := slices.BinarySearchFunc(o.hosted, request, func(h hosted, r int32) int { return int(h.Request) - int(r) })
	return i
}

// leave removes a request from hosted.
func (o *Offload) leave(at int) hosted {
	h := o.hosted[at]
	o.hosted = slices.Delete(o.hosted, at, at+1)
	if h.movable {
		o.movable--
	}
	o.dealt, o.unused.valid = -1, false
	return h
}
