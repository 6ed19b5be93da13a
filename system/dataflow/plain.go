package dataflow

// runPlain executes an iteration in which every resource serves one operation after
// another: the end of what a resource takes on is known when it is ready, so that the
// operations that are ready, few at a time, are all the events there are. It does what
// the events of Run do, in the same order, in one loop.
func (e *Engine) runPlain() (end Time) {
	var op, layer int32
	var s int8
	var roots Range // of the layer that starts, from the next to start
	starting := false
	for i := range e.sub {
		if e.sub[i].active {
			e.sleep(e.now, wakeOwn|wakeLayer, task{e.it.Sub[i].Layers[0].From, -1, int8(i)})
		}
	}
	for {
		switch {
		case roots.From < roots.To:
			op = roots.From
			roots.From = e.state[op+1].root
		case starting:
			starting = false
			e.end = max(e.end, end)
			if layer > 0 {
				e.skipRepeats(s)
			}
			end = e.end
			continue
		default:
			n := len(e.wakes) - 1
			if n < 0 {
				return max(end, e.end)
			}
			w := &e.wakes[n]
			order := w.order
			e.now, op, layer, s = w.at, int32(order), w.layer, int8(w.sub)
			e.wakes = e.wakes[:n]
			if order >= 0 && order&wakeLayer != 0 {
				if !e.advance(s) {
					continue
				}
				roots, layer, starting = e.it.Sub[s].Layers[e.sub[s].at].Range, e.sub[s].layer, true
				e.expect(roots)
				roots.From = e.state[roots.From].root
				continue
			}
		}
		end = max(end, e.takePlain(task{op, layer, s}))
	}
}

// takePlain has the resource of an operation that is ready now take it on, and returns its end, with which what waits
// for it may be ready.
func (e *Engine) takePlain(t task) (at Time) {
	state := e.state
	o := &e.it.Ops[t.op]
	server := &e.servers[o.Resource]
	free, lane := &server.free, none
	if server.discipline == Lanes {
		free, lane = &e.lanes[server.lane(o.Lane, t.layer)].freeAt, t.op
	}
	length := o.Last
	if o.Flags&NextLayer != 0 && t.layer == e.sub[t.sub].total-1 {
		length = e.it.Sub[t.sub].Exit
	}
	at = max(*free, e.now+server.latency) + length
	*free = at
	for i := state[t.op].edges; i != none; i = e.edges[i].next {
		to := e.edges[i].to
		x := &state[to]
		ready, from, lane := at, o.Resource, lane
		if x.waits > 0 {
			x.waits--
			if at > x.ready {
				x.ready, x.from, x.lane = at, from, lane
			} else if at == x.ready {
				x.from, x.lane = max(x.from, from), max(x.lane, lane)
			}
			if x.waits > 0 {
				continue
			}
			ready, from, lane = x.ready, x.from, x.lane
		}
		order := int64(0)
		switch {
		case lane != none:
			order = fromLane + int64(lane)<<32
		case from == x.Resource:
			order = wakeOwn
		}
		e.sleep(ready, order, task{to, t.layer, t.sub})
	}
	if o.Flags&NextLayer != 0 {
		e.sleep(at, wakeOwn|wakeLayer, t)
	}
	return at
}

// fromLane is the order of what becomes ready at the end of an operation on a lane, by
// that operation: before all orders of the engine's own.
const fromLane = -int64(1) << 62
