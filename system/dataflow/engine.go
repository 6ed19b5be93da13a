package dataflow

// Engine runs iterations on the resources of one replica. It reuses its memory and is not safe for
// concurrent use.
type Engine struct {
	// Exact runs every layer of every iteration instead of skipping those that repeat.
	Exact bool

	resources []Resource
	layers    int // simulated layers of the latest iteration
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
	joins   []int32 // operations that wait for several others
	onStart bool    // some operation waits for a start
	streams bool    // some operation streams pieces
	past    history
	spans   *spans // nil unless an iteration is being recorded

	noShortcut bool // for tests: only events, without skipping repeats
	lockstep   lockstep
	alone      alone

	main, device int8 // resources whose waits are added up; device is -1 for none
	waits        Waits
	story        []story // by operation
	mean         laneMean
	idle         idleness

	recorded *spans
	checked  *check
}

// server is the engine's state of a resource.
type server struct {
	discipline  Discipline
	twin        int8   // 1 + index of the resource that shares its bus; 0 for none
	lanes, link int    // index of the first of its lanes; index of its link
	rotates     uint32 // number of lanes over which it rotates; 0 for none
	latency     Time
	free        Time      // of a FIFO: end of all its operations so far
	ahead       []stretch // of a FIFO with a twin: work that has not ended
}

// stretch is a time span in which a bus is busy.
type stretch struct{ begin, end Time }

// progress is the position of a sub-batch.
type progress struct {
	active bool
	layer  int32 // 0 is the work before the first layer
	total  int32 // number of layers
	at     int   // index in SubBatch.Order
	until  int32 // layer after that run
}

// opState is the engine's state of an operation.
type opState struct {
	*Op
	on *server

	// Copies of fields of Op and server, so that the hot loop follows no pointers.
	Last         Time
	Lane         int16
	Resource     int8
	Flags, Class uint8
	discipline   Discipline

	from int8 // resource of the latest end, for an operation that waits for several

	edges      int32 // first edge to an operation that waits for this one; none for none
	only       int32 // the only operation that waits for its end; none if there are several or none, or the layer waits
	root, join int32 // first operation, from this one on, that waits for nothing; that waits for several
	devices    int32 // number of operations from this one on that run on the device

	// For an operation that waits for several; one that waits for a single other is ready with it.
	waits int32 // how many are still missing
	ready Time  // latest end of those that have ended
}

// edge leads from an operation to one that waits for it.
type edge struct{ to, next int32 }

// none ends a list of edges.
const none = int32(-1)

// New returns an engine. It serves only links and resources that can be claimed event by event; the
// end of an operation on a FIFO is known once it is ready.
func New(resources []Resource) *Engine {
	e := &Engine{resources: resources, servers: make([]server, len(resources)), device: -1}
	for i := range resources {
		r, s := &resources[i], &e.servers[i]
		s.discipline, s.twin, s.latency = r.Discipline, int8(r.Twin), r.Latency
		if r.Device {
			e.device = int8(i)
		}
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
			return e.lockstep.run(e, start)
		}
	}
	e.readyWaits(it, start)
	e.begin(it, start)
	e.enter()
	for e.step() {
	}
	e.settle(e.end)
	if free := e.servers[e.main].free; e.end > free {
		last := len(it.Ops) - 1
		for e.story[last].end < e.end {
			last--
		}
		e.waitedToEnd(it, int32(last), free)
	}
	return e.end
}

// begin makes all resources idle and starts the sub-batches.
func (e *Engine) begin(it *Iteration, start Time) {
	e.it, e.now, e.end, e.layers = it, start, start, 0
	e.wakes = e.wakes[:0]
	e.past.reset()
	clear(e.story[:len(it.Ops)]) // entries outside of layers would never be written
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
		sub.until += e.it.Sub[s].Order[sub.at].Count
	}
	return true
}

// ops returns the operations of the layer in which a sub-batch is.
func (e *Engine) ops(s int8) Range {
	sub := &e.it.Sub[s]
	return sub.Kinds[sub.Order[e.sub[s].at].Kind].Range
}

// connect turns the operations' waits into edges in the other direction.
func (e *Engine) connect() {
	it := e.it
	e.edges, e.joins = e.edges[:0], e.joins[:0]
	n := int32(len(it.Ops))
	if int(n) >= cap(e.state) {
		e.state = make([]opState, n+1)
	}
	e.state = e.state[:n+1]
	for i := range e.state {
		e.state[i].edges, e.state[i].only = none, none
	}
	e.state[n].root, e.state[n].join, e.state[n].devices = n, n, 0
	// From last to first, so that the edges of an operation are in the operations' order.
	e.onStart, e.streams = false, false
	for i := n - 1; i >= 0; i-- {
		o, x := &it.Ops[i], &e.state[i]
		s := &e.servers[o.Resource]
		x.Op, x.on, x.waits, x.discipline = o, s, 0, s.discipline
		x.Last, x.Lane, x.Resource, x.Flags, x.Class = o.Last, o.Lane, o.Resource, o.Flags, o.Class
		e.onStart = e.onStart || o.Flags&OnStart != 0
		e.streams = e.streams || o.Flags&Stream != 0
		x.root, x.join = e.state[i+1].root, e.state[i+1].join
		x.devices = e.state[i+1].devices
		if o.Resource == e.device {
			x.devices++
		}
		switch o.After.To - o.After.From {
		case 0:
			x.root = i
		case 1:
		default:
			x.join = i
			e.joins = append(e.joins, i)
		}
		for _, p := range it.After[o.After.From:o.After.To] {
			before := &e.state[p]
			before.only = i
			if before.edges != none || o.Flags&(OnStart|Stream) != 0 || it.Ops[p].Flags&NextLayer != 0 {
				before.only = none
			}
			e.edges = append(e.edges, edge{i, before.edges})
			before.edges = int32(len(e.edges) - 1)
		}
	}
}

