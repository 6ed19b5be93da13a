package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// move is a request on its way from the host to the GPUs. It sits out, and has memory
// there only: its pages on the host are free one after another, and whatever takes
// them comes over links that are no faster.
type move struct {
	Decoding
	settled int64 // step for which Base and Last are right
	left    units.Duration
}

// settle moves Base and Last on to a step.
func (m *move) settle(step int64) {
	missed := step - m.settled
	m.Base -= missed
	m.Last += missed
	m.settled = step
}

// moveUp has requests of the host that the GPUs could hold move there once they have
// room, the oldest first, as many as the links carry in an iteration as long as the
// one before. Those that are there by its end take part in it, layer after layer as
// their keys and values come.
func (o *Offload) moveUp() {
	if o.leaving <= 0 {
		o.startMoves()
	}
	o.batch.Step++ // requests are entered for the step to come
	for len(o.moving) > 0 && o.moving[0].left <= o.clock.took {
		o.batch.Moves.Up.Wait = max(o.moving[0].left, 0)
		o.arrive()
	}
	o.batch.Step--
}

// startMoves has requests begin to move.
func (o *Offload) startMoves() {
	var busy units.Duration
	if n := len(o.moving); n > 0 {
		busy = o.moving[n-1].left
	}
	for o.movable > 0 && (len(o.moving) == 0 || busy < o.clock.took) && !(o.full && len(o.decoding)+len(o.moving) > 0) {
		at := o.firstMovable()
		d := &o.hosted[at]
		if o.head < len(o.queue) {
			if first := o.queue[o.head].request; first < d.Request && o.gpusHold(&o.requests[first]) {
				return
			}
		}
		o.settle(o.batch.Step + 1)
		context := d.Context(o.settled)
		tokens := context
		if o.memory.Admission != AdmitCurrent {
			tokens = o.finalTokens(&o.requests[d.Request])
		}
		w := waiting{request: d.Request, prompt: context, emitted: context - o.requests[d.Request].Input}
		hold, ok := Reservation{}, false
		if !o.seated(o.running()) {
			var f *forecast
			if !o.due(d.Request) {
				f = o.foresee(&w)
			}
			hold, ok = o.ledger.Reserve(tokens, o.keep(o.ledger), f, o.comm.Balance, o.rng)
		}
		if !ok {
			o.full = true
			return
		}
		h := o.leave(at)
		if h.runs {
			o.batch.Pauses = append(o.batch.Pauses, Pause{Request: h.Request})
		}
		busy += o.Costs.Move(context - 1)
		o.moving = append(o.moving, move{h.Decoding, o.settled, busy})
		o.release(o.holds[h.Request])
		o.holds[h.Request] = hold
		o.batch.Moves.Up.Tokens += context - 1
	}
}

// firstMovable returns the place of the oldest request that the GPUs could hold.
func (o *Offload) firstMovable() int {
	return slices.IndexFunc(o.hosted, func(h hosted) bool { return h.movable })
}

// arrive has the first request that moves decode on the GPUs from the present step on.
func (o *Offload) arrive() {
	m := o.moving[0]
	o.moving = slices.Delete(o.moving, 0, 1)
	m.settle(o.batch.Step)
	o.Scheduler.enter(m.Decoding)
	o.batch.Pauses = append(o.batch.Pauses, Pause{Request: m.Request, Ends: true})
	o.dealt = -1
}

// stay ends a request's move whose memory on the GPUs others need.
func (o *Offload) stay(at int) int32 {
	m := o.moving[at]
	o.moving = slices.Delete(o.moving, at, at+1)
	m.settle(o.batch.Step)
	if r, ok := o.reserveOnHost(m.Context(o.batch.Step)); ok {
		o.release(o.holds[m.Request])
		o.holds[m.Request] = r
		m.settle(o.settled)
		o.enter(m.Decoding)
		o.hosted[o.find(m.Request)].runs = false
		o.full = true // what it leaves is for the others to grow into
		return m.Request
	}
	o.drop(&m.Decoding)
	return m.Request
}

// moveDown has a request that decodes on the GPUs move to the host, if that has room.
// Its pages are free one after another, much faster than the others grow into them.
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
	o.full = true // what it leaves is for the others to grow into
	return true
}

// reserveOnHost takes memory of the host for a context.
func (o *Offload) reserveOnHost(context int) (Reservation, bool) {
	r, ok := o.Host.Reserve(o.Host.whole(context), 0, nil, o.comm.Balance, o.rng)
	r.Host = true
	return r, ok
}

// arriveOnHost has all requests that moved to the host decode there.
func (o *Offload) arriveOnHost() {
	if o.leaving == 0 {
		return
	}
	o.leaving = 0
	for i := range o.hosted {
		o.hosted[i].comes = false
	}
	o.dealt = -1
}
