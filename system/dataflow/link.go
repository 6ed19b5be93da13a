package dataflow

// classes is how many classes of operations a link tells apart.
const classes = 2

// queued is an operation that waits for a link.
type queued struct {
	task
	eligible Time  // its data can start
	pieces   int32 // left
}

// queue is a queue of operations that reuses its memory.
type queue struct {
	items []queued
	head  int
}

func (f *queue) push(t queued) {
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	f.items = append(f.items, t)
}

func (f *queue) empty() bool    { return f.head == len(f.items) }
func (f *queue) first() *queued { return &f.items[f.head] }
func (f *queue) rest() []queued { return f.items[f.head:] }
func (f *queue) reset()         { f.items, f.head = f.items[:0], 0 }

// link is a link, or memory controllers that write what they have collected.
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

// next returns when an idle link can start its next piece, never without one.
func (l *link) next(now Time) Time {
	at := never
	for c := range l.queues {
		if q := &l.queues[c]; !q.empty() {
			at = min(at, max(now, q.first().eligible))
		}
	}
	return at
}

// queueOnLink has an operation wait for its link.
func (e *Engine) queueOnLink(t task, pieces int32) {
	o := &e.it.Ops[t.op]
	l := &e.links[e.servers[o.Resource].link]
	q := &l.queues[o.Class]
	first := q.empty()
	q.push(queued{t, e.now + e.servers[o.Resource].latency, pieces})
	if first && !l.busy {
		e.due[len(e.lanes)+e.servers[o.Resource].link] = l.next(e.now)
	}
}

// stepLink ends the piece that a link carries, if it does, and starts the next that
// can start.
func (e *Engine) stepLink(i int) {
	l := &e.links[i]
	due := &e.due[len(e.lanes)+i]
	if l.busy {
		l.busy = false
		e.pieceEnded(&l.current)
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
	first := q.first()
	l.current = *first
	o := &e.it.Ops[first.op]
	first.pieces--
	if l.current.pieces == 1 || o.Flags&Stream != 0 {
		q.head++
	}
	length := o.piece(l.current.pieces)
	var begin Time
	if o.Claims > 0 {
		begin, l.end = e.claim(&l.current.task, length)
	} else {
		begin = e.clear(o.Resource, e.now, length)
		l.end = begin + length
	}
	l.busy = true
	*due = l.end
	if e.spans != nil {
		t := &l.current
		e.spans.add(Span{Start: begin, End: l.end, Ready: t.eligible, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: o.Resource, Piece: t.pieces})
	}
	if e.onStart {
		e.begun(l.current.task, begin)
	}
}

// pieceEnded hands a piece on to the operation that streams it, or ends the
// operation whose last piece it is.
func (e *Engine) pieceEnded(t *queued) {
	if e.streams {
		for edge := e.state[t.op].edges; edge != none; edge = e.edges[edge].next {
			if to := e.edges[edge].to; e.it.Ops[to].Flags&Stream != 0 {
				e.queueOnLink(task{to, t.layer, t.sub}, t.pieces)
				return
			}
		}
	}
	if t.pieces == 1 {
		e.ended(t.task, e.now, e.it.Ops[t.op].Resource)
	}
}
