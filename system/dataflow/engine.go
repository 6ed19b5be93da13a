package dataflow

import "fmt"

// Engine runs iterations on the resources of one replica. It keeps its memory from
// one to the next and is not safe for concurrent use.
type Engine struct {
	// Exact runs every layer of every iteration instead of skipping those that repeat.
	Exact bool

	resources []Resource
	layers    int // of the latest iteration, simulated one by one
	events    int64

	it      *Iteration
	now     Time
	end     Time // of the latest operation
	due     []Time
	servers []server // by resource
	lanes   []lane
	links   []link
	wakes   []wake
	sub     [2]progress
	state   []opState // by operation
	first   []int32   // by operation: its first edge, or -1
	edges   []edge
	joins   []int32 // operations that wait for more than one
	past    history
	spans   *spans // nil unless an iteration is recorded

	recorded *spans
}

// server is what the engine knows of a resource beside its specification.
type server struct {
	lanes, link int       // the first of its lanes, its link
	free        Time      // of a FIFO: when it has done what it has taken on
	ahead       []stretch // of a FIFO with a twin: its work that has not ended
}

// stretch is a span of time for which a bus is taken.
type stretch struct{ begin, end Time }

// progress is where a sub-batch is.
type progress struct {
	active bool
	layer  int32 // 0 is what comes before the first layer
}

// opState is how much of what an operation waits for is still to come.
type opState struct {
	waits int32
	from  int8 // resource of what has ended last
	ready Time // when it has
}

// edge leads from an operation to one that waits for it.
type edge struct{ to, next int32 }

// wake is something that happens without a resource being due.
type wake struct {
	at   Time
	own  bool // a FIFO causes it for itself
	what uint8
	task
}

// What a wake does, in the order at one instant.
const (
	wakeReady uint8 = iota // all that an operation waits for is there
	wakeLayer              // a layer has ended
)

// New returns an engine. Of the resources only those that can be claimed, and
// links, are served event by event; the end of what a FIFO takes on is known when it
// becomes ready.
func New(resources []Resource) (*Engine, error) {
	e := &Engine{resources: resources, servers: make([]server, len(resources))}
	for i := range resources {
		r, s := &resources[i], &e.servers[i]
		switch r.Discipline {
		case Link:
			s.link = len(e.links)
			e.links = append(e.links, link{})
		case Lanes:
			if r.Count < 1 {
				return nil, fmt.Errorf("dataflow: resource %s has %d lanes", r.Name, r.Count)
			}
			s.lanes = len(e.lanes)
			e.lanes = append(e.lanes, make([]lane, r.Count)...)
		}
	}
	e.due = make([]Time, len(e.lanes)+len(e.links))
	return e, nil
}

// Run executes an iteration that starts at start and returns its end: that of its
// last operation.
func (e *Engine) Run(it *Iteration, start Time) Time {
	e.begin(it, start)
	for e.step() {
	}
	return e.end
}

// begin makes all resources idle and starts the sub-batches.
func (e *Engine) begin(it *Iteration, start Time) {
	e.it, e.now, e.end, e.layers = it, start, start, 0
	e.wakes = e.wakes[:0]
	e.past.reset()
	for i := range e.servers {
		e.servers[i].free, e.servers[i].ahead = start, e.servers[i].ahead[:0]
	}
	for i := range e.links {
		e.links[i].reset()
	}
	for i := range e.lanes {
		l := &e.lanes[i]
		l.running.op, l.freeAt, l.waiting = idle, start, l.waiting[:0]
	}
	for i := range e.due {
		e.due[i] = never
	}
	e.connect()
	for s := range e.sub {
		e.sub[s] = progress{active: len(it.Layers[s]) > 0}
	}
	for s := range e.sub {
		if e.sub[s].active {
			e.startLayer(int8(s))
		}
	}
}

// connect turns what operations wait for into edges the other way.
func (e *Engine) connect() {
	it := e.it
	e.edges, e.joins, e.first, e.state = e.edges[:0], e.joins[:0], e.first[:0], e.state[:0]
	for range it.Ops {
		e.first = append(e.first, -1)
		e.state = append(e.state, opState{})
	}
	// From the last on, so that the edges of an operation are in the operations' order.
	for i := len(it.Ops) - 1; i >= 0; i-- {
		after := it.After[it.Ops[i].After.From:it.Ops[i].After.To]
		for _, p := range after {
			e.edges = append(e.edges, edge{int32(i), e.first[p]})
			e.first[p] = int32(len(e.edges) - 1)
		}
		if len(after) > 1 {
			e.joins = append(e.joins, int32(i))
		}
	}
}

// step advances to the next event and handles it; it reports false when nothing is
// left to do.
func (e *Engine) step() bool {
	at, next, rank := never, -1, int32(0)
	lanes := len(e.lanes)
	for i, t := range e.due {
		if t > at || t == never {
			continue
		}
		// At one instant lanes go in the order of their operations, before links.
		r := int32(1)<<30 + int32(i)
		if i < lanes {
			r = e.lanes[i].running.op
		}
		if t < at || r < rank {
			at, next, rank = t, i, r
		}
	}
	if n := len(e.wakes); n > 0 && (next < 0 || e.wakes[n-1].at < at) {
		e.wake()
		return true
	}
	if next < 0 {
		return false
	}
	e.now = at
	e.events++
	if next < lanes {
		e.endOnLane(next)
	} else {
		e.stepLink(next - lanes)
	}
	return true
}

