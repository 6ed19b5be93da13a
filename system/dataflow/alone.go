package dataflow

// alone runs iterations of one sub-batch that has every resource to itself, in one pass
// over the operations of each kind of layer: where nothing of a layer outlives it, all
// layers with the same operations take the same time.
type alone struct {
	slots    []slot // by resource, then by lane
	kinds    []passed
	outlived int   // place of the latest entry of SubBatch.Layers of which something outlives its layer
	gaps     []gap // of the main resource, in the layer at hand
	pass     int32
	busy     Time // of the device
}

// passed is a layer that has been passed over. All with the same operations take the same times where nothing outlives them.
type passed struct {
	Range
	layerTimes
	start Time
	entry int // place in SubBatch.Layers
}

// gap is the time that the main resource waits before an operation.
type gap struct {
	op          int32
	free, until Time
}

// slot is a resource, or a lane, that serves one operation after another.
type slot struct {
	free  Time  // of all it has taken on
	ready Time  // of the latest
	pass  int32 // in which that was
}

// layerTimes is what a pass over a layer finds.
type layerTimes struct {
	end    Time  // of the operation that ends the layer
	before Time  // its start
	others Time  // the end of all others
	last   int32 // of those, the one that ends last
	first  Time  // the first operation is at the device; never for none
	until  Time  // all that is there has ended
}

// run executes an iteration that starts at start and returns its end. It reports false
// where it cannot tell: where operations wait for links, for a start, or out of order.
func (a *alone) run(e *Engine, it *Iteration, start Time) (end Time, ok bool) {
	sub := &it.Sub[0]
	if len(sub.Layers) == 0 {
		sub = &it.Sub[1]
	} else if len(it.Sub[1].Layers) > 0 {
		return 0, false
	}
	for i := range a.slots {
		a.slots[i].free = start
	}
	e.readyWaits(it, start)
	now, last := start, none
	e.end, a.busy = start, 0
	a.kinds, a.outlived = a.kinds[:0], 0
	for i := range sub.Layers {
		r := &sub.Layers[i]
		if i < len(sub.Layers)-1 {
			if x := a.known(r.Range); x != nil {
				by := now - x.start + Time(r.Count-1)*(x.end-x.start) // to the last of these layers
				if others := x.others + by; x.last != none && others >= e.end {
					e.end, last = others, x.last
				}
				e.idle.until = max(e.idle.until, x.until+by)
				now = x.end + by
				continue
			}
		}
		t, ok := a.times(e, it, sub, i, now)
		if !ok {
			return 0, false
		}
		skipped := Time(r.Count-1) * (t.end - now)
		if i == len(sub.Layers)-1 {
			t.end = t.before + sub.Exit
		}
		now = t.end + skipped
		if others := t.others + skipped; t.last != none && others >= e.end {
			e.end, last = others, t.last
		}
		e.idle.until = max(e.idle.until, t.until+skipped)
	}
	e.waitedToEnd(it, last, now)
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

// times returns the times of the first layer of an entry, which starts at now: those of a layer that has been passed over, or of a pass over
// this one. It reports false where that cannot tell, or where layers of the entry outlive each other.
func (a *alone) times(e *Engine, it *Iteration, sub *SubBatch, entry int, now Time) (t layerTimes, ok bool) {
	r := &sub.Layers[entry]
	if len(sub.Layers) <= 2 { // one kind of layers behind the entry: there is nothing to keep
		if t, ok = a.layer(e, it, r.Range, now); ok {
			a.waits(e, it, r.Range, &t, now, Time(r.Count))
		}
		return t, ok && (r.Count == 1 || t.others <= t.end)
	}
	if x := a.known(r.Range); x != nil {
		t = x.layerTimes
		t.shift(now - x.start)
		return t, true
	}
	k := a.kind(r.Range)
	known := k < len(a.kinds)
	t, ok = a.layer(e, it, r.Range, now)
	if !ok || r.Count > 1 && t.others > t.end {
		return t, false
	}
	if !known {
		a.kinds = append(a.kinds, passed{})
		a.waits(e, it, r.Range, &t, now, sub.count(r.Range, entry))
	}
	x := &a.kinds[k]
	x.Range, x.layerTimes, x.start, x.entry = r.Range, t, now, entry
	if t.others > t.end {
		a.outlived = entry
	}
	return t, true
}

// kind returns the place of the layer with these operations, behind all where none has been passed over.
func (a *alone) kind(ops Range) int {
	k := 0
	for k < len(a.kinds) && a.kinds[k].Range != ops {
		k++
	}
	return k
}

// known returns the layer with these operations that has been passed over, nil where a layer outlived another one since, or there is none.
func (a *alone) known(ops Range) *passed {
	for k := range a.kinds {
		if x := &a.kinds[k]; x.Range == ops {
			if x.entry > a.outlived {
				return x
			}
			break
		}
	}
	return nil
}

// count returns the number of layers with these operations, of the entries from one on.
func (s *SubBatch) count(ops Range, from int) (n Time) {
	for i := from; i < len(s.Layers); i++ {
		if r := &s.Layers[i]; r.Range == ops {
			n += Time(r.Count)
		}
	}
	return n
}

// shift moves the times of a layer.
func (t *layerTimes) shift(by Time) {
	t.end, t.before, t.others, t.until = t.end+by, t.before+by, t.others+by, t.until+by
}

// waits adds up what all layers that are like the one just passed, which starts at now, wait for.
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
			return t, false // something outlives its layer, or the order is not clear
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
