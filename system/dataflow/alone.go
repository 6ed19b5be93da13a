package dataflow

// alone runs iterations of one sub-batch that has every resource to itself, in one pass
// over the operations of each kind of layer: where nothing of a layer outlives it, all
// layers with the same operations take the same time.
type alone struct {
	ends  []Time // by operation
	slots []slot // by resource, then by lane
	pass  int32
}

// slot is a resource, or a lane, that serves one operation after another.
type slot struct {
	free  Time  // of all it has taken on
	ready Time  // of the latest
	pass  int32 // in which that was
}

// layerTimes is what a pass over a layer finds.
type layerTimes struct {
	end    Time // of the operation that ends the layer
	before Time // its start
	others Time // the end of all others
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
	for len(a.ends) < len(it.Ops) {
		a.ends = append(a.ends, 0)
	}
	for i := range a.slots {
		a.slots[i].free = start
	}
	now := start
	for i := range sub.Layers {
		r := &sub.Layers[i]
		t, ok := a.layer(e, it, r.Range, now)
		if !ok || r.Count > 1 && t.others > t.end {
			return 0, false
		}
		skipped := Time(r.Count-1) * (t.end - now)
		if i == len(sub.Layers)-1 {
			t.end = t.before + sub.Exit
		}
		now = t.end + skipped
		end = max(end, t.others+skipped)
	}
	return max(end, now), true
}

// layer passes over the operations of a layer that starts at now.
func (a *alone) layer(e *Engine, it *Iteration, r Range, now Time) (t layerTimes, ok bool) {
	a.pass++
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
			ready = max(ready, a.ends[before])
		}
		if x.pass != a.pass && x.free > now || x.pass == a.pass && ready <= x.ready {
			return t, false // something outlives its layer, or the order is not clear
		}
		begin := max(ready+server.latency, x.free)
		end := begin + o.Last
		a.ends[i] = end
		x.free, x.ready, x.pass = end, ready, a.pass
		if o.Flags&NextLayer != 0 {
			t.end, t.before = end, begin
		} else {
			t.others = max(t.others, end)
		}
	}
	return t, true
}
