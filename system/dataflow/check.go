package dataflow

import (
	"cmp"
	"fmt"
	"slices"
)

// Law is the name of something that holds in every schedule; docs/laws.md states
// each.
type Law string

// The laws of a schedule.
const (
	Causality Law = "causality" // no operation starts before what it waits for is there
	Exclusive Law = "exclusive" // no resource does two things at once
	Idle      Law = "idle"      // no resource idles while an operation that could start waits for it
	Traffic   Law = "traffic"   // every operation is done once, for its time, where it belongs
	Length    Law = "iteration" // an iteration ends with its last operation, and takes its busiest resource's time at least
)

// Violation is a law that a schedule breaks.
type Violation struct {
	Law    Law
	Time   Time
	Detail string // the operations involved
}

// Check runs an iteration as Run does, records what every resource does, and returns
// its end and every law that the schedule breaks. The schedule is that of the layers
// that are run; with Exact, of all.
func (e *Engine) Check(it *Iteration, start Time) (Time, []Violation) {
	spans := e.Record(it, start)
	c := check{e: e, it: it, start: start + e.recorded.jump.by, end: e.end, took: e.end - start, spans: spans, instances: map[task]*instance{}}
	c.run()
	return e.end, c.found
}

// Record runs an iteration as Run does and returns the spans of the layers that are
// run, in the order of their starts. They are valid until the next call.
func (e *Engine) Record(it *Iteration, start Time) []Span {
	if e.recorded == nil {
		e.recorded = &spans{}
	}
	e.recorded.reset(len(e.lanes))
	e.spans = e.recorded
	e.Run(it, start)
	e.spans = nil
	slices.SortStableFunc(e.recorded.list, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	return e.recorded.list
}

// check verifies one schedule against its iteration, and knows nothing of how the
// engine made it.
type check struct {
	e          *Engine
	it         *Iteration
	start, end Time // of the schedule that has been recorded
	took       Time // of the whole iteration
	spans      []Span
	instances  map[task]*instance
	found      []Violation
	last       [2]int32 // the last layer of each sub-batch, as recorded
}

// instance is what a schedule did for an operation of a layer.
type instance struct {
	start, end, worked, ready Time
	pieces                    int32
	expected                  bool // the iteration has it
}

func (c *check) fail(law Law, at Time, format string, args ...any) {
	c.found = append(c.found, Violation{law, at, fmt.Sprintf(format, args...)})
}

// name names an operation for a message.
func (c *check) name(t task) string {
	o := &c.it.Ops[t.op]
	return fmt.Sprintf("operation %d (kind %d, group %d) of sub-batch %d, layer %d, on %s",
		t.op, o.Kind, o.Group, t.sub, t.layer, c.e.resources[o.Resource].Name)
}

func (c *check) run() {
	for i := range c.spans {
		c.collect(&c.spans[i])
	}
	for _, t := range c.expected() {
		c.instance(t)
	}
	for t, in := range c.instances {
		if !in.expected {
			c.fail(Traffic, c.end, "%s is no operation of the iteration", c.name(t))
		}
	}
	for r := range c.e.resources {
		c.resource(r)
	}
	c.length()
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Law, b.Law), cmp.Compare(a.Detail, b.Detail))
	})
}

// collect adds a span to its operation.
func (c *check) collect(x *Span) {
	if x.End < x.Start {
		c.fail(Exclusive, x.Start, "%s ends at %v, before it starts", c.name(x.task()), x.End)
	}
	if x.Claim {
		return
	}
	in := c.instances[x.task()]
	if in == nil {
		in = &instance{start: x.Start, ready: x.Ready}
		c.instances[x.task()] = in
	}
	in.start, in.end = min(in.start, x.Start), max(in.end, x.End)
	in.worked += x.End - x.Start
	in.pieces++
}

func (x *Span) task() task { return task{x.Op, x.Layer, x.Sub} }

// expected returns the operations of all layers that have been run, as the recording
// numbers them.
func (c *check) expected() []task {
	var all []task
	jump := &c.e.recorded.jump
	for s := range c.it.Sub {
		layer := int32(0)
		for _, r := range c.it.Sub[s].Layers {
			for range r.Count {
				as := layer
				if layer <= jump.at[s] {
					as += jump.layers
				}
				c.last[s] = as
				if layer <= jump.at[s] || layer > jump.at[s]+jump.layers {
					for op := r.From; op < r.To; op++ {
						all = append(all, task{op, as, int8(s)})
					}
				}
				layer++
			}
		}
	}
	return all
}

