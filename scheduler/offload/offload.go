package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/units"
)

// Costs returns the times of an iteration in which CPUs compute the attention of some requests while the GPUs
// work. It is the only hardware model that offloading uses; package system implements it with the costs that
// it will charge. A time is that of one layer unless its comment says more.
type Costs interface {
	// Linear returns the time of the batched operations for a number of tokens.
	Linear(tokens int) units.Duration
	// Attention returns the time of attention on the GPUs, for the sub-batch's prompts
	// and for the requests that it decodes on the GPUs.
	Attention(s *scheduler.SubBatch, step int64) units.Duration
	// HostAttention returns the time of attention on the CPUs for a number of requests whose contexts
	// sum to tokens, transfers of their vectors included.
	HostAttention(requests int, tokens int64) units.Duration
	// Move returns the time to transfer the keys and values of tokens tokens of all layers from the
	// GPUs to the host; Fetch is the other direction.
	Move(tokens int) units.Duration
	Fetch(tokens int) units.Duration
	// Iteration returns the exact time of a whole iteration.
	Iteration(b *scheduler.Batch) units.Duration
	// Latest returns the duration of the latest iteration, and for how much of it the links to the
	// GPUs (up) and from them (down) were idle: they carried neither vectors nor prompts of the
	// iteration.
	Latest() (took, up, down units.Duration)
}

// Former forms the iterations of a replica with two memories. The keys and values of a
// request are all on the GPUs, or all on the host (NEO: Jiang et al., "NEO: Saving GPU
// Memory Crisis with CPU Offloading for Online LLM Inference", MLSys 2025, sections
// 3 and 4).
//
// A policy of continuous batching forms an iteration from the GPUs' requests. Requests of the host
// may join, in one sub-batch or in two. With two, the first has the prompts, the requests that
// decode on the GPUs, and possibly requests of the host; the second has only requests of the host.
// While the GPUs compute for one sub-batch, the CPUs compute attention for the other. Requests of
// the host that do not fit sit the iteration out, until it is their turn (takeTurn) or the GPUs
// have room for them (swapIn).
//
// With Memories.AllOnHost the CPUs compute all decode attention, in two sub-batches that take turns
// on GPUs and CPUs (FastDecode: He and Zhai, 2024). Otherwise they help if that is faster than the
// GPUs alone.
type Former struct {
	costs Costs
	// maxDelay is the share by which the GPUs' iterations may take longer for the host's requests:
	// once for those whose attention nearly hides, once for turns of the others.
	maxDelay float64

	s      *batching.State // of the replica whose iteration is being formed
	streak batching.Streak
	counts bool // the time of the latest iteration counts: for swaps, or for turns
	swaps  swapState
	turns  turns
	shut   refusedBy       // the request that the GPUs refused memory, until it may ask again
	gpus   scheduler.Batch // scratch: a batch whose time is predicted
	trial  trial           // scratch
	watch  watch
}

// swapState is the requests in transfer between memories.
type swapState struct {
	full    int64          // releases of GPU memory when it last had no room for a swap in, which waits for the next release; -1: it has room
	leaving units.Duration // transfer time left of swaps out to the host
	took    units.Duration // duration of the latest iteration
}

// turns rations the turns of host requests that do not fit an iteration (takeTurn).
type turns struct {
	request int32          // the request whose turn the present iteration is; else nobody
	credit  units.Duration // time that turns may cost by now
}

// refusedBy is a request to which the GPUs refused memory. The refusal is void once memory of the GPUs is freed.
type refusedBy struct {
	request int32
	freed   int64 // releases of GPU memory before the refusal
}

// nobody is no request's index.
const nobody = -1

// open is the refusal of no request.
var open = refusedBy{request: nobody}

// New returns the Former of a replica with a host's memory and two sub-batches. maxDelay is the share by
// which the GPUs' iterations may take longer for the host's requests: once for those whose attention
// nearly hides, once for turns of the others.
func New(costs Costs, maxDelay float64) *Former {
	return &Former{
		costs: costs, maxDelay: maxDelay, shut: open, swaps: swapState{full: -1}, turns: turns{request: nobody},
		gpus: scheduler.Batch{Sub: make([]scheduler.SubBatch, 1)}, trial: newTrial(),
	}
}

