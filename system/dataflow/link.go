package dataflow

// classes is the number of classes of operations on a link.
const classes = 2

// queued is an operation that waits for a link.
type queued struct {
	task
	eligible Time  // when its data can start
	pieces   int32 // left
}

// queue is a queue of operations that reuses its memory.
type queue struct {
	items []queued
	head  int
}

// push appends an operation, which may start at eligible. An empty queue starts again at its front.
func (f *queue) push(t task, eligible Time, pieces int32) {
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	n := len(f.items)
	if n == cap(f.items) {
		f.items = append(f.items, queued{})
	}
	f.items = f.items[:n+1]
	x := &f.items[n] // in place, see doc.go
	x.op, x.layer, x.sub, x.eligible, x.pieces = t.op, t.layer, t.sub, eligible, pieces
}

func (f *queue) empty() bool    { return f.head == len(f.items) }
func (f *queue) first() *queued { return &f.items[f.head] }
func (f *queue) rest() []queued { return f.items[f.head:] }
func (f *queue) reset()         { f.items, f.head = f.items[:0], 0 }

// link is a link, or memory controllers that write what they have buffered.
type link struct {
	busy    bool
	current queued
	end     Time
	queues  [classes]queue
}

func (l *link) reset() {
	l.busy = false
	for c := range l.queues {
		l.queues[c].reset()
	}
}

// next returns when an idle link can start its next piece, never if there is none.
func (l *link) next(now Time) Time {
	at := never
	for c := range l.queues {
		if q := &l.queues[c]; !q.empty() {
			at = min(at, max(now, q.first().eligible))
		}
	}
	return at
}

// queueOnLink queues pieces of an operation for its link.
func (e *Engine) queueOnLink(t task, x *opState, pieces int32) {
	l := &e.links[x.on.link]
	q, eligible := &l.queues[x.Class], e.now+x.on.latency
	if !l.busy && q.empty() {
		due := &e.due[len(e.lanes)+x.on.link]
		*due = min(*due, eligible)
	}
	q.push(t, eligible, pieces)
}

// stepLink ends the piece that a link carries, if it is done, and starts the next that can start.
func (e *Engine) stepLink(i int) {
	l := &e.links[i]
	due := &e.due[len(e.lanes)+i]
	if l.busy {
		l.busy = false
		if t := &l.current; e.streams {
			e.pieceEnded(t)
		} else if t.pieces == 1 {
			e.ended(t.task, &e.state[t.op], e.now)
		}
	}
	c := 0
	for c < classes && (l.queues[c].empty() || l.queues[c].first().eligible > e.now) {
		c++
	}
	if c == classes {
		*due = l.next(e.now)
		return
	}
	q := &l.queues[c]
	first, t := q.first(), &l.current
	t.op, t.layer, t.sub, t.eligible, t.pieces = first.op, first.layer, first.sub, first.eligible, first.pieces
	x := &e.state[t.op]
	first.pieces--
	if t.pieces == 1 || x.Flags&Stream != 0 {
		q.head++
	}
	length, begin := x.Last, e.now
	if t.pieces > 1 {
		length = x.Time
	}
	if x.Claims > 0 {
		begin = e.claim(t.task, x, length)
	} else {
		begin = e.clear(x, begin, length)
	}
	l.busy, l.end = true, begin+length
	*due = l.end
	if e.spans != nil {
		e.spans.add(Span{Start: begin, End: l.end, Ready: t.eligible, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: x.Resource, Piece: t.pieces})
	}
	if e.onStart {
		e.begun(t.task, begin)
	}
}

// pieceEnded passes a piece on to the operation that streams it, or ends the operation with its
// last piece.
func (e *Engine) pieceEnded(t *queued) {
	for edge := e.state[t.op].edges; edge != none; edge = e.edges[edge].next {
		if to := e.edges[edge].to; e.state[to].Flags&Stream != 0 {
			e.story[t.op].end = e.now
			e.queueOnLink(task{to, t.layer, t.sub}, &e.state[to], t.pieces)
			return
		}
	}
	if t.pieces == 1 {
		e.ended(t.task, &e.state[t.op], e.now)
	}
}
