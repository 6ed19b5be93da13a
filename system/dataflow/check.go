package dataflow

import (
	"cmp"
	"fmt"
	"slices"
)

// Law names an invariant of every schedule; lab/docs/laws-and-metrics.md states each.
type Law string

// The laws of a schedule.
const (
	Causality Law = "causality" // no operation starts before what it waits for has ended
	Exclusive Law = "exclusive" // no resource does two things at once
	Idle      Law = "idle"      // no resource idles while a ready operation waits for it
	Traffic   Law = "traffic"   // every operation runs once, for its time, on its resource
	Length    Law = "iteration" // an iteration ends with its last operation, and takes at least its busiest resource's time
)

// Violation is a law that a schedule breaks.
type Violation struct {
	Law    Law
	Time   Time
	Detail string // the operations involved
}

// Check runs an iteration as Run does, records what every resource does, and returns its end and
// every law that the schedule breaks. The schedule covers the simulated layers; with Exact, all.
func (e *Engine) Check(it *Iteration, start Time) (Time, []Violation) {
	spans := e.Record(it, start)
	return e.end, e.Verify(it, spans, start, e.end)
}

// Record runs an iteration as Run does and returns the spans of the simulated layers, in the order
// of their starts. They are valid until the next call.
func (e *Engine) Record(it *Iteration, start Time) []Span {
	if e.recorded == nil {
		e.recorded = &spans{}
	}
	e.recorded.reset(len(e.lanes))
	e.spans = e.recorded
	e.Run(it, start)
	e.spans = nil
	slices.SortStableFunc(e.recorded.list, byStart)
	return e.recorded.list
}

func byStart(a, b Span) int {
	if a.Start != b.Start {
		return cmp.Compare(a.Start, b.Start)
	}
	return cmp.Compare(a.End, b.End)
}

// Verify returns every law that a schedule breaks: spans, in the order of their starts, are those
// of the latest recorded iteration, between its start and its end.
func (e *Engine) Verify(it *Iteration, spans []Span, start, end Time) []Violation {
	if e.checked == nil {
		e.checked = &check{}
	}
	c := e.checked
	c.e, c.it, c.spans, c.found = e, it, spans, nil
	c.start, c.end, c.took = start+e.recorded.jump.by, end, end-start
	c.run()
	return c.found
}

// check verifies one schedule against its iteration, independently of how the engine made it.
type check struct {
	e          *Engine
	it         *Iteration
	start, end Time // of the recorded schedule
	took       Time // of the whole iteration
	spans      []Span
	found      []Violation

	rows      []row          // the simulated layers
	first     [2]int         // of the rows, by sub-batch
	instances []instance     // by row and operation
	slots     []served       // by resource, then by lane
	limits    []limit        // by resource
	closes    Time           // the longest time that a lane needs after a transfer
	streams   bool           // some operation streams pieces
	pieces    map[piece]Time // ends of pieces on links, if operations stream them
}

// row is a simulated layer.
type row struct {
	Range
	sub   int8
	last  bool  // of its sub-batch
	layer int32 // as recorded
	end   Time
}

// instance is a schedule's execution of an operation in a layer.
type instance struct {
	start, end, worked, ready Time
	pieces                    int32
	done                      bool
}

// piece is a piece of an operation in a simulated layer.
type piece struct {
	row      int
	op, left int32 // pieces left, this one included
}

// served is the state of a resource or a lane before a span.
type served struct {
	free Time
	last *Span
}

func (c *check) fail(law Law, at Time, format string, args ...any) {
	c.found = append(c.found, Violation{law, at, fmt.Sprintf(format, args...)})
}

// name names an operation for a message.
func (c *check) name(x *Span) string {
	o := &c.it.Ops[x.Op]
	return fmt.Sprintf("operation %d (kind %d, group %d) of sub-batch %d, layer %d, on %s",
		x.Op, o.Kind, o.Group, x.Sub, x.Layer, c.e.resources[o.Resource].Name)
}

// run checks the iteration's spans against its operations; violations are in the order of time.
func (c *check) run() {
	c.expect()
	c.measure()
	for i := range c.spans {
		c.collect(&c.spans[i])
	}
	for r := range c.rows {
		for op := c.rows[r].From; op < c.rows[r].To; op++ {
			c.instance(r, op)
		}
	}
	c.serve()
	c.length()
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Law, b.Law), cmp.Compare(a.Detail, b.Detail))
	})
}

