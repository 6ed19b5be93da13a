package dataflow

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
	edges   []edge
	joins   []int32 // operations that wait for more than one
	onStart bool    // some wait for a start
	streams bool    // some stream pieces
	plain   bool
	past    history
	spans   *spans // nil unless an iteration is recorded

	noShortcut bool // for tests: events alone, repeats left out
	lockstep   lockstep
	alone      alone

	recorded *spans
	checked  *check
}

// server is what the engine knows of a resource beside its specification.
type server struct {
	discipline  Discipline
	twin        int8   // number, from 1, of the resource that shares its bus
	lanes, link int    // the first of its lanes, its link
	rotates     uint32 // over how many lanes; 0 for none
	latency     Time
	free        Time      // of a FIFO: when it has done what it has taken on
	ahead       []stretch // of a FIFO with a twin: its work that has not ended
}

// stretch is a span of time for which a bus is taken.
type stretch struct{ begin, end Time }

// progress is where a sub-batch is.
type progress struct {
	active bool
	layer  int32 // 0 is what comes before the first layer
	total  int32 // layers
	at     int   // of SubBatch.Layers
	until  int32 // the layer after those
}

// opState is what the engine knows of an operation.
type opState struct {
	edges int32 // to what waits for it, the first; none for none
	waits int32 // how much of what it waits for is still to come
	lane  int32 // what has ended last on a lane, at ready; none for none
	ready Time  // when what has ended last has
	from  int8  // its resource
}

// edge leads from an operation to one that waits for it.
type edge struct{ to, next int32 }

// none ends a list of edges.
const none = int32(-1)

// New returns an engine. Of the resources only those that can be claimed, and
// links, are served event by event; the end of what a FIFO takes on is known when it
// becomes ready.
func New(resources []Resource) *Engine {
	e := &Engine{resources: resources, servers: make([]server, len(resources))}
	for i := range resources {
		r, s := &resources[i], &e.servers[i]
		s.discipline, s.twin, s.latency = r.Discipline, int8(r.Twin), r.Latency
		switch r.Discipline {
		case Link:
			s.link = len(e.links)
			e.links = append(e.links, link{})
		case Lanes:
			s.lanes = len(e.lanes)
			if r.Rotates {
				s.rotates = uint32(r.Count)
			}
			e.lanes = append(e.lanes, make([]lane, r.Count)...)
		}
	}
	e.due = make([]Time, len(e.lanes)+len(e.links))
	e.lockstep = newLockstep(len(e.lanes))
	e.alone.slots = make([]slot, len(e.servers)+len(e.lanes))
	return e
}

// Run executes an iteration that starts at start and returns its end: that of its
// last operation.
func (e *Engine) Run(it *Iteration, start Time) Time {
	events := e.Exact || e.noShortcut || e.spans != nil
	if !events {
		if end, ok := e.alone.run(e, it, start); ok {
			return end
		}
		if e.lockstep.fits(e, it) {
			return e.lockstep.run(start)
		}
	}
	e.begin(it, start)
	if !events && e.plain && !e.onStart {
		return e.runPlain()
	}
	e.enter()
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
		n := it.Sub[s].total()
		e.sub[s] = progress{active: n > 0, total: n, layer: -1, at: -1}
	}
}

// enter starts the sub-batches.
func (e *Engine) enter() {
	for s := range e.sub {
		if e.sub[s].active {
			e.nextLayer(int8(s))
		}
	}
}

// nextLayer starts the next layer of a sub-batch, if it has one.
func (e *Engine) nextLayer(s int8) bool {
	if !e.advance(s) {
		return false
	}
	e.startLayer(s)
	return true
}

// advance moves a sub-batch on to its next layer, if it has one.
func (e *Engine) advance(s int8) bool {
	sub := &e.sub[s]
	sub.layer++
	if sub.layer == sub.total {
		return false
	}
	for sub.layer >= sub.until {
		sub.at++
		sub.until += e.it.Sub[s].Layers[sub.at].Count
	}
	return true
}