// wake handles the next wake, and those of the same resource at the same instant: a FIFO
// that ends one operation and starts another does it at once.
func (e *Engine) wake() {
	first := e.wakes[len(e.wakes)-1]
	e.now = first.at
	e.events++
	for {
		n := len(e.wakes) - 1
		w := e.wakes[n]
		e.wakes = e.wakes[:n]
		e.awake(&w)
		if n = len(e.wakes) - 1; n < 0 || !first.own || e.wakes[n].at != first.at || !e.wakes[n].own {
			return
		}
	}
}

// awake handles a wake.
func (e *Engine) awake(w *wake) {
	if w.what == wakeReady {
		e.start(w.task)
		return
	}
	sub := &e.sub[w.sub]
	sub.layer++
	if int(sub.layer) == len(e.it.Layers[w.sub]) {
		return
	}
	e.startLayer(w.sub)
	e.skipRepeats(w.sub)
}

// sleep keeps a wake, the next one last.
func (e *Engine) sleep(w wake) {
	e.wakes = append(e.wakes, w)
	i := len(e.wakes) - 1
	for ; i > 0 && e.wakes[i-1].before(&w); i-- {
		e.wakes[i] = e.wakes[i-1]
	}
	e.wakes[i] = w
}

// before orders wakes by time. At one instant what becomes ready by another resource
// goes before what a FIFO's own end causes; then by what they do and by operation.
func (w *wake) before(x *wake) bool {
	switch {
	case w.at != x.at:
		return w.at < x.at
	case w.own != x.own:
		return x.own
	case w.what != x.what:
		return w.what < x.what
	}
	return w.op < x.op
}

// startLayer starts the operations of a sub-batch's layer that wait for nothing.
func (e *Engine) startLayer(s int8) {
	e.layers++
	sub := &e.sub[s]
	r := e.it.Layers[s][sub.layer]
	for i := r.From; i < r.To; i++ {
		after := e.it.Ops[i].After
		e.state[i] = opState{waits: after.To - after.From}
	}
	for i := r.From; i < r.To; i++ {
		if after := e.it.Ops[i].After; after.From == after.To {
			e.start(task{i, sub.layer, s})
		}
	}
}

// start hands a task that has become ready now to its resource.
func (e *Engine) start(t task) {
	o := &e.it.Ops[t.op]
	switch e.resources[o.Resource].Discipline {
	case Link:
		e.queueOnLink(t, o.Pieces)
	case Lanes:
		e.queueOnLane(t)
	default:
		e.serve(t)
	}
}

// serve runs a task on a FIFO, whose end is known now.
func (e *Engine) serve(t task) {
	o := &e.it.Ops[t.op]
	spec, s := &e.resources[o.Resource], &e.servers[o.Resource]
	begin := max(s.free, e.now+spec.Latency)
	if spec.Twin > 0 {
		if l := &e.links[e.servers[spec.Twin-1].link]; l.busy {
			begin = max(begin, l.end)
		}
	}
	s.free = begin + o.Last
	if spec.Twin > 0 {
		s.ahead = append(s.ahead, stretch{begin, s.free})
	}
	if e.spans != nil {
		e.spans.add(Span{Start: begin, End: s.free, Ready: e.now, Op: t.op, Layer: t.layer, Sub: t.sub, Resource: o.Resource})
	}
	e.begun(t, begin)
	e.ended(t, s.free, o.Resource)
}

// clear returns the first time from begin on at which the twin of a link, if it has one,
// leaves their bus to it for a length of time.
func (e *Engine) clear(link int8, begin, length Time) Time {
	twin := e.resources[link].Twin
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

// begun tells the operations that wait for a start.
func (e *Engine) begun(t task, at Time) {
	for i := e.first[t.op]; i >= 0; i = e.edges[i].next {
		if to := e.edges[i].to; e.it.Ops[to].Flags&OnStart != 0 {
			e.arrived(task{to, t.layer, t.sub}, at, e.it.Ops[t.op].Resource)
		}
	}
}

// ended tells the operations that wait for an end.
func (e *Engine) ended(t task, at Time, from int8) {
	e.end = max(e.end, at)
	for i := e.first[t.op]; i >= 0; i = e.edges[i].next {
		if to := e.edges[i].to; e.it.Ops[to].Flags&OnStart == 0 {
			e.arrived(task{to, t.layer, t.sub}, at, from)
		}
	}
	if e.it.Ops[t.op].Flags&NextLayer != 0 {
		e.sleep(wake{at, true, wakeLayer, t})
	}
}

// arrived notes that one of the things that a task waits for is there at a time,
// which may lie ahead.
func (e *Engine) arrived(t task, at Time, from int8) {
	s := &e.state[t.op]
	s.waits--
	if at > s.ready || at == s.ready && from > s.from {
		s.ready, s.from = at, from
	}
	if s.waits > 0 {
		return
	}
	o := &e.it.Ops[t.op]
	fifo, link := e.resources[o.Resource].Discipline == FIFO, e.resources[from].Discipline == Link
	if s.ready <= e.now && o.Flags&OnStart == 0 && !(fifo && link) {
		e.start(t)
		return
	}
	// What links bring to a FIFO at one instant goes in the order of operations, and what
	// waits for a start goes with all else that the FIFO does then.
	e.sleep(wake{max(s.ready, e.now), o.Flags&OnStart != 0 || s.from == o.Resource, wakeReady, t})
}