// instance checks one operation of a layer against what it waits for.
func (c *check) instance(t task) {
	in, o := c.instances[t], &c.it.Ops[t.op]
	if in == nil {
		c.fail(Traffic, c.end, "%s is not done", c.name(t))
		return
	}
	in.expected = true
	want := o.duration()
	if o.Flags&NextLayer != 0 && t.layer == c.last[t.sub] {
		want = c.it.Sub[t.sub].Exit
	}
	if in.worked != want || c.e.resources[o.Resource].Discipline != Lanes && in.pieces != o.Pieces {
		c.fail(Traffic, in.end, "%s takes %v in %d pieces, not %v in %d", c.name(t), in.worked, in.pieces, want, o.Pieces)
	}
	in.ready = c.start
	for _, p := range c.it.After[o.After.From:o.After.To] {
		before := c.instances[task{p, t.layer, t.sub}]
		switch {
		case before == nil: // named already
		case o.Flags&(OnStart|Stream) != 0:
			in.ready = max(in.ready, before.start)
		default:
			in.ready = max(in.ready, before.end)
		}
		if o.Flags&Stream != 0 && before != nil && in.end < before.end {
			c.fail(Causality, in.end, "%s ends before the pieces that it hands on at %v", c.name(t), before.end)
		}
	}
	if o.After.From == o.After.To {
		in.ready = max(in.ready, c.layerEnd(t))
	}
	if earliest := in.ready + c.e.resources[o.Resource].Latency; in.start < earliest {
		c.fail(Causality, in.start, "%s starts before %v, when what it waits for is there", c.name(t), earliest)
	}
}

// layerEnd returns when the layer before a task's ended.
func (c *check) layerEnd(t task) Time {
	for before, in := range c.instances {
		if before.sub == t.sub && before.layer == t.layer-1 && c.it.Ops[before.op].Flags&NextLayer != 0 {
			return in.end
		}
	}
	return c.start
}

// resource checks the spans of one resource, lane by lane, and those of its twin with
// them.
func (c *check) resource(r int) {
	spec := &c.e.resources[r]
	for lane := range max(spec.Count, 1) {
		free, last := c.start, (*Span)(nil)
		for i := range c.spans {
			x := &c.spans[i]
			if int(x.Resource) != r || int(x.Lane) != lane {
				continue
			}
			if x.Start < free {
				c.fail(Exclusive, x.Start, "%s starts before %s is free at %v", c.name(x.task()), spec.Name, free)
			}
			c.waited(spec, x, last, free)
			free, last = max(free, x.End), x
		}
	}
	if spec.Twin > r+1 {
		c.twins(int8(r), int8(spec.Twin-1))
	}
}

// waited checks that a span starts as soon as it can, and no other could have.
func (c *check) waited(spec *Resource, x, last *Span, free Time) {
	in, o := c.instances[x.task()], &c.it.Ops[x.Op]
	if in == nil || x.Claim {
		return
	}
	at := max(free, in.ready+spec.Latency)
	if o.Flags&Stream != 0 {
		at = max(free, x.Ready)
	}
	switch late := x.Start - at; {
	case spec.Discipline == Lanes:
		if x.Start == in.start && late > c.closes()+spec.Reactivate {
			c.fail(Idle, at, "%s could start at %v and starts at %v", c.name(x.task()), at, x.Start)
		}
		if want := c.e.lane(x.Resource, o.Lane, x.Layer) - c.e.servers[x.Resource].lanes; int(x.Lane) != want {
			c.fail(Traffic, x.Start, "%s is on lane %d, not %d", c.name(x.task()), x.Lane, want)
		}
	case late > c.patience(spec, o):
		c.fail(Idle, at, "%s could start at %v and starts at %v", c.name(x.task()), at, x.Start)
	}
	if last != nil && spec.Discipline == FIFO && c.instances[last.task()].ready > in.ready {
		c.fail(Idle, x.Start, "%s is ready at %v and goes after %s, ready at %v", c.name(x.task()), in.ready, c.name(last.task()), c.instances[last.task()].ready)
	}
}