// Form implements Former.
func (o *Former) Form(s *batching.State) {
	o.s = s
	b := &s.Batch
	o.account()
	if s.IsOld(s.Queue.Refusal) {
		o.shut = open
	}
	b.Pauses, b.Moves = b.Pauses[:0], scheduler.Moves{}
	o.askAgain()
	o.swapIn()
	if s.Policy == scheduler.PolicyChunkedPrefill {
		o.step()
		if s.AllOnHost {
			o.help()
		}
		if s.Queue.Asks() {
			o.stayOnGPUs()
			o.fillBeside()
		}
		if !s.AllOnHost {
			o.help()
		}
	} else if !o.promptsFirst() {
		o.step()
		o.help()
		if b.Empty() { // the last request has lost its memory in this step, and begins anew
			o.promptsFirst()
		}
	}
	o.counts = !b.Empty() && (len(s.Host.Decoding)+len(s.Host.SwapIns) > 0 || o.swaps.leaving > 0)
}

// askAgain lets the queue's head ask the host again once the cause of its refusal has changed: the forecast, or which attention
// hides. A refusal for lack of memory waits for memory.
func (o *Former) askAgain() {
	if s := o.s; s.IsOld(s.Host.Refusal) {
		s.Queue.Blocked = false
	}
}

// account adds up the time of the latest iteration, if it counts: swaps progress while the links
// are idle, and turns earn their share of it.
func (o *Former) account() {
	if !o.counts {
		return
	}
	took, up, down := o.costs.Latest()
	o.swaps.took = took
	for i := range o.s.Host.SwapIns {
		o.s.Host.SwapIns[i].Left -= up
	}
	if o.swaps.leaving > 0 {
		if o.swaps.leaving -= down; o.swaps.leaving <= 0 {
			o.arriveOnHost()
		}
	}
	if o.s.Batch.Decoding() > 0 {
		o.turns.credit += o.slack(took)
	}
}

// promptsFirst forms an iteration of prompts if memory has room for one, and returns whether it
// did.
func (o *Former) promptsFirst() bool {
	decoding := len(o.s.Decoding) + len(o.s.Host.Decoding)
	if !o.s.Queue.Asks() || o.streak.Over(o.s.PrefillStreak, decoding) {
		return o.streak.Next(false, decoding)
	}
	o.clear()
	o.stayOnGPUs()
	o.s.Fill(o.admit)
	return o.streak.Next(len(o.s.Batch.Sub[0].Prefill) > 0, decoding)
}

// clear removes all decoding requests from the iteration.
func (o *Former) clear() {
	for i := range o.s.Batch.Sub {
		sub := &o.s.Batch.Sub[i]
		sub.Decode, sub.Host = sub.Decode[:0], sub.Host[:0]
	}
	o.s.Dealt, o.turns.request = -1, nobody
}

// step makes the GPUs' requests take a step. The host's requests of the step before take part
// again, unless it is time to choose again.
func (o *Former) step() {
	s, b := o.s, &o.s.Batch
	b.Step++
	if s.Grows() {
		s.GrowAll(o.makeRoom)
		o.growHosted()
	}
	if s.Dealt < 0 || b.Step-s.Dealt >= batching.DealEvery || s.Queue.Asks() {
		o.clear()
		b.Sub[0].Decode = append(b.Sub[0].Decode, s.Decoding...)
	} else {
		o.endTurn()
	}
}

// help chooses the host's requests that take part, if it is time to choose again. GPUs without work
// wait for a swap in, or for all swaps out.
func (o *Former) help() {
	s, b := o.s, &o.s.Batch
	prompts := len(b.Sub[0].Prefill) > 0
	if len(s.Decoding) == 0 && !prompts {
		if len(s.Host.SwapIns) > 0 {
			b.Moves.Up.Wait = max(s.Host.SwapIns[0].Left, 0)
			o.arrive()
			b.Sub[0].Decode = append(b.Sub[0].Decode, s.Decoding...)
		} else if o.swaps.leaving > 0 {
			b.Moves.Down.Wait = o.swaps.leaving
			o.arriveOnHost()
		}
	}
	if s.Dealt < 0 {
		if !prompts {
			s.Dealt = b.Step
		}
		switch {
		case s.AllOnHost:
			o.spread(2)
		case len(s.Decoding) == 0 && !prompts:
			o.spreadBest()
		case len(s.Host.Decoding) > 0:
			o.helpBest()
		}
		o.choose()
	}
	o.takeTurn()
}
