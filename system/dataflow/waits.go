package dataflow

import "slices"

// Waits says where the time of resources goes in an iteration: how long each works, and while it idles, whose work
// it waits for. Times of lanes are sums over all lanes of a resource. For each resource the three add up to the
// time of the iteration, for each of its lanes.
type Waits struct {
	Busy []Time   // by resource; lanes that receive are busy
	For  [][]Time // For[r][b]: r idles while b does, or delays, what the next operation of r waits for; b == r: its latency
	Done []Time   // by resource: after its last operation
}

// Waits runs all layers of an iteration and says where the time of resources goes. It is for analysis: it is slow,
// and the result is new memory.
func (e *Engine) Waits(it *Iteration, start Time) Waits {
	exact := e.Exact
	e.Exact = true
	spans := e.Record(it, start)
	e.Exact = exact
	n := len(e.resources)
	w := waits{it: it, ran: map[done]extent{}, Waits: Waits{Busy: make([]Time, n), For: make([][]Time, n), Done: make([]Time, n)}}
	free := make([][]Time, n) // when each lane has ended what it did so far
	for r := range free {
		lanes := 1
		if e.resources[r].Discipline == Lanes {
			lanes = e.resources[r].Count
		}
		free[r], w.For[r] = slices.Repeat([]Time{start}, lanes), make([]Time, n)
	}
	for i := range spans {
		w.note(&spans[i])
	}
	for i := range spans {
		x := &spans[i]
		r, lane := x.Resource, 0
		if e.resources[r].Discipline == Lanes {
			lane = int(x.Lane)
		}
		from := &free[r][lane]
		if x.Start > *from {
			w.idle(r, *from, x.Start, done{x.Sub, x.Layer, x.Op})
		}
		if x.End > *from {
			w.Busy[r] += x.End - max(*from, x.Start)
			*from = x.End
		}
	}
	for r := range free {
		for _, end := range free[r] {
			w.Done[r] += e.end - end
		}
	}
	return w.Waits
}

// done is an operation in a layer that has been run, extent the time from its first span to its last.
type done struct {
	sub       int8
	layer, op int32
}

type extent struct{ start, end Time }

// waits is Waits in the making.
type waits struct {
	Waits
	it  *Iteration
	ran map[done]extent
}

// note adds a span to the extent of its operation.
func (w *waits) note(x *Span) {
	if x.Claim {
		return
	}
	k := done{x.Sub, x.Layer, x.Op}
	t, begun := w.ran[k]
	if !begun {
		t.start = x.Start // spans are in the order of their starts
	}
	w.ran[k] = extent{t.start, max(t.end, x.End)}
}

// idle shares out the time in which resource r does nothing before it begins with x. It goes back from operation to
// operation along what each waited for last: while that ran, its resource had r wait; between its end and the start of
// what waited, the latter's resource did, by its latency or since it was taken.
func (w *waits) idle(r int8, from, to Time, x done) {
	for to > from {
		before, ready := w.cause(x)
		at := w.it.Ops[x.op].Resource
		if ready < to {
			w.For[r][at] += to - max(from, ready)
			to = max(from, ready)
			continue
		}
		t := w.ran[before]
		if t.start < to {
			w.For[r][w.it.Ops[before.op].Resource] += to - max(from, t.start)
			to = max(from, t.start)
		}
		x = before
	}
}

// cause returns what an operation waited for last, and when that was over: of several the one that ended last. What
// waits for nothing in its layer waits for the end of the layer before; nothing waits at the start of the iteration.
func (w *waits) cause(x done) (before done, ready Time) {
	o := &w.it.Ops[x.op]
	for _, op := range w.it.After[o.After.From:o.After.To] {
		k := done{x.sub, x.layer, op}
		end := w.ran[k].end
		if o.Flags&OnStart != 0 {
			end = w.ran[k].start
		}
		if end >= ready {
			before, ready = k, end
		}
	}
	if o.After.From < o.After.To || x.layer == 0 {
		return before, ready
	}
	before = done{x.sub, x.layer - 1, w.ending(x.sub, x.layer-1)}
	return before, w.ran[before].end
}

// ending returns the operation that ends a layer.
func (w *waits) ending(sub int8, layer int32) int32 {
	for _, l := range w.it.Sub[sub].Layers {
		if layer -= l.Count; layer < 0 {
			for op := l.From; op < l.To; op++ {
				if w.it.Ops[op].Flags&NextLayer != 0 {
					return op
				}
			}
		}
	}
	return none
}
