package dataflow

// alone runs iterations of one sub-batch that has every resource to itself, in one pass over the
// operations of each kind of layer. If no operation outlives its layer, all layers of a kind take
// the same time, in any order.
type alone struct {
	slots []slot // by resource, then by lane
	gaps  []gap  // of the main resource, in the current layer
	pass  int32
	busy  Time // of the device
}

// gap is the time that the main resource waits before an operation.
type gap struct {
	op          int32
	free, until Time
}

// slot is a resource, or a lane, that serves one operation at a time.
type slot struct {
	free  Time  // end of all its operations so far
	ready Time  // when the latest became ready
	pass  int32 // pass in which that was
}

// layerTimes is the result of a pass over a layer.
type layerTimes struct {
	end    Time  // of the operation that ends the layer
	before Time  // start of that operation
	others Time  // the end of all others
	last   int32 // the one of the others that ends last
	first  Time  // when the first operation reaches the device; never for none
	until  Time  // when all operations on the device have ended
}

// run executes an iteration that starts at start and returns its end. ok is false for iterations that it cannot run: operations
// wait for links, for a start, or out of order, or outlive their layer. Operations of the first and the last layer may outlive
// theirs: they end with the iteration.
//
// It passes over one layer of each kind, one after the other. Each layer of a kind begins no earlier than the one in the pass,
// which follows one layer of each earlier kind: what is free in the pass is free in all layers.
func (a *alone) run(e *Engine, it *Iteration, start Time) (end Time, ok bool) {
	sub := &it.Sub[0]
	if len(sub.Order) == 0 {
		sub = &it.Sub[1]
	} else if len(it.Sub[1].Order) > 0 {
		return 0, false
	}
	for i := range a.slots {
		a.slots[i].free = start
	}
	e.readyWaits(it, start)
	e.end, a.busy = start, 0
	var last layerTimes
	now, skipped, latest := start, Time(0), none
	for k := range sub.Kinds {
		r := &sub.Kinds[k]
		t, ok := a.layer(e, it, r.Range, now)
		ends := r == sub.last()
		if !ok || t.others > t.end && (r.Count > 1 || k > 0 && !ends) {
			return 0, false
		}
		a.waits(e, it, r.Range, &t, now, Time(r.Count))
		if k == 0 && t.last != none {
			e.end, latest = t.others, t.last
		}
		if ends {
			last = t
		}
		skipped += Time(r.Count-1) * (t.end - now)
		now = t.end
	}
	behind := now + skipped - last.end // of the last layer, after the pass over its kind
	now = last.before + behind + sub.Exit
	if others := last.others + behind; last.last != none && others >= e.end {
		e.end, latest = others, last.last
	}
	e.idle.until = max(start, last.until+behind)
	e.waitedToEnd(it, latest, now)
	e.end = max(e.end, now)
	if e.device >= 0 {
		alike := &e.waits.Device[e.resources[e.main].Reason]
		*alike = e.end - start - a.busy
		for r := range e.waits.Device {
			if to := &e.waits.Device[r]; to != alike {
				*alike -= *to
			}
		}
	}
	return e.end, true
}

// waits adds up the waits of all layers of the kind just passed, of which the first starts at now.
func (a *alone) waits(e *Engine, it *Iteration, ops Range, t *layerTimes, now, layers Time) {
	for _, g := range a.gaps {
		since := never
		if e.device >= 0 && g.until >= t.until {
			since = t.until
		}
		e.trace(it, ops, g.op, g.free, g.until, since, layers)
	}
	if t.first < never {
		e.waits.Device[e.resources[it.Ops[ops.From].Resource].Reason] += layers * (t.first - now)
		a.busy += layers * (t.until - t.first)
	}
}

// layer passes over the operations of a layer that starts at now.
func (a *alone) layer(e *Engine, it *Iteration, r Range, now Time) (t layerTimes, ok bool) {
	a.pass++
	a.gaps, t.first, t.last = a.gaps[:0], never, none
	for i := r.From; i < r.To; i++ {
		o := &it.Ops[i]
		server := &e.servers[o.Resource]
		if o.Flags&^NextLayer != 0 || server.discipline == Link || server.twin > 0 {
			return t, false
		}
		x := &a.slots[o.Resource]
		if server.discipline == Lanes {
			x = &a.slots[len(e.servers)+server.lanes+int(o.Lane)]
		}
		ready := now
		for _, before := range it.After[o.After.From:o.After.To] {
			ready = max(ready, e.story[before].end)
		}
		if x.pass != a.pass && x.free > now || x.pass == a.pass && ready <= x.ready {
			return t, false // an operation outlives its layer, or the order is unclear
		}
		begin := max(ready+server.latency, x.free)
		end := begin + o.Last
		e.story[i] = story{end, max(ready, x.free)}
		if free := max(x.free, now); o.Resource == e.main && begin > free {
			a.gaps = append(a.gaps, gap{i, free, begin})
		}
		if o.Resource == e.device {
			t.first, t.until = min(t.first, ready), max(t.until, end)
		}
		x.free, x.ready, x.pass = end, ready, a.pass
		if o.Flags&NextLayer != 0 {
			t.end, t.before = end, begin
		} else if end >= t.others {
			t.others, t.last = end, i
		}
	}
	return t, t.first == never || t.until <= t.end
}
