package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// move is a request that swaps in, from the host to the GPUs. It sits out until it has
// arrived. Only its memory on the GPUs is reserved: its pages on the host become free one
// by one, and new data for them comes over links that are no faster.
type move struct {
	paused
	left units.Duration // transfer time left, including the moves before it
}

// moveUp swaps requests of the host in once the GPUs have room, the oldest first. It
// starts as many as the links carry in an iteration as long as the latest one. A request
// whose transfer ends within the iteration takes part in it: each of its layers runs
// when that layer's keys and values are there.
func (o *Offload) moveUp() {
	if o.leaving <= 0 {
		o.startMoves()
	}
	o.batch.Step++ // requests are entered for the step to come
	for len(o.moving) > 0 && o.moving[0].left <= o.took {
		o.batch.Moves.Up.Wait = max(o.moving[0].left, 0)
		o.arrive()
	}
	o.batch.Step--
}

// startMoves starts to swap requests in.
func (o *Offload) startMoves() {
	var busy units.Duration
	if n := len(o.moving); n > 0 {
		busy = o.moving[n-1].left
	}
	for o.movable > 0 && (len(o.moving) == 0 || busy < o.took) && !(o.full && len(o.decoding)+len(o.moving) > 0) {
		at := o.firstMovable()
		d := &o.hosted[at]
		if o.head < len(o.queue) {
			if first := o.queue[o.head].request; first < d.Request && o.gpusHold(&o.requests[first]) {
				return
			}
		}
		context := d.context(o.batch.Step + 1)
		tokens := context
		if o.memory.Admission != AdmitCurrent {
			tokens = o.finalTokens(&o.requests[d.Request])
		}
		w := waiting{request: d.Request, prompt: context, emitted: context - o.requests[d.Request].Input}
		hold, ok := o.ledger.Reserve(prompted(tokens), o.keep(o.ledger), o.foresee(&w), o.comm.Balance, o.rng)
		if !ok {
			o.full = true
			return
		}
		h := o.leave(at)
		if h.runs {
			h.settled, h.since = o.batch.Step+1, o.batch.Step+1
			o.batch.Pauses = append(o.batch.Pauses, Pause{Request: h.Request})
		}
		busy += o.Costs.Move(context - 1)
		o.moving = append(o.moving, move{h.paused, busy})
		o.release(o.holds[h.Request])
		o.holds[h.Request] = hold
		o.batch.Moves.Up.Tokens += context - 1
	}
}

// firstMovable returns the index of the oldest hosted request that the GPUs could hold.
func (o *Offload) firstMovable() int {
	return slices.IndexFunc(o.hosted, func(h hosted) bool { return h.movable })
}

// arrive ends the first swap in: its request decodes on the GPUs from the present step on.
func (o *Offload) arrive() {
	m := o.moving[0]
	o.moving = slices.Delete(o.moving, 0, 1)
	m.settle(o.batch.Step)
	o.Scheduler.enter(m.Decoding)
	o.batch.Pauses = append(o.batch.Pauses, Pause{Request: m.Request, Ends: true})
	o.dealt = -1
}

// stay cancels a swap in. It returns the request, which goes back to the host if it fits.
func (o *Offload) stay(at int) int32 {
	m := o.moving[at]
	o.moving = slices.Delete(o.moving, at, at+1)
	m.settle(o.batch.Step)
	if r, ok := o.reserveOnHost(m.Context(o.batch.Step)); ok {
		o.release(o.holds[m.Request])
		o.holds[m.Request] = r
		o.enter(m.Decoding)
		h := &o.hosted[o.find(m.Request)]
		h.runs, h.settled, h.since = false, m.settled, m.since
		o.full = true // the freed memory is for the other requests to grow into
		return m.Request
	}
	o.drop(&m.Decoding)
	return m.Request
}

// moveDown swaps a decoding request out to the host, if the host has room. Its pages on
// the GPUs become free one by one, much faster than other requests grow into them.
func (o *Offload) moveDown(at int) bool {
	d := o.decoding[at]
	context := d.Context(o.batch.Step)
	r, ok := o.reserveOnHost(context)
	if !ok {
		return false
	}
	o.decoding = slices.Delete(o.decoding, at, at+1)
	o.release(o.holds[d.Request])
	o.holds[d.Request] = r
	o.batch.Moves.Down.Tokens += context - 1
	o.leaving = max(o.leaving, 0) + o.Costs.Move(context-1)
	o.enter(d)
	o.hosted[o.find(d.Request)].comes = true
	o.full = true // the freed memory is for the other requests to grow into
	return true
}

// reserveOnHost reserves memory of the host for context tokens.
func (o *Offload) reserveOnHost(context int) (Reservation, bool) {
	r, ok := o.Host.Reserve(prompted(o.Host.whole(context)), 0, nil, o.comm.Balance, o.rng)
	r.Host = true
	return r, ok
}

// arriveOnHost ends all swaps out: their requests may decode on the host.
func (o *Offload) arriveOnHost() {
	if o.leaving == 0 {
		return
	}
	o.leaving = 0
	for i := range o.hosted {
		if h := &o.hosted[i]; h.comes {
			h.comes, h.since = false, o.batch.Step
		}
	}
	o.dealt = -1
}
