package dataflow

// wake is something that happens without a resource being due: all that an operation
// waits for is there, or its layer has ended.
type wake struct {
	at    Time
	order int64 // at one instant; see wakeOrder
	layer int32
	sub   int32
}

// Parts of a wake's order, above its operation. What becomes ready by another resource
// goes before what a FIFO's own end causes; then operations go before layers.
const (
	wakeOwn   = int64(1) << 33
	wakeLayer = int64(1) << 32
)

// wake handles the next wake, and those of the same resource at the same instant: a FIFO
// that ends one operation and starts another does it at once.
func (e *Engine) wake() {
	n := len(e.wakes) - 1
	at, own := e.wakes[n].at, e.wakes[n].order&wakeOwn
	e.now = at
	e.events++
	for {
		// Field by field, as in sleep: a processor reads as a whole what it has written in
		// parts only after a delay.
		w := &e.wakes[n]
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

// sleep keeps a wake for a time, the next one last. order is of the bits above the
// operation.
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
