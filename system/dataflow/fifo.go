package dataflow

// serve runs a task on a FIFO and returns its end, which is known now.
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
	s.free = begin + length
	if e.spans != nil {
		e.spans.add(Span{Start: begin, End: s.free, Ready: e.now, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: x.Resource})
	}
	if e.onStart {
		e.begun(t, begin)
	}
	return s.free
}

// clear returns the first time from begin on at which the twin of an operation's link, if
// it has one, leaves their bus to it for a length of time.
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
