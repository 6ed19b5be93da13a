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
	// MaxDelay is how much longer the GPUs' iterations may take for the host's requests, as a
	// share of their time: once where these fit, once for turns of those that do not.
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
// attention for the other. Requests of the host that do not fit sit the iteration out,
// until it is their turn (takeTurn) or the GPUs have room for them (moveUp).
type Offload struct {
	*Scheduler
	OffloadConfig
	hosted  []hosted       // decoding requests on the host, in the order of arrival
	movable int            // number of hosted requests that the GPUs could hold
	full    bool           // the GPUs had no room for a swap in, and no memory was freed since
	shut    int32          // the request that the GPUs refused memory, until it may ask again
	refused refusal        // why the head of the queue may not go to the host
	busy    bool           // the head may not go to the host: the CPUs have enough to do
	leaving units.Duration // transfer time left of swaps out to the host
	took    units.Duration // duration of the latest iteration
	turn    int32          // the request of the host that has its turn in the present iteration; else nobody
	credit  units.Duration // what turns may cost by now
	gpus    Batch          // scratch: a batch whose time is computed
}

// nobody is the index of no request.
const nobody = -1

// paused is a decoding request that sits out. Base and Last are right for step settled:
// that way, it is not written in every step.
type paused struct {
	Decoding
	settled int64
	since   int64 // the first step in which it sat out
}

// settle makes Base and Last right for a step.
func (p *paused) settle(step int64) {
	missed := step - p.settled
	p.Base -= missed
	p.Last += missed
	p.settled = step
}

// hosted is a decoding request on the host. settled counts where it sits out.
type hosted struct {
	paused
	runs    bool // takes part in the present steps
	chosen  bool // takes part in the iteration that is being formed
	movable bool // the GPUs could hold it
	comes   bool // swaps out from the GPUs now: not all of it is on the host
}

// context returns the tokens that its next token attends over, which is of a step if the
// request takes part.
func (h *hosted) context(step int64) int {
	if h.runs {
		return h.Context(step)
	}
	return h.Context(h.settled)
}

// NewOffload returns an Offload. It takes over s with the GPUs' memory, the queue and the
// policy for the GPUs' requests. s must have two sub-batches and no requests yet.
func NewOffload(s *Scheduler, c OffloadConfig) *Offload {
	o := &Offload{Scheduler: s, OffloadConfig: c, shut: nobody, turn: nobody, gpus: Batch{Sub: make([]SubBatch, 1)}}
	s.place = o
	return o
}

// Next forms the next iteration.
func (o *Offload) Next() *Batch {
	b := &o.batch
	if o.outdated() {
		o.shut = nobody
	}
	o.begin()
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
			o.fillBeside()
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
	if o.batch.Step%dealEvery != 0 {
		return // forecasts and what hides change with time
	}
	o.full = false
	if o.busy || o.refused.cause == noGrowth {
		o.blocked = false
	}
}

// account notes how long the iteration takes, where that counts: swaps progress while
// the links are idle in it, and turns get their share of it.
func (o *Offload) account() {
	b := &o.batch
	if len(o.hosted)+len(o.moving) == 0 && o.leaving <= 0 || b.Empty() {
		return
	}
	o.took = o.Costs.Iteration(b)
	if len(o.moving) > 0 || o.leaving > 0 {
		up, down := o.Costs.Idle(b)
		for i := range o.moving {
			o.moving[i].left -= up
		}
		o.leaving -= down
	}
	if b.Decoding() > 0 {
		o.credit += o.slack(o.took)
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
	o.dealt, o.turn = -1, nobody
}

// step has the GPUs' requests take a step. The host's requests of the step before take
// part again, unless it is time to choose them again.
func (o *Offload) step() {
	b := &o.batch
	b.Step++
	if o.memory.Admission == AdmitCurrent {
		o.grow()
		o.growHosted()
	}
	if o.dealt < 0 || b.Step-o.dealt >= dealEvery || o.prompts() {
		o.clear()
		b.Sub[0].Decode = append(b.Sub[0].Decode, o.decoding...)
	} else {
		o.endTurn()
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
	if o.dealt < 0 {
		if !prompts {
			o.dealt = b.Step
		}
		switch {
		case o.AllOnHost:
			o.spread(2)
		case len(o.decoding) == 0 && !prompts:
			o.spreadBest()
		case len(o.hosted) > 0:
			o.helpBest()
		}
		o.choose()
	}
	o.takeTurn()
}

// Complete applies the batch that Next formed.
func (o *Offload) Complete(emitted func(request int32, tokens int)) {
	b := &o.batch
	for i := range b.Sub {
		for k := range b.Sub[i].Host {
			if d := &b.Sub[i].Host[k]; d.Last <= b.Step {
				o.leave(o.find(d.Request))
				o.release(o.holds[d.Request])
				o.forecast.ended(o.requests[d.Request].Output)
				o.dealt = -1
				emitted(d.Request, o.requests[d.Request].Output)
			}
		}
	}
	o.Scheduler.Complete(emitted)
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
	o.dealt = -1
	o.onHost = len(o.hosted)
	return h
}
