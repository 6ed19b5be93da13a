package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// swapIn swaps requests of the host in once the GPUs have room, the oldest first. It
// starts as many as the links carry in an iteration as long as the latest one. A request
// whose transfer ends within the iteration takes part in it: each of its layers runs
// when that layer's keys and values are there.
func (o *Offload) swapIn() {
	s := o.s
	if o.swaps.leaving <= 0 {
		o.startSwaps()
	}
	s.batch.Step++ // requests are entered for the step to come
	for len(s.host.swapIns) > 0 && s.host.swapIns[0].left <= o.swaps.took {
		s.batch.Moves.Up.Wait = max(s.host.swapIns[0].left, 0)
		o.arrive()
	}
	s.batch.Step--
}

// startSwaps starts to swap requests in.
func (o *Offload) startSwaps() {
	s := o.s
	var busy units.Duration
	if n := len(s.host.swapIns); n > 0 {
		busy = s.host.swapIns[n-1].left
	}
	for len(s.host.swapIns) == 0 || busy < o.swaps.took {
		if o.swaps.full == s.usage.freed && len(s.decoding)+len(s.host.swapIns) > 0 {
			return
		}
		at := firstMovable(s)
		if at < 0 {
			return
		}
		d := &s.host.decoding[at]
		r := &s.requests[d.Request]
		if s.queue.len() > 0 {
			if first := s.queue.first().request; first < d.Request && s.gpusHold(&s.requests[first]) {
				return
			}
		}
		context := d.nextContext(s.batch.Step + 1)
		tokens := context
		if !s.grows() {
			tokens = s.finalTokens(r)
		}
		w := waiting{request: d.Request, prompt: context, emitted: context - r.Input}
		hold, ok := s.Ledger.Reserve(prompted(tokens), nil, s.keepFree(r, false), s.foresee(&w, false))
		if !ok {
			o.swaps.full = s.usage.freed
			return
		}
		h := s.leaveHost(at)
		if h.runs {
			h.settled, h.since = s.batch.Step+1, s.batch.Step+1
			s.batch.Pauses = append(s.batch.Pauses, Pause{Request: h.Request})
		}
		busy += o.costs.Move(context - 1)
		s.host.swapIns = append(s.host.swapIns, swapIn{h.paused, busy})
		s.release(s.holds[h.Request])
		s.holds[h.Request] = hold
		s.batch.Moves.Up.Tokens += context - 1
	}
}

// firstMovable returns the index of the oldest request on the host that the GPUs could hold, -1 for none.
func firstMovable(s *State) int {
	if s.AllOnHost {
		return -1
	}
	return slices.IndexFunc(s.host.decoding, func(h hosted) bool { return h.movable })
}

// arrive ends the first swap in: its request decodes on the GPUs from the present step on.
func (o *Offload) arrive() {
	m := o.end(0)
	o.s.enter(m.Decoding)
	o.s.batch.Pauses = append(o.s.batch.Pauses, Pause{Request: m.Request, Ends: true})
	o.s.dealt = -1
}

// end removes a swap in, and returns its request with contexts of the present step.
func (o *Offload) end(at int) paused {
	m := o.s.host.swapIns[at].paused
	o.s.host.swapIns = slices.Delete(o.s.host.swapIns, at, at+1)
	m.settle(o.s.batch.Step)
	return m
}

// turnBack cancels a swap in. It returns the request, which goes back to the host if it fits.
func (o *Offload) turnBack(at int) int32 {
	m := o.end(at)
	if !o.toHost(m.Decoding) {
		o.s.drop(&m.Decoding)
		return m.Request
	}
	h := &o.s.host.decoding[o.s.host.find(m.Request)]
	h.runs, h.settled, h.since = false, m.settled, m.since
	return m.Request
}

// swapOut swaps a decoding request out to the host, if the host has room. Its pages on
// the GPUs become free one by one, much faster than other requests grow into them.
func (o *Offload) swapOut(at int) bool {
	s := o.s
	d := s.decoding[at]
	if !o.toHost(d) {
		return false
	}
	s.decoding = slices.Delete(s.decoding, at, at+1)
	tokens := d.Context(s.batch.Step) - 1
	s.batch.Moves.Down.Tokens += tokens
	o.swaps.leaving = max(o.swaps.leaving, 0) + o.costs.Move(tokens)
	s.host.decoding[s.host.find(d.Request)].comes = true
	return true
}

// toHost exchanges a request's memory on the GPUs for memory of the host, if the host has room, and has it decode there.
// The freed memory is for the other requests to grow into.
func (o *Offload) toHost(d Decoding) bool {
	s := o.s
	tokens := s.HostLedger.whole(d.Context(s.batch.Step))
	r, ok := s.HostLedger.Reserve(prompted(tokens), nil, 0, nil)
	if !ok {
		return false
	}
	r.Host = true
	s.release(s.holds[d.Request])
	s.holds[d.Request] = r
	s.enter(d)
	o.swaps.full = s.usage.freed
	return true
}

// arriveOnHost ends all swaps out: their requests may decode on the host.
func (o *Offload) arriveOnHost() {
	if o.swaps.leaving == 0 {
		return
	}
	o.swaps.leaving = 0
	for i := range o.s.host.decoding {
		if h := &o.s.host.decoding[i]; h.comes {
			h.comes, h.since = false, o.s.batch.Step
		}
	}
	o.s.dealt = -1
}