// expect lists the simulated layers with the numbers of the recording.
func (c *check) expect() {
	c.streams = slices.ContainsFunc(c.it.Ops, func(o Op) bool { return o.Flags&Stream != 0 })
	if c.streams {
		c.pieces = map[piece]Time{}
	}
	jump := &c.e.recorded.jump
	c.rows = c.rows[:0]
	for s := range c.it.Sub {
		c.first[s] = len(c.rows)
		layer := int32(0)
		for _, r := range c.it.Sub[s].Order {
			ops := c.it.Sub[s].Kinds[r.Kind].Range
			for until := layer + r.Count; layer < until; layer++ {
				switch {
				case layer <= jump.at[s]:
					c.rows = append(c.rows, row{Range: ops, sub: int8(s), layer: layer + jump.layers})
				case layer > jump.at[s]+jump.layers:
					c.rows = append(c.rows, row{Range: ops, sub: int8(s), layer: layer})
				}
			}
		}
		if n := len(c.rows); n > c.first[s] {
			c.rows[n-1].last = true
		}
	}
	n := len(c.rows) * len(c.it.Ops)
	if n > cap(c.instances) {
		c.instances = make([]instance, n)
	}
	c.instances = c.instances[:n]
	clear(c.instances)
}

// row returns the row of a span's layer.
func (c *check) row(x *Span) int { return c.first[x.Sub] + int(x.Layer-c.e.recorded.jump.layers) }

// of returns the instance of a span's operation, nil if the iteration has none.
func (c *check) of(x *Span) *instance {
	r := c.row(x)
	if r < c.first[x.Sub] || r >= len(c.rows) || c.rows[r].sub != x.Sub || x.Op < c.rows[r].From || x.Op >= c.rows[r].To {
		return nil
	}
	return c.at(r, x.Op)
}

func (c *check) at(row int, op int32) *instance { return &c.instances[row*len(c.it.Ops)+int(op)] }

// collect adds a span to its operation's instance.
func (c *check) collect(x *Span) {
	if x.End < x.Start {
		c.fail(Exclusive, x.Start, "%s ends at %v, before it starts", c.name(x), x.End)
	}
	if x.Claim {
		return
	}
	in := c.of(x)
	if in == nil {
		c.fail(Traffic, x.Start, "%s is no operation of the iteration", c.name(x))
		return
	}
	o := &c.it.Ops[x.Op]
	if x.Resource != o.Resource {
		c.fail(Traffic, x.Start, "%s is done on %s", c.name(x), c.e.resources[x.Resource].Name)
	}
	if !in.done {
		in.done, in.start = true, x.Start
	}
	in.end = max(in.end, x.End)
	in.worked += x.End - x.Start
	in.pieces++
	if o.Flags&NextLayer != 0 {
		c.rows[c.row(x)].end = x.End
	}
	if c.streams {
		c.pieces[piece{c.row(x), x.Op, x.Piece}] = x.End
	}
}

// instance checks an operation of a layer against what it waits for.
func (c *check) instance(r int, op int32) {
	in, o, row := c.at(r, op), &c.it.Ops[op], &c.rows[r]
	x := &Span{Op: op, Sub: row.sub, Layer: row.layer}
	if !in.done {
		c.fail(Traffic, c.end, "%s is not done", c.name(x))
		return
	}
	want := o.duration()
	if o.Flags&NextLayer != 0 && row.last {
		want = c.it.Sub[row.sub].Exit
	}
	if in.worked != want || c.e.resources[o.Resource].Discipline != Lanes && in.pieces != o.Pieces {
		c.fail(Traffic, in.end, "%s takes %v in %d pieces, not %v in %d", c.name(x), in.worked, in.pieces, want, o.Pieces)
	}
	in.ready = c.start
	for _, p := range c.it.After[o.After.From:o.After.To] {
		switch before := c.at(r, p); {
		case !before.done: // reported already
		case o.Flags&(OnStart|Stream) != 0:
			in.ready = max(in.ready, before.start)
		default:
			in.ready = max(in.ready, before.end)
		}
	}
	if r > c.first[row.sub] {
		in.ready = max(in.ready, c.rows[r-1].end)
	}
	if earliest := in.ready + c.e.resources[o.Resource].Latency; in.start < earliest {
		c.fail(Causality, in.start, "%s starts before %v, when what it waits for is there", c.name(x), earliest)
	}
}

