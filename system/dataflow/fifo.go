package dataflow

// serve runs a task on a FIFO and returns its end, which is known at once.
func (e *Engine) serve(t task, x *opState) Time {
	s := x.on
	begin, length := max(s.free, e.now+s.latency), x.Last
	if x.Flags&NextLayer != 0 && t.layer == e.sub[t.sub].total-1 {
		length = e.it.Sub[t.sub].Exit
	}
	if s.twin > 0 {
		if l := &e.links[e.servers[s.twin-1].link]; l.busy {
			begin = max(begin, l.end)
		}
		s.ahead = append(s.ahead, stretch{begin, begin + length})
	}
	switch {
	case x.Resource == e.main && begin > s.free:
		e.waited(t.sub, t.op, s.free, begin)
	case x.Resource == e.device:
		e.reached(t.sub)
		e.left(t.sub, begin+length)
	}
	s.free = begin + length
	if e.spans != nil {
		e.spans.add(Span{Start: begin, End: s.free, Ready: e.now, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: x.Resource})
	}
	if e.onStart {
		e.begun(t, begin)
	}
	return s.free
}

// clear returns the first time from begin on at which the twin of an operation's link leaves their
// common bus free for a length of time.
func (e *Engine) clear(x *opState, begin, length Time) Time {
	if x.on.twin == 0 {
		return begin
	}
	s, over := &e.servers[x.on.twin-1], 0
	for _, a := range s.ahead {
		if a.end <= e.now {
			over++
		}
		if begin < a.end && begin+length > a.begin {
			begin = a.end
		}
	}
	s.ahead = append(s.ahead[:0], s.ahead[over:]...)
	return begin
}

// wake is an event without a due resource: an operation is ready, or its layer has ended.
type wake struct {
	at    Time
	order int64 // order of events at one instant; see wakeOrder
	layer int32
	sub   int32
}

// Parts of a wake's order, above its operation. Operations that other resources make ready come
// before those that a FIFO's own end makes ready; then operations come before layers.
const (
	wakeOwn   = int64(1) << 33
	wakeLayer = int64(1) << 32
)

// wake handles the next wake, and those of the same resource at the same instant, since a FIFO ends
// one operation and starts another at once.
func (e *Engine) wake() {
	n := len(e.wakes) - 1
	at, own := e.wakes[n].at, e.wakes[n].order&wakeOwn
	e.now = at
	e.events++
	for {
		w := &e.wakes[n] // in place, see doc.go
		order, t := w.order, task{int32(w.order), w.layer, int8(w.sub)}
		e.wakes = e.wakes[:n]
		if order&wakeLayer == 0 {
			e.start(t)
		} else if e.nextLayer(t.sub) {
			e.skipRepeats(t.sub)
		}
		if n = len(e.wakes) - 1; n < 0 || own == 0 || e.wakes[n].at != at || e.wakes[n].order&wakeOwn == 0 {
			return
		}
	}
}

// sleep adds a wake at a time; the list is ordered with the next one last. order holds the bits
// above the operation.
func (e *Engine) sleep(at Time, order int64, t task) {
	order |= int64(t.op)
	i := len(e.wakes)
	if i == cap(e.wakes) {
		e.wakes = append(e.wakes, wake{})
	}
	x := e.wakes[:i+1]
	e.wakes = x
	for ; i > 0; i-- {
		before := &x[i-1]
		if before.at > at || before.at == at && before.order > order {
			break
		}
		after := &x[i]
		after.at, after.order, after.layer, after.sub = before.at, before.order, before.layer, before.sub
	}
	w := &x[i]
	w.at, w.order, w.layer, w.sub = at, order, t.layer, int32(t.sub)
}
