package dataflow

// Span is a contiguous time that a resource spends on an operation. An operation that a transfer
// interrupts has several spans on its lane; a link has one for each piece.
type Span struct {
	Start, End Time
	Ready      Time // when the operation was handed to the resource; on a link, when it could start
	Op, Layer  int32
	Piece      int32 // on a link: pieces left, this one included
	Lane       int16
	Sub        int8
	Resource   int8
	Claim      bool // the lane receives: Op is the transfer
}

// spans records what resources do.
type spans struct {
	list []Span
	last []int // by lane: index of the span of its running operation
	jump jump
}

// jump is the skipped layers of an iteration.
type jump struct {
	layers int32
	by     Time
	at     [2]int32 // the layer of each sub-batch at the jump
}

// reset begins an iteration.
func (s *spans) reset(lanes int) {
	s.list, s.jump = s.list[:0], jump{at: [2]int32{none, none}}
	for len(s.last) < lanes {
		s.last = append(s.last, 0)
	}
}

func (s *spans) add(x Span) { s.list = append(s.list, x) }

// open begins a span of lane q, whose end is not known yet.
func (s *spans) open(q int, x Span) {
	s.last[q] = len(s.list)
	s.add(x)
}

// close ends the open span of lane q.
func (s *spans) close(q int, end Time) { s.list[s.last[q]].End = end }

// interrupt ends the open span of lane q at stop and begins another at resume. A span
// that would have begun at stop begins at resume.
func (s *spans) interrupt(q int, stop, resume Time) {
	x := &s.list[s.last[q]]
	if x.Start >= stop {
		x.Start = resume
		return
	}
	x.End = stop
	again := *x
	again.Start = resume
	s.open(q, again)
}

// shift moves all spans on, as if they were of later layers, so that a schedule with skipped layers
// is contiguous there.
func (s *spans) shift(e *Engine, by Time, layers int32) {
	for i := range e.sub {
		s.jump.at[i] = e.sub[i].layer
	}
	for i := range s.list {
		x := &s.list[i]
		x.Start += by
		x.End += by
		x.Ready += by
		x.Layer += layers
		if r := lanesOf(e, x); r != nil && r.Rotates {
			x.Lane = int16((int(x.Lane) + int(layers)) % r.Count)
		}
	}
	for i := range e.resources {
		if r := &e.resources[i]; r.Rotates {
			first := e.servers[i].lanes
			rotate(s.last[first:first+r.Count], int(layers)%r.Count)
		}
	}
	s.jump.layers, s.jump.by = layers, by
}

// lanesOf returns the resource of a span's lane, nil for none.
func lanesOf(e *Engine, x *Span) *Resource {
	r := x.Resource
	if x.Claim {
		r = e.it.Ops[x.Op].Claims - 1
	}
	if e.resources[r].Discipline != Lanes {
		return nil
	}
	return &e.resources[r]
}

// claimed records that lane q, number n of a resource, receives.
func (s *spans) claimed(t task, resource int8, q int, n int16, l *lane, begin, length Time) {
	if l.stop != never {
		s.interrupt(q, l.stop, l.freeAt)
	}
	s.add(Span{Start: begin, End: begin + length, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: resource, Lane: n, Claim: true})
}
