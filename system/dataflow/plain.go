package dataflow

// runPlain executes an iteration in which every resource serves one operation after
// another: the end of what a resource takes on is known when it is ready, so that the
// operations that are ready, few at a time, are all the events there are. It does what
// the events of Run do, in the same order, in one loop.
func (e *Engine) runPlain() (end Time) {
	ops, state, edges := e.it.Ops, e.state, e.edges
	var op, layer int32
	var s int8
	var roots Range // of the layer that starts, still to be looked at
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
			roots.From++
			if after := ops[op].After; after.From < after.To {
				continue
			}
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
				for i := roots.From; i < roots.To; i++ {
					after, x := ops[i].After, &state[i]
					x.waits, x.ready, x.from, x.lane = after.To-after.From, 0, 0, none
				}
				continue
			}
		}
		o := &ops[op]
		server := &e.servers[o.Resource]
		free := &server.free
		if server.discipline == Lanes {
			free = &e.lanes[e.lane(o.Resource, o.Lane, layer)].freeAt
		}
		length := o.Last
		if o.Flags&NextLayer != 0 && layer == e.sub[s].total-1 {
			length = e.it.Sub[s].Exit
		}
		at := max(*free, e.now+server.latency) + length
		*free = at
		end = max(end, at)
		for i := state[op].edges; i != none; i = edges[i].next {
			to := edges[i].to
			x := &state[to]
			x.waits--
			if at > x.ready {
				x.ready, x.from, x.lane = at, o.Resource, none
			} else if at == x.ready {
				x.from = max(x.from, o.Resource)
			}
			if server.discipline == Lanes && at == x.ready {
				x.lane = max(x.lane, op)
			}
			if x.waits == 0 {
				order := int64(0)
				switch {
				case x.lane != none:
					order = fromLane + int64(x.lane)<<32
				case x.from == ops[to].Resource:
					order = wakeOwn
				}
				e.sleep(x.ready, order, task{to, layer, s})
			}
		}
		if o.Flags&NextLayer != 0 {
			e.sleep(at, wakeOwn|wakeLayer, task{op, layer, s})
		}
	}
}

// fromLane is the order of what becomes ready at the end of an operation on a lane, by
// that operation: before all orders of the engine's own.
const fromLane = -int64(1) << 62
