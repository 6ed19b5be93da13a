package dataflow

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestHandWorkedWaits: in the schedule of TestHandWorkedSchedule the GPU works for 102 of 253 ns and waits four times, from 26 to 91,
// 111 to 119, 145 to 198 and 213 to 238. Each time the results that it needs next come up for 2 ns, after 1 ns of latency: 12 ns in
// all. The rest, 62, 5, 50 and 22 ns, it waits for a rankset. That rankset works for 60, 40, 40 and 40 ns, where the mean is (40 + 60)
// / 2 and 40 / 2: 10 more than the mean, then 20 (5 of them after the GPU was free), none, and 20. Ranksets have the layers of
// sub-batch 0 from 18 to 88 and 119 to 195, those of sub-batch 1 from 49 to 116 and 168 to 235. Transfers are under way before, from
// 10 to 18 and 116 to 119; the GPU works up to 10 and from 238 on. In between results come up.
func TestHandWorkedWaits(t *testing.T) {
	e := New(handResources())
	e.Run(handIteration(), 0)
	want := Waits{Uneven: 10 + 5 + 20}
	want.Main[testLanes], want.Main[testUp] = 139, 12
	want.Device[testGPU], want.Device[testDown], want.Device[testUp] = 10+15, 8+3, 3
	if got := *e.Waits(); got != want {
		t.Errorf("waits\n%+v, want\n%+v", got, want)
	}
}

// TestWaitsOfNoLayer: the iteration's end waits for results that outlive the only layer by 44. It does not wait for an operation of no layer,
// even if one in that place ended last in the previous iteration.
func TestWaitsOfNoLayer(t *testing.T) {
	it := &Iteration{}
	b := builder{it}
	b.op(Op{Last: 1, Resource: testGPU, Flags: NextLayer})
	b.op(Op{Last: 50, Resource: testUp})
	b.op(Op{Last: 5, Resource: testGPU, Flags: NextLayer})
	b.op(Op{Last: 1000, Resource: testDown})
	e := New([]Resource{testLanes: {}, testDown: {Reason: testDown}, testUp: {Reason: testUp}, testGPU: {Reason: testGPU}})
	e.noShortcut = true
	for _, x := range []struct {
		to       int32
		end      Time
		up, down Time
	}{{4, 1001, 0, 995}, {3, 51, 45, 0}} {
		b.layers(0, 1, Range{0, 1}, Range{1, x.to}, 5)
		var want Waits
		want.Main[testUp], want.Main[testDown] = x.up, x.down
		if end, got := e.Run(it, 0), *e.Waits(); end != x.end || got != want {
			t.Errorf("up to operation %d: ends at %v, waits %+v; want %v, %+v", x.to, end, got, x.end, want)
		}
	}
}

// TestWaitsOfADevice: an entry of 10, then two layers, each with a transfer of 8, a FIFO device for 5, and a block of 7 (4 in the last). The device waits for the GPU, 10, 7 and 4, and for
// each layer's transfer; the GPU for the transfers and the device.
func TestWaitsOfADevice(t *testing.T) {
	it := &Iteration{}
	b := builder{it}
	b.op(Op{Last: 10, Resource: testGPU, Flags: NextLayer})
	sent := b.op(Op{Last: 8, Resource: testDown})
	done := b.op(Op{Last: 5, Resource: testLanes}, sent)
	b.op(Op{Last: 7, Resource: testGPU, Flags: NextLayer}, done)
	b.layers(0, 2, Range{0, 1}, Range{1, 4}, 4)
	var want Waits
	want.Main[testLanes], want.Main[testDown] = 10, 16
	want.Device[testGPU], want.Device[testDown] = 21, 16
	for _, plain := range []bool{true, false} {
		e := New([]Resource{testLanes: {Reason: testLanes, Device: true}, testDown: {Reason: testDown}, testUp: {Reason: testUp}, testGPU: {Reason: testGPU}})
		e.noShortcut = plain
		if end, got := e.Run(it, 100), *e.Waits(); end != 147 || got != want {
			t.Errorf("event by event %v: ends at %v, waits %+v; want 147, %+v", plain, end, got, want)
		}
	}
}

