package dataflow

// serve runs a task on a FIFO, whose end is known now.
func (e *Engine) serve(t task) {
	o := &e.it.Ops[t.op]
	s := &e.servers[o.Resource]
	begin := max(s.free, e.now+s.latency)
	if s.twin > 0 {
		if l := &e.links[e.servers[s.twin-1].link]; l.busy {
			begin = max(begin, l.end)
		}
	}
	s.free = begin + e.length(&t)
	if s.twin > 0 {
		s.ahead = append(s.ahead, stretch{begin, s.free})
	}
	if e.spans != nil {
		e.spans.add(Span{Start: begin, End: s.free, Ready: e.now, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: o.Resource})
	}
	if e.onStart {
		e.begun(t, begin)
	}
	e.ended(t, s.free, o.Resource)
}

// length returns the time of a task on a FIFO.
func (e *Engine) length(t *task) Time {
	o := &e.it.Ops[t.op]
	if o.Flags&NextLayer != 0 && t.layer == e.sub[t.sub].total-1 {
		return e.it.Sub[t.sub].Exit
	}
	return o.Last
}

// clear returns the first time from begin on at which the twin of a link, if it has one,
// leaves their bus to it for a length of time.
func (e *Engine) clear(link int8, begin, length Time) Time {
	twin := e.servers[link].twin
	if twin == 0 {
		return begin
	}
	s, over := &e.servers[twin-1], 0
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
