package dataflow

// Reasons is the number of distinct reasons to wait (Resource.Reason).
const Reasons = 6

// Waits is how long two resources idle in an iteration, and what for. One is the main resource, which ends layers: the GPUs. The other is the
// device beside it (Resource.Device). The device counts as working from the arrival of a layer's first operation until the end of its last.
//
// Main's waits follow the chain of last predecessors: before an operation, it waits for the predecessor that ends last, from when that could
// start until its end; before that, for that one's own last predecessor, and so on. An operation queued behind another on its lane waits for
// the lanes alone. At the end the main resource waits for the operation that ends last.
//
// From the start of a layer until its first operation arrives, the device waits for the resource with which the layer begins. Otherwise it
// waits for the main resource while that works, and for the same as the main resource while that waits.
type Waits struct {
	Main   [Reasons]Time // by Reason of the resource that it waits for
	Uneven Time          // part of Main: time of the awaited lane beyond the mean of all lanes
	Device [Reasons]Time
}

// add adds another Waits, times times.
func (w *Waits) add(o *Waits, times Time) {
	for i := range w.Main {
		w.Main[i] += times * o.Main[i]
		w.Device[i] += times * o.Device[i]
	}
	w.Uneven += times * o.Uneven
}

// Waits returns the waits of the latest iteration. They are valid until the next one.
func (e *Engine) Waits() *Waits { return &e.waits }

// story is an operation's times in its latest layer, for waits.
type story struct {
	end   Time
	begun Time // on a lane: when the lane took it
}

// laneMean is the mean working time of a resource's lanes in a layer.
type laneMean struct {
	layer    Range
	resource int8
	time     Time
}

// idleness is the engine's state of the device.
type idleness struct {
	left    [2]int32 // by sub-batch: operations of layers in progress that have not ended
	sending [2]bool  // by sub-batch: no operation of the layer has arrived yet
	until   Time     // end of the latest operation
	mark    Time     // waits are added up until then
}

// busy says that the device has work of a layer.
func (d *idleness) busy() bool {
	return d.left[0] > 0 && !d.sending[0] || d.left[1] > 0 && !d.sending[1]
}

// readyWaits resets the waits for an iteration.
func (e *Engine) readyWaits(it *Iteration, start Time) {
	e.waits, e.mean.layer = Waits{}, Range{}
	e.idle = idleness{until: start, mark: start}
	for s := range it.Sub {
		if kinds := it.Sub[s].Kinds; len(kinds) > 0 {
			e.main = it.Ops[kinds[0].From].Resource
			break
		}
	}
	for len(e.story) < len(it.Ops) {
		e.story = append(e.story, story{})
	}
}

// settle adds up the device's waits until now, as if the main resource worked whenever no layer is on its
// way to the device.
func (e *Engine) settle(now Time) {
	d := &e.idle
	if from := max(d.mark, d.until); e.device >= 0 && now > from && !d.busy() {
		reason := e.resources[e.main].Reason
		for s := 1; s >= 0; s-- {
			if d.sending[s] {
				first := e.ops(int8(s)).From
				reason = e.resources[e.it.Ops[first].Resource].Reason
			}
		}
		e.waits.Device[reason] += now - from
	}
	d.mark = now
}

// reached records that an operation of a sub-batch has arrived at the device.
func (e *Engine) reached(s int8) {
	if e.idle.sending[s] {
		e.settle(e.now)
		e.idle.sending[s] = false
	}
}

// left records that an operation of a sub-batch leaves the device.
func (e *Engine) left(s int8, at Time) {
	e.idle.left[s]--
	e.idle.until = max(e.idle.until, at)
}

// waited adds up the main resource's waits, from free until an operation begins at until.
func (e *Engine) waited(s int8, op int32, free, until Time) {
	since := never
	if d := &e.idle; e.device >= 0 && !d.busy() && !d.sending[0] && !d.sending[1] {
		since = d.until
	}
	e.trace(e.it, e.ops(s), op, free, until, since, 1)
}

// trace follows the chain of last predecessors from an operation back to the time free. From since on the device
// waits, too. All waits count times times.
func (e *Engine) trace(it *Iteration, layer Range, op int32, free, until, since, times Time) {
	main := e.resources[e.main].Reason
	for until > free {
		o := &it.Ops[op]
		r, from := &e.resources[o.Resource], free
		before, ended := e.before(it, o)
		if before != none && (r.Discipline != Lanes || e.story[op].begun <= ended) {
			from = min(until, max(free, ended))
		}
		if took := until - from; took > 0 {
			e.waits.Main[r.Reason] += times * took
			if r.Discipline == Lanes {
				e.waits.Uneven += times * min(took, max(0, o.Last-e.laneMean(it, layer, o.Resource)))
			}
			if both := until - max(from, since); both > 0 {
				e.waits.Device[r.Reason] += times * both
				e.waits.Device[main] -= times * both
			}
		}
		until, op = from, before
	}
}

// before returns the last predecessor of an operation and its end; none if the operation waits for its layer's
// start, or for another's.
func (e *Engine) before(it *Iteration, o *Op) (last int32, ended Time) {
	last = none
	if o.Flags&OnStart == 0 {
		for _, i := range it.After[o.After.From:o.After.To] {
			if end := e.story[i].end; last == none || end > ended || end == ended && i > last {
				last, ended = i, end
			}
		}
	}
	return last, ended
}

// laneMean returns the mean for a layer, from a cache of the latest call.
func (e *Engine) laneMean(it *Iteration, layer Range, resource int8) Time {
	m := &e.mean
	if m.layer != layer || m.resource != resource {
		*m = laneMean{layer: layer, resource: resource}
		for i := layer.From; i < layer.To; i++ {
			if o := &it.Ops[i]; o.Resource == resource {
				m.time += o.Last
			}
		}
		m.time /= Time(e.resources[resource].Count)
	}
	return m.time
}

// waitedToEnd adds up the main resource's waits at the end, from free on, for an operation that ends last.
func (e *Engine) waitedToEnd(it *Iteration, last int32, free Time) {
	if e.end <= free {
		return
	}
	reason := e.resources[it.Ops[last].Resource].Reason
	e.waits.Main[reason] += e.end - free
	if since := max(free, e.idle.until); e.device >= 0 && e.end > since {
		e.waits.Device[reason] += e.end - since
		e.waits.Device[e.resources[e.main].Reason] -= e.end - since
	}
}