// TestWaitsAddUp: for any iteration, each resource's work and waits add up to its time, and the waits agree with the spans of
// all layers.
func TestWaitsAddUp(t *testing.T) {
	deep.Heavy(t)
	check := func(t *rapid.T) {
		resources, it := drawIteration(t)
		if rapid.Bool().Draw(t, "in lockstep") {
			resources, it = drawLockstep(t)
		}
		e := New(resources)
		start := Time(rapid.IntRange(0, 1000).Draw(t, "start"))
		took := e.Run(it, start) - start
		got := *e.Waits()
		if e.Exact {
			t.Fatal("the engine runs every layer from now on")
		}
		e.Exact = true
		o := newObserver(it, resources, e.Record(it, start), start, start+took)
		if want := o.gpu(); got.Main != want {
			t.Fatalf("the GPU waits %v, by its spans %v", got.Main, want)
		}
		if want := o.device(); got.Device != want {
			t.Fatalf("ranksets wait %v, by their spans %v", got.Device, want)
		}
		work := took
		for r := range got.Main {
			if work -= got.Main[r]; got.Main[r] < 0 || got.Device[r] < 0 {
				t.Fatalf("waits of less than nothing: %+v", got)
			}
		}
		if work != o.work() || got.Uneven < 0 || got.Uneven > got.Main[testLanes] {
			t.Fatalf("of %d the GPU works %d, and waits %+v", took, o.work(), got)
		}
	}
	rapid.Check(t, check)
	deep.Seeds(t, 40, check)
}

// observer examines each picosecond of a recorded iteration.
type observer struct {
	it         *Iteration
	resources  []Resource
	spans      []Span
	start, end Time
	ran        map[task]stretch // from the first span of an operation in a layer to its last
	begun      map[task]stretch // of a sub-batch's layer, op 0
}

func newObserver(it *Iteration, r []Resource, spans []Span, start, end Time) *observer {
	o := &observer{it, r, spans, start, end, map[task]stretch{}, map[task]stretch{}}
	for _, x := range spans {
		if x.Claim {
			continue
		}
		k := task{x.Op, x.Layer, x.Sub}
		t, begun := o.ran[k]
		if !begun {
			t.begin = x.Start
		}
		o.ran[k] = stretch{t.begin, max(t.end, x.End)}
	}
	return o
}

// before returns the last operation that an operation waits for, and its end.
func (o *observer) before(k task) (last task, end Time) {
	last.op = none
	x := &o.it.Ops[k.op]
	if x.Flags&OnStart != 0 {
		return last, o.start
	}
	for _, op := range o.it.After[x.After.From:x.After.To] {
		b := task{op, k.layer, k.sub}
		if at := o.ran[b].end; last.op == none || at > end || at == end && op > last.op {
			last, end = b, at
		}
	}
	return last, end
}

// gpu walks back from each span of the GPU.
func (o *observer) gpu() (w [Reasons]Time) {
	free := o.start
	for _, x := range o.spans {
		if x.Resource != testGPU {
			continue
		}
		k, until := task{x.Op, x.Layer, x.Sub}, x.Start
		for until > free {
			op, from := &o.it.Ops[k.op], free
			last, end := o.before(k)
			if last.op != none && !(o.resources[op.Resource].Discipline == Lanes && o.behind(k, end)) {
				from = min(until, max(free, end))
			}
			w[o.resources[op.Resource].Reason] += until - from
			k, until = last, from
		}
		free = max(free, x.End)
	}
	if free < o.end {
		last := task{op: none}
		for k, t := range o.ran {
			if t.end == o.end && k.op > last.op {
				last = k
			}
		}
		w[o.resources[o.it.Ops[last.op].Resource].Reason] += o.end - free
	}
	return w
}

// behind reports whether an operation has waited for another one on its lane since it was ready: it begins when that one
// ends.
func (o *observer) behind(k task, ready Time) bool {
	lane, begin := int16(-1), o.ran[k].begin
	for _, x := range o.spans {
		if !x.Claim && x.Op == k.op && x.Layer == k.layer && x.Sub == k.sub {
			lane = x.Lane
			break
		}
	}
	for _, x := range o.spans {
		other := task{x.Op, x.Layer, x.Sub}
		if !x.Claim && x.Lane == lane && x.Resource == testLanes && other != k && o.ran[other].end > ready && o.ran[other].begin < begin {
			return true
		}
	}
	return false
}