// serve checks what each resource does, lane by lane, and what it does together with its
// twin.
func (c *check) serve() {
	slots := len(c.e.resources) + len(c.e.lanes)
	c.slots = append(c.slots[:0], make([]served, 0, slots)...)
	for range slots {
		c.slots = append(c.slots, served{free: c.start})
	}
	var bus Time // time on the bus that two resources share
	for i := range c.spans {
		x := &c.spans[i]
		spec := &c.e.resources[x.Resource]
		slot := int(x.Resource)
		if spec.Discipline == Lanes {
			slot = len(c.e.resources) + c.e.servers[x.Resource].lanes + int(x.Lane)
		}
		s := &c.slots[slot]
		if x.Start < s.free {
			c.fail(Exclusive, x.Start, "%s starts before %s is free at %v", c.name(x), spec.Name, s.free)
		}
		if spec.Twin > 0 {
			if x.Start < bus {
				c.fail(Exclusive, x.Start, "%s starts while the bus of %s and %s is busy until %v",
					c.name(x), spec.Name, c.e.resources[spec.Twin-1].Name, bus)
			}
			bus = max(bus, x.End)
		}
		if in := c.of(x); in != nil && !x.Claim {
			c.waited(spec, x, s, in)
		}
		s.free, s.last = max(s.free, x.End), x
	}
}

// waited checks that a span starts as soon as it can, and that no other could have started before.
func (c *check) waited(spec *Resource, x *Span, s *served, in *instance) {
	o := &c.it.Ops[x.Op]
	at := max(s.free, in.ready+spec.Latency)
	if o.Flags&Stream != 0 { // each piece waits for its own
		ready := c.pieces[piece{c.row(x), c.it.After[o.After.From], x.Piece}] + spec.Latency
		if at = max(s.free, ready); x.Start < ready {
			c.fail(Causality, x.Start, "%s starts before %v, when its piece is there", c.name(x), ready)
		}
	}
	switch late := x.Start - at; {
	case spec.Discipline == Lanes:
		if late > c.closes+spec.Reactivate {
			c.fail(Idle, at, "%s could start at %v and starts at %v", c.name(x), at, x.Start)
		}
		if want := c.e.servers[x.Resource].lane(o.Lane, x.Layer) - c.e.servers[x.Resource].lanes; int(x.Lane) != want {
			c.fail(Traffic, x.Start, "%s is on lane %d, not %d", c.name(x), x.Lane, want)
		}
	case late > 0 && late > c.patience(spec, o):
		c.fail(Idle, at, "%s could start at %v and starts at %v", c.name(x), at, x.Start)
	}
	if s.last == nil || spec.Discipline != FIFO {
		return
	}
	if last := c.of(s.last); last != nil && last.ready > in.ready {
		c.fail(Idle, x.Start, "%s is ready at %v and goes after %s, ready at %v", c.name(x), in.ready, c.name(s.last), last.ready)
	}
}

// length checks the end of the iteration against its operations, those of skipped
// layers included.
func (c *check) length() {
	latest, serial := c.start, Time(0)
	for i := range c.spans {
		latest = max(latest, c.spans[i].End)
	}
	if latest != c.end {
		c.fail(Length, c.end, "the iteration ends at %v, its last operation at %v", c.end, latest)
	}
	for r := range c.e.resources {
		spec, l := &c.e.resources[r], &c.limits[r]
		serial += l.busy + l.pieces*(spec.Latency+l.claim)
		if least := l.busy / Time(max(spec.Count, 1)); c.took < least {
			c.fail(Length, c.end, "the iteration takes %v, %s is busy for %v", c.took, spec.Name, least)
		}
	}
	if c.took > serial {
		c.fail(Length, c.end, "the iteration takes %v, all operations in turn %v", c.took, serial)
	}
}