// step advances to the next event and handles it; it reports false when nothing is
// left to do.
func (e *Engine) step() bool {
	at, next := never, 0
	for i, t := range e.due {
		if t >= at {
			continue
		}
		at, next = t, i
	}
	if n := len(e.wakes); n > 0 && e.wakes[n-1].at < at {
		e.wake()
		return true
	}
	if at == never {
		return false
	}
	e.now = at
	e.events++
	lanes := e.lanes
	if next >= len(lanes) {
		e.stepLink(next - len(lanes))
		return true
	}
	// At one instant lanes go before links, in the order of their operations.
	for q := next + 1; q < len(lanes); q++ {
		if e.due[q] == at && lanes[q].running.op < lanes[next].running.op {
			next = q
		}
	}
	e.endOnLane(next)
	return true
}

// startLayer starts the operations of a sub-batch's layer that wait for nothing.
func (e *Engine) startLayer(s int8) {
	e.layers++
	sub := &e.sub[s]
	r := e.ops(s)
	e.expect(r)
	if n := e.state[r.From].devices - e.state[r.To].devices; n > 0 {
		e.settle(e.now)
		e.idle.left[s] += n
		e.idle.sending[s] = true
	}
	for i := e.state[r.From].root; i < r.To; i = e.state[i+1].root {
		e.start(task{i, sub.layer, s})
	}
}

// expect resets the counts of operations in a layer that wait for several.
func (e *Engine) expect(r Range) {
	for i := e.state[r.From].join; i < r.To; i = e.state[i+1].join {
		x := &e.state[i]
		x.waits, x.from, x.ready = x.After.To-x.After.From, 0, 0
	}
}

// start hands a task that has become ready to its resource.
func (e *Engine) start(t task) {
	switch x := &e.state[t.op]; x.discipline {
	case Link:
		e.queueOnLink(t, x, x.Pieces)
	case Lanes:
		e.queueOnLane(t, x)
	default:
		e.ended(t, x, e.serve(t, x))
	}
}

// begun notifies the operations that wait for a start.
func (e *Engine) begun(t task, at Time) {
	x := &e.state[t.op]
	for i := x.edges; i != none; i = e.edges[i].next {
		if to := &e.state[e.edges[i].to]; to.Flags&OnStart != 0 {
			e.arrived(task{e.edges[i].to, t.layer, t.sub}, to, at, x.Resource)
		}
	}
}

// ended notifies the operations that wait for an end. If a FIFO takes one at once, its end is
// known, too.
func (e *Engine) ended(t task, x *opState, at Time) {
	for x.only != none {
		from, served := x.Resource, false
		e.story[t.op].end = at
		t.op = x.only
		x = &e.state[t.op]
		if at, served = e.arrived(t, x, at, from); !served {
			return
		}
	}
	e.story[t.op].end = at
	e.end = max(e.end, at)
	if x.Flags&NextLayer != 0 {
		e.sleep(at, wakeOwn|wakeLayer, t)
	}
	for i := x.edges; i != none; i = e.edges[i].next {
		to := task{e.edges[i].to, t.layer, t.sub}
		if y := &e.state[to.op]; y.Flags&OnStart == 0 {
			if end, served := e.arrived(to, y, at, x.Resource); served {
				e.ended(to, y, end)
			}
		}
	}
}

// arrived records the end, at a time that may lie ahead, of one of a task's predecessors, which ran on
// resource from. When all have ended it hands the task to its resource. It returns the task's end if a
// FIFO has served it.
func (e *Engine) arrived(t task, x *opState, at Time, from int8) (end Time, served bool) {
	if x.waits > 0 {
		x.waits--
		if at > x.ready || at == x.ready && from > x.from {
			x.ready, x.from = at, from
		}
		if x.waits > 0 {
			return 0, false
		}
		at, from = x.ready, x.from
	}
	if at <= e.now && x.Flags&OnStart == 0 {
		// At one instant a FIFO takes operations that arrive over links in their order. Operations that
		// wait for a start run with everything else that the FIFO starts then.
		switch {
		case x.discipline == Link:
			e.queueOnLink(t, x, x.Pieces)
			return 0, false
		case x.discipline == Lanes:
			e.queueOnLane(t, x)
			return 0, false
		case e.servers[from].discipline != Link:
			return e.serve(t, x), true
		}
	}
	order := int64(0)
	if x.Flags&OnStart != 0 || from == x.Resource {
		order = wakeOwn
	}
	e.sleep(max(at, e.now), order, t)
	return 0, false
}