func (o *observer) work() (t Time) {
	for _, x := range o.spans {
		if x.Resource == testGPU {
			t += x.End - x.Start
		}
	}
	return t
}

// device sweeps over the instants at which anything changes.
func (o *observer) device() (w [Reasons]Time) {
	type layer struct{ start, first, end Time }
	layers := map[task]*layer{}
	cuts := []Time{o.start, o.end}
	for k, t := range o.ran {
		if o.it.Ops[k.op].Resource != testLanes {
			continue
		}
		l := layers[task{0, k.layer, k.sub}]
		if l == nil {
			l = &layer{start: o.layerStart(k), first: never}
			layers[task{0, k.layer, k.sub}] = l
		}
		ready := l.start
		if last, end := o.before(k); last.op != none {
			ready = end
		}
		l.first, l.end = min(l.first, ready), max(l.end, t.end)
	}
	for _, l := range layers {
		cuts = append(cuts, l.start, l.first, l.end)
	}
	for _, x := range o.spans {
		cuts = append(cuts, x.Start, x.End)
	}
	slices.Sort(cuts)
	for i := 1; i < len(cuts); i++ {
		from, to := cuts[i-1], cuts[i]
		if from == to || from < o.start || to > o.end {
			continue
		}
		busy, sending := false, map[int8]uint8{}
		for k, l := range layers {
			busy = busy || l.first <= from && from < l.end
			if l.start <= from && from < l.first {
				sending[k.sub] = o.resources[o.it.Ops[o.layerOps(k).From].Resource].Reason
			}
		}
		switch zero, on := sending[0]; {
		case busy:
		case on:
			w[zero] += to - from
		case len(sending) > 0:
			w[sending[1]] += to - from
		default:
			w[o.gpuAt(from, to)] += to - from
		}
	}
	return w
}

// gpuAt returns what the GPU waits for in an interval without changes, or its own reason if it works.
func (o *observer) gpuAt(from, to Time) uint8 {
	clipped := *o
	clipped.spans = slices.Clone(o.spans)
	for i := range clipped.spans {
		if x := &clipped.spans[i]; x.Resource == testGPU && x.Start <= from && x.End >= to {
			return testGPU
		}
	}
	// A GPU that is free until from and busy after to waits for this in between.
	busyBefore := Span{Resource: testGPU, Start: o.start, End: from}
	kept := []Span{busyBefore}
	for _, x := range clipped.spans {
		if x.Resource != testGPU || x.Start >= to {
			kept = append(kept, x)
		}
	}
	clipped.spans = kept
	for r, t := range clipped.between(from, to) {
		if t > 0 {
			return uint8(r)
		}
	}
	return testGPU
}

// between returns the waits of a GPU that is free at from, up to a time.
func (o *observer) between(from, to Time) (w [Reasons]Time) {
	late := *o
	late.start = from
	all := late.gpu()
	late.start = to
	late.spans = append([]Span{{Resource: testGPU, Start: to, End: to}}, o.spans[1:]...)
	rest := late.gpu()
	for r := range w {
		w[r] = all[r] - rest[r]
	}
	return w
}

func (o *observer) layerOps(k task) Range {
	n := k.layer
	sub := &o.it.Sub[k.sub]
	for _, r := range sub.Order {
		if n -= r.Count; n < 0 {
			return sub.Kinds[r.Kind].Range
		}
	}
	return Range{}
}

// layerStart returns when a layer begins: when the one before has ended.
func (o *observer) layerStart(k task) Time {
	if k.layer == 0 {
		return o.start
	}
	before := task{0, k.layer - 1, k.sub}
	r := o.layerOps(before)
	for op := r.From; op < r.To; op++ {
		if o.it.Ops[op].Flags&NextLayer != 0 {
			return o.ran[task{op, k.layer - 1, k.sub}].end
		}
	}
	return never
}
