package offload

import (
	"slices"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// swapIn swaps requests of the host in once the GPUs have room, the oldest first. It starts as many
// as the links can carry in the time of the latest iteration. A request whose transfer ends within
// the iteration takes part in it: each layer runs once its keys and values are there.
func (o *Former) swapIn() {
	s := o.s
	s.Host.Stay = false
	if o.swaps.leaving == 0 {
		o.startSwaps()
	}
	if len(s.Host.SwapIns) == 0 {
		return
	}
	s.Batch.Step++ // requests enter with the coming step
	within := o.nextTakes()
	for len(s.Host.SwapIns) > 0 && s.Host.SwapIns[0].Left <= within {
		s.Batch.Moves.Up.Wait = max(s.Host.SwapIns[0].Left, 0)
		o.arrive()
	}
	s.Batch.Step--
}

// nextTakes returns the expected duration of the coming iteration, within which a swap in must end to take part: that of the
// latest iteration, but at most a step of the GPUs' requests. Prompts may have made the latest one longer, and a step would
// wait for the swap in.
func (o *Former) nextTakes() units.Duration {
	if len(o.s.Decoding) == 0 {
		return o.swaps.took
	}
	o.trial.set(o.s, o.s.Decoding)
	return min(o.swaps.took, o.costs.Iteration(&o.trial.batch))
}

// startSwaps starts to swap requests in. A request needs memory for its present length and the watermark, as in vLLM
// (BlockSpaceManager.can_swap_in). The forecast is not asked: a request that has emitted tokens is expected to emit more, so it
// would wait on the host although the GPUs would admit it as a prompt, and all younger ones behind it. If the oldest stays, none
// starts.
func (o *Former) startSwaps() {
	s := o.s
	var busy units.Duration
	if n := len(s.Host.SwapIns); n > 0 {
		busy = s.Host.SwapIns[n-1].Left
	}
	for len(s.Host.SwapIns) == 0 || busy < o.swaps.took {
		if o.swaps.full == s.Usage.Freed && len(s.Decoding)+len(s.Host.SwapIns) > 0 {
			return
		}
		at := firstMovable(s)
		if at < 0 {
			return
		}
		d := &s.Host.Decoding[at]
		if s.Queue.Len() > 0 {
			if first := s.Queue.First(); first.Request < d.Request && s.GPUsHold(first.Request, first.Prompt) {
				return
			}
		}
		context := d.NextContext(s.Batch.Step + 1)
		tokens := context + s.Speculation.Ahead()
		if !s.Grows() {
			tokens = s.FinalTokens(&s.Requests[d.Request])
		}
		if s.Host.Stay = o.stays(d, tokens); s.Host.Stay {
			s.Queue.Blocked = false
			return
		}
		w := batching.Waiting{Request: d.Request, Prompt: context}
		hold, ok := s.Ledger.Reserve(memory.Prompted(tokens), nil, s.KeepFree(&w, false), nil)
		if !ok {
			o.swaps.full = s.Usage.Freed
			return
		}
		h := s.LeaveHost(at)
		if h.Runs {
			h.Settled, h.Since = s.Batch.Step+1, s.Batch.Step+1
			s.Batch.Pauses = append(s.Batch.Pauses, scheduler.Pause{Request: h.Request})
		}
		busy += o.costs.Fetch(context - 1)
		s.Host.SwapIns = append(s.Host.SwapIns, batching.SwapIn{Paused: h.Paused, Left: busy})
		s.Release(s.Holds[h.Request])
		s.Holds[h.Request] = hold
		s.Batch.Moves.Up.Tokens += context - 1
	}
}

// firstMovable returns the index of the oldest request on the host that the GPUs could hold, -1 for none.
func firstMovable(s *batching.State) int {
	if s.AllOnHost {
		return -1
	}
	return slices.IndexFunc(s.Host.Decoding, func(h batching.Hosted) bool { return h.Movable })
}

// arrive ends the first swap in: its request decodes on the GPUs from the present step on.
func (o *Former) arrive() {
	m := o.end(0)
	o.s.Enter(m.Decoding)
	o.s.Batch.Pauses = append(o.s.Batch.Pauses, scheduler.Pause{Request: m.Request, Ends: true})
	o.s.Dealt = -1
}

// end removes a swap in, and returns its request with its context at the present step.
func (o *Former) end(at int) batching.Paused {
	m := o.s.Host.SwapIns[at].Paused
	o.s.Host.SwapIns = slices.Delete(o.s.Host.SwapIns, at, at+1)
	m.Settle(o.s.Batch.Step)
	return m
}

// turnBack cancels a swap in. It returns the request, which goes back to the host if it fits.
func (o *Former) turnBack(at int) int32 {
	m := o.end(at)
	if !o.toHost(m.Decoding) {
		o.s.Drop(&m.Decoding)
		return m.Request
	}
	h := &o.s.Host.Decoding[o.s.Host.Find(m.Request)]
	h.Runs, h.Settled, h.Since = false, m.Settled, m.Since
	return m.Request
}

// swapOut swaps a decoding request out to the host, if the host has room. Its pages on
// the GPUs become free one by one, much faster than other requests grow into them.
func (o *Former) swapOut(at int) bool {
	s := o.s
	d := s.Decoding[at]
	if !o.toHost(d) {
		return false
	}
	s.Decoding = slices.Delete(s.Decoding, at, at+1)
	tokens := d.Context(s.Batch.Step) - 1
	s.Batch.Moves.Down.Tokens += tokens
	o.swaps.leaving += o.costs.Move(tokens)
	s.Host.Decoding[s.Host.Find(d.Request)].Comes = o.swaps.leaving > 0
	return true
}

// toHost exchanges a request's GPU memory for host memory, if the host has room, and makes it decode there. Other
// requests may grow into the freed memory.
func (o *Former) toHost(d scheduler.Decoding) bool {
	s := o.s
	tokens := s.HostLedger.Whole(d.Context(s.Batch.Step) + s.Speculation.Ahead())
	r, ok := s.HostLedger.Reserve(memory.Prompted(tokens), nil, 0, nil)
	if !ok {
		return false
	}
	r.Host = true
	s.Release(s.Holds[d.Request])
	s.Holds[d.Request] = r
	s.Enter(d)
	o.swaps.full = s.Usage.Freed
	return true
}

// arriveOnHost ends all swaps out: their requests may decode on the host.
func (o *Former) arriveOnHost() {
	o.swaps.leaving = 0
	for i := range o.s.Host.Decoding {
		if h := &o.s.Host.Decoding[i]; h.Comes {
			h.Comes, h.Since = false, o.s.Batch.Step
		}
	}
	o.s.Dealt = -1
}
