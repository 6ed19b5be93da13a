package dataflow

// Reasons is how many reasons to wait are told apart (Resource.Reason).
const Reasons = 6

// Waits says how long two resources do nothing in an iteration, and for what. One is the main resource, which ends
// layers: the GPUs. The other is the device beside it (Resource.Device). It works from when the first operation of a layer is there until the
// last one of the layer has ended.
//
// The main resource waits for the operation that its next one waits for last, from when that one could start until its
// end; before that for what that one waited for last, and so on. An operation that is behind another one on its lane
// waits for the lanes alone. At the end the main resource waits for the operation that ends last.
//
// The device waits, from the start of a layer until the layer's first operation is there, for the resource with which the
// layer begins; else for the main resource while that works, and with it while it waits.
type Waits struct {
	Main   [Reasons]Time // by the Reason of the resource that is waited for
	Uneven Time          // part of Main: by what the lane that is waited for works longer than the mean of all lanes
	Device [Reasons]Time
}

// add adds what another one has, a number of times.
func (w *Waits) add(o *Waits, times Time) {
	for i := range w.Main {
		w.Main[i] += times * o.Main[i]
		w.Device[i] += times * o.Device[i]
	}
	w.Uneven += times * o.Uneven
}

// Waits returns those of the latest iteration. They are valid until the next one.
func (e *Engine) Waits() *Waits { return &e.waits }

// story is what waits ask of an operation in its latest layer.
type story struct {
	end   Time
	begun Time // of one on a lane: the lane has taken it on
}

// laneMean is how long the lanes of a resource work in a layer, on average over all of them.
type laneMean struct {
	layer    Range
	resource int8
	time     Time
}

// idleness is what the engine knows of the device.
type idleness struct {
	left    [2]int32 // by sub-batch: operations of layers that have begun, and that have not ended
	sending [2]bool  // by sub-batch: none of the layer is there yet
	until   Time     // end of the latest operation
	mark    Time     // up to when its waits are added up
}

// busy says that the device has a layer.
func (d *idleness) busy() bool {
	return d.left[0] > 0 && !d.sending[0] || d.left[1] > 0 && !d.sending[1]
}

// readyWaits readies the account of an iteration.
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

// settle adds up the device's waits up to now: as if the main resource worked where no layer is on its way.
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

// reached notes that an operation of a sub-batch is at the device.
func (e *Engine) reached(s int8) {
	if e.idle.sending[s] {
		e.settle(e.now)
		e.idle.sending[s] = false
	}
}

// left notes that an operation of a sub-batch leaves the device.
func (e *Engine) left(s int8, at Time) {
	e.idle.left[s]--
	e.idle.until = max(e.idle.until, at)
}

// waited adds up what the main resource waits for from free on until an operation begins.
func (e *Engine) waited(s int8, op int32, free, until Time) {
	since := never
	if d := &e.idle; e.device >= 0 && !d.busy() && !d.sending[0] && !d.sending[1] {
		since = d.until
	}
	e.trace(e.it, e.ops(s), op, free, until, since, 1)
}

// trace goes back from an operation of a layer to what it waited for last, and so on, until free. The device waits,
// too, from since on. All counts a number of times.
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

// before returns what an operation waited for last, and when that had ended; none where the operation waits for its
// layer's start, or for another one's.
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

// laneMean returns the mean for a layer, from the latest call where that was for it, too.
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

// waitedToEnd adds up what is waited for when the main resource, free from then on, has done all: an operation that ends last.
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