// patience returns how long an operation can wait at most when its resource is free: for
// lanes that it claims, for a twin, and for another link that holds the lanes while it
// waits itself.
func (c *check) patience(spec *Resource, o *Op) Time {
	most := c.delay(spec, o)
	if o.Claims == 0 {
		return most
	}
	for r := range c.e.resources {
		other := &c.e.resources[r]
		if int8(r) == o.Resource || other.Discipline != Link {
			continue
		}
		var longest Time
		for i := range c.it.Ops {
			if x := &c.it.Ops[i]; int(x.Resource) == r {
				longest = max(longest, c.delay(other, x)+x.duration())
			}
		}
		most += longest
	}
	return most
}

// delay returns how long an operation can wait for its own claim and its twin.
func (c *check) delay(spec *Resource, o *Op) Time {
	var most Time
	if o.Claims > 0 {
		claimed := &c.e.resources[o.Claims-1]
		most = claimed.Vacate + o.Open + claimed.Reactivate + c.longest(o.Claims-1) + c.closes()
	}
	if spec.Twin > 0 {
		twin := int8(spec.Twin - 1)
		work, spans := c.total(twin)
		// The gaps between the twin's spans may be too short.
		most += work + c.longestClaim(twin) + spans*o.duration()
	}
	return most
}

// closes returns the longest time that a lane needs after a transfer.
func (c *check) closes() Time {
	var most Time
	for i := range c.it.Ops {
		most = max(most, c.it.Ops[i].Close)
	}
	return most
}

// longest returns the longest operation on a resource.
func (c *check) longest(r int8) Time {
	var most Time
	for i := range c.it.Ops {
		if o := &c.it.Ops[i]; o.Resource == r {
			most = max(most, o.duration())
		}
	}
	return most
}

// total returns the time of a resource's spans, and their number.
func (c *check) total(r int8) (sum, spans Time) {
	for i := range c.spans {
		if x := &c.spans[i]; x.Resource == r && !x.Claim {
			sum += x.End - x.Start
			spans++
		}
	}
	return sum, spans
}

// twins checks that two resources with one bus take turns.
func (c *check) twins(a, b int8) {
	free := c.start
	for i := range c.spans {
		if x := &c.spans[i]; x.Resource == a || x.Resource == b {
			if x.Start < free {
				c.fail(Exclusive, x.Start, "%s starts while the bus of %s and %s is busy until %v",
					c.name(x.task()), c.e.resources[a].Name, c.e.resources[b].Name, free)
			}
			free = max(free, x.End)
		}
	}
}

// length checks the end of the iteration against its operations, those of skipped
// layers included.
func (c *check) length() {
	latest, serial := c.start, Time(0)
	for _, in := range c.instances {
		latest = max(latest, in.end)
	}
	if latest != c.end {
		c.fail(Length, c.end, "the iteration ends at %v, its last operation at %v", c.end, latest)
	}
	for r := range c.e.resources {
		spec := &c.e.resources[r]
		busy, ops := c.it.busy(int8(r))
		serial += busy + Time(ops)*(spec.Latency+c.longestClaim(int8(r)))
		if least := busy / Time(max(spec.Count, 1)); c.took < least {
			c.fail(Length, c.end, "the iteration takes %v, %s is busy for %v", c.took, spec.Name, least)
		}
	}
	if c.took > serial {
		c.fail(Length, c.end, "the iteration takes %v, all operations in turn %v", c.took, serial)
	}
}

// longestClaim returns what a piece of a resource can wait for lanes at most.
func (c *check) longestClaim(r int8) Time {
	var most Time
	for i := range c.it.Ops {
		if o := &c.it.Ops[i]; o.Resource == r && o.Claims > 0 {
			most = max(most, c.delay(&Resource{}, o))
		}
	}
	return most
}

// busy returns the time for which an iteration occupies a resource, over all its
// lanes, and the pieces of work that this is.
func (it *Iteration) busy(resource int8) (busy Time, pieces int64) {
	for s := range it.Sub {
		sub := &it.Sub[s]
		for i, r := range sub.Layers {
			for j := r.From; j < r.To; j++ {
				if o := &it.Ops[j]; o.Resource == resource {
					busy += Time(r.Count) * o.duration()
					pieces += int64(r.Count) * int64(o.Pieces)
					if i == len(sub.Layers)-1 && o.Flags&NextLayer != 0 {
						busy += sub.Exit - o.Last
					}
				}
			}
		}
	}
	return busy, pieces
}