// connect turns what operations wait for into edges the other way.
func (e *Engine) connect() {
	it := e.it
	e.edges, e.joins = e.edges[:0], e.joins[:0]
	if n := len(it.Ops); n <= cap(e.state) {
		e.state = e.state[:n]
	} else {
		e.state = make([]opState, n)
	}
	for i := range e.state {
		e.state[i].edges = none
	}
	// From the last on, so that the edges of an operation are in the operations' order.
	e.onStart, e.streams, e.plain = false, false, true
	for i := len(it.Ops) - 1; i >= 0; i-- {
		s := &e.servers[it.Ops[i].Resource]
		e.plain = e.plain && s.discipline != Link && s.twin == 0 && it.Ops[i].Last > 0
		e.onStart = e.onStart || it.Ops[i].Flags&OnStart != 0
		e.streams = e.streams || it.Ops[i].Flags&Stream != 0
		after := it.After[it.Ops[i].After.From:it.Ops[i].After.To]
		for _, p := range after {
			e.edges = append(e.edges, edge{int32(i), e.state[p].edges})
			e.state[p].edges = int32(len(e.edges) - 1)
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

// startLayer starts the operations of a sub-batch's layer that wait for nothing.
func (e *Engine) startLayer(s int8) {
	e.layers++
	sub := &e.sub[s]
	r := &e.it.Sub[s].Layers[sub.at]
	ops, state := e.it.Ops[r.From:r.To], e.state[r.From:r.To]
	for i := range ops {
		after, x := ops[i].After, &state[i]
		x.waits, x.from, x.ready = after.To-after.From, 0, 0
	}
	for i := range ops {
		if ops[i].After.From == ops[i].After.To {
			e.start(task{r.From + int32(i), sub.layer, s})
		}
	}
}

// start hands a task that has become ready now to its resource.
func (e *Engine) start(t task) {
	o := &e.it.Ops[t.op]
	switch e.servers[o.Resource].discipline {
	case Link:
		e.queueOnLink(t, o.Pieces)
	case Lanes:
		e.queueOnLane(t)
	default:
		e.serve(t)
	}
}

// begun tells the operations that wait for a start.
func (e *Engine) begun(t task, at Time) {
	for i := e.state[t.op].edges; i != none; i = e.edges[i].next {
		if to := e.edges[i].to; e.it.Ops[to].Flags&OnStart != 0 {
			e.arrived(task{to, t.layer, t.sub}, at, e.it.Ops[t.op].Resource)
		}
	}
}

// ended tells the operations that wait for an end.
func (e *Engine) ended(t task, at Time, from int8) {
	e.end = max(e.end, at)
	op := t.op
	for i := e.state[op].edges; i != none; i = e.edges[i].next {
		t.op = e.edges[i].to
		if !e.onStart || e.it.Ops[t.op].Flags&OnStart == 0 {
			if s := &e.state[t.op]; s.waits == 1 && at > s.ready && at <= e.now {
				// The last thing is there now, as nearly always.
				s.waits, s.ready, s.from = 0, at, from
				e.ready(t, s)
			} else {
				e.arrived(t, at, from)
			}
		}
	}
	if e.it.Ops[op].Flags&NextLayer != 0 {
		t.op = op
		e.sleep(at, wakeOwn|wakeLayer, t)
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
	if s.waits == 0 {
		e.ready(t, s)
	}
}

// ready hands a task to its resource when all is there that it waits for.
func (e *Engine) ready(t task, s *opState) {
	o := &e.it.Ops[t.op]
	order := int64(0)
	if e.onStart && o.Flags&OnStart != 0 || s.from == o.Resource {
		order = wakeOwn
	}
	if s.ready <= e.now && !(e.onStart && o.Flags&OnStart != 0) {
		// What links bring to a FIFO at one instant goes in the order of operations, and what
		// waits for a start goes with all else that the FIFO does then.
		switch e.servers[o.Resource].discipline {
		case Link:
			e.queueOnLink(t, o.Pieces)
			return
		case Lanes:
			e.queueOnLane(t)
			return
		}
		if e.servers[s.from].discipline != Link {
			e.serve(t)
			return
		}
	}
	e.sleep(max(s.ready, e.now), order, t)
}
