package dataflow

import (
	"cmp"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"pgregory.net/rapid"
)

// Resources of the tests: the shape of L3, without buffers.
const (
	testLanes = iota
	testDown
	testUp
	testGPU
)

const testDevice = testUp // where there are no lanes

// handResources are two ranksets, links with 1 ns of latency and a GPU; times in ns.
func handResources() []Resource {
	return []Resource{
		testLanes: {Name: "ranksets", Reason: testLanes, Device: true, Discipline: Lanes, Count: 2, Rotates: true, Vacate: 1, Reactivate: 4,
			Boundaries: Boundaries{Clock: NewClock(1, 1, 1), Each: 3}},
		testDown: {Name: "down", Reason: testDown, Discipline: Link, Latency: 1},
		testUp:   {Name: "up", Reason: testUp, Latency: 1},
		testGPU:  {Name: "GPU", Reason: testGPU},
	}
}

// builder adds operations that wait for others.
type builder struct{ *Iteration }

func (b builder) op(o Op, after ...int32) int32 {
	if o.Claims > 0 {
		o.Open, o.Close = 2, 3
	}
	from := int32(len(b.After))
	b.After = append(b.After, after...)
	o.After = Range{from, int32(len(b.After))}
	o.Pieces = max(o.Pieces, 1)
	x, i := b.Add(o.Resource, o.Last)
	*x = o
	return i
}

// group adds a transfer down, attention of the given time in heads of 20, and the transfer of
// results up, which it returns.
func (b builder) group(lane int16, compute Time) int32 {
	d := b.op(Op{Last: 5, Resource: testDown, Claims: testLanes + 1, Lane: lane})
	from := int32(len(b.Parts))
	b.Parts = append(b.Parts, 20)
	a := b.op(Op{Last: compute, Resource: testLanes, Lane: lane, Parts: Range{from, from + 1}}, d)
	return b.op(Op{Last: 2, Resource: testUp}, a)
}

// layers gives sub-batch s its entry and n layers.
func (b builder) layers(s, n int, entry, layer Range, exit Time) {
	b.Sub[s] = subBatch(exit, Layers{entry, 1}, Layers{layer, int32(n)})
}

// subBatch returns layers in their order.
func subBatch(exit Time, layers ...Layers) SubBatch {
	s := SubBatch{Exit: exit}
	for _, r := range layers {
		s.Add(r.Range, r.Count)
	}
	return s
}

// more adds successive layers of the kind of the last one.
func (s *SubBatch) more(n int32) {
	s.last().Count += n
	s.Order[len(s.Order)-1].Count += n
}

func (b builder) since(from int) Range { return Range{int32(from), int32(len(b.Ops))} }

// TestLayersByKind: layers with the same operations are one kind, in any order.
func TestLayersByKind(t *testing.T) {
	entry, a, b := Range{0, 1}, Range{1, 4}, Range{4, 7}
	s := subBatch(9, Layers{entry, 1}, Layers{a, 2}, Layers{b, 3}, Layers{a, 4}, Layers{a, 1}, Layers{b, 5})
	if want := []Layers{{entry, 1}, {a, 7}, {b, 8}}; !slices.Equal(s.Kinds, want) {
		t.Errorf("kinds %v, want %v", s.Kinds, want)
	}
	if want := []Run{{0, 1}, {1, 2}, {2, 3}, {1, 4}, {1, 1}, {2, 5}}; !slices.Equal(s.Order, want) {
		t.Errorf("order %v, want %v", s.Order, want)
	}
	if s.total() != 16 || s.last() != &s.Kinds[2] || s.Exit != 9 {
		t.Errorf("%d layers, the last one of %v", s.total(), s.last())
	}
	it := Iteration{Sub: [2]SubBatch{s, s}}
	if it.Reset(); it.Sub[0].total() != 0 || len(it.Sub[0].Order) != 0 || it.Sub[1].total() != 0 {
		t.Errorf("after a reset %v", it.Sub)
	}
}

// handIteration is two layers: sub-batch 0 has requests on lanes 0 and 1; sub-batch 1 has one on
// lane 0 and a prompt for lane 1, whose keys and values go down while the block runs.
func handIteration() *Iteration {
	it := &Iteration{}
	b := builder{it}
	for s := range 2 {
		entry := len(it.Ops)
		b.op(Op{Last: 10, Resource: testGPU, Flags: NextLayer})
		before := b.since(entry)
		from := len(it.Ops)
		var waits []int32
		if s == 0 {
			waits = []int32{b.group(0, 40), b.group(1, 60)}
		} else {
			waits = []int32{b.group(0, 40), b.op(Op{Last: 6, Resource: testGPU})}
		}
		last := b.op(Op{Last: 20, Resource: testGPU, Flags: NextLayer}, waits...)
		if s == 1 {
			b.op(Op{Last: 8, Resource: testDown, Claims: testLanes + 1, Lane: 1, Class: 1, Flags: OnStart}, last)
		}
		b.layers(s, 2, before, b.since(from), 15)
	}
	return it
}

// TestHandWorkedSchedule checks every operation of an iteration against times worked
// out by hand.
//
// Layer 0. Sub-batch 0's QKV ends at 10. Its two transfers are eligible at 11;
// each opens rows for 2 ns and moves for 5 ns: [13,18] to rankset 0 and, the
// link being free at 18, [20,25] to rankset 1. Rows close for 3 ns, so attention
// runs [21,61] and [28,88]. Sub-batch 1's QKV ends at 20; its transfer to
// rankset 0 is eligible at 21 and the link is free at 25. Rankset 0 has computed
// for 4 ns and comes to a head's end at 41: 1 ns to leave, 2 ns to open, data in
// [44,49], closed at 52, activated again at 56. The interrupted group goes on
// with its last 20 ns in [56,76]; sub-batch 1's attention follows in [76,116].
// Its prefill attention takes the GPU in [20,26].
//
// Results come up after 1 ns of latency: sub-batch 0's at [77,79] and [89,91],
// sub-batch 1's at [117,119]. So sub-batch 0's block runs in [91,111], sub-batch
// 1's in [119,139], when its prompt's keys and values for offset 1 go down to
// rankset 1, as worked out below.
//
// Layer 1 puts offset 0 on rankset 1 and offset 1 on rankset 0. Sub-batch 0's
// transfers are eligible at 112: [114,119] to rankset 1 (idle) and from 119 to
// rankset 0 (idle since 116): [121,126]. Attention: rankset 1 from 122 and
// rankset 0 from 129. Sub-batch 1's prompt of layer 0 is eligible at 120 and
// waits for the link until 126. Rankset 1 is then 4 ns into the 40 of offset 0:
// head's end at 142, data in [145,153], closed at 156, activated at 160, last
// 20 ns in [160,180]. Rankset 0 computes [129,189].
//
// Sub-batch 1's QKV of layer 1 ends at 139. Its transfer (offset 0, rankset 1) is
// eligible at 140, the link free at 153. Rankset 1 is active again, at a head's
// end, at 160: it leaves by 161, opens by 163, data in [163,168], closed at 171,
// activated at 175, last 20 ns in [175,195]. Then sub-batch 1's attention runs
// [195,235]. Its prefill attention has the GPU in [139,145].
//
// Results: sub-batch 0's rankset 0 at [190,192], rankset 1 at [196,198]: exit
// [198,213]. Sub-batch 1's at [236,238], exit [238,253]; its prompt of layer 1
// (offset 1, rankset 0) is eligible at 239: rows open at 241, data [241,249]. The
// iteration ends at 253.
func TestHandWorkedSchedule(t *testing.T) {
	// The lanes rotate from layer 1 on, which is the model's layer 0: lane 0 of the
	// resource is the rankset that the text calls 1.
	e := New(handResources())
	it := handIteration()
	if end := e.Run(it, 0); end != 253 {
		t.Errorf("the iteration ends at %v, want 253", end)
	}
	type span struct {
		resource   int8
		start, end Time
	}
	var got []span
	for _, s := range e.Record(it, 0) {
		if !s.Claim {
			got = append(got, span{s.Resource, s.Start, s.End})
		}
	}
	want := []span{
		{testGPU, 0, 10}, {testGPU, 10, 20}, {testGPU, 20, 26}, {testGPU, 91, 111}, {testGPU, 119, 139}, {testGPU, 139, 145},
		{testGPU, 198, 213}, {testGPU, 238, 253},
		{testDown, 13, 18}, {testDown, 20, 25}, {testDown, 44, 49}, {testDown, 114, 119}, {testDown, 121, 126}, {testDown, 145, 153},
		{testDown, 163, 168}, {testDown, 241, 249},
		{testUp, 77, 79}, {testUp, 89, 91}, {testUp, 117, 119}, {testUp, 190, 192}, {testUp, 196, 198}, {testUp, 236, 238},
		{testLanes, 21, 41}, {testLanes, 56, 76}, {testLanes, 76, 116}, {testLanes, 129, 189},
		{testLanes, 28, 88}, {testLanes, 122, 142}, {testLanes, 175, 195}, {testLanes, 195, 235},
	}
	order := func(a, b span) int { return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.start, b.start)) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("spans\n%v, want\n%v", got, want)
	}
	if _, found := e.Check(it, 0); len(found) > 0 {
		t.Error(found)
	}
	recorded := len(e.recorded.list)
	if e.Run(it, 0); len(e.recorded.list) != recorded {
		t.Errorf("a run after a record adds to its %d spans", recorded)
	}
}

// TestAlternation compares two sub-batches on a GPU and one device with a closed form: with blocks
// of 5 and attention of 7, both resources alternate, and each layer of both takes twice the longer
// time.
func TestAlternation(t *testing.T) {
	const layers = 40
	for _, c := range []struct{ block, device, want Time }{
		// Both blocks fit under the other's attention: 1 + 7·2·40, and the last block.
		{5, 7, 1 + 2*7*layers + 5},
		// The GPU is the bottleneck: entries, and 40 blocks of each.
		{7, 5, 1 + 5 + 2*7*layers},
	} {
		it := &Iteration{}
		b := builder{it}
		for s := range 2 {
			b.op(Op{Last: 1, Resource: testGPU, Flags: NextLayer})
			entry := b.since(len(it.Ops) - 1)
			d := b.op(Op{Last: c.device, Resource: testDevice})
			b.op(Op{Last: c.block, Resource: testGPU, Flags: NextLayer}, d)
			layer := b.since(len(it.Ops) - 2)
			b.layers(s, layers, entry, layer, c.block)
		}
		e := New([]Resource{testUp: {Name: "device"}, testGPU: {Name: "GPU"}})
		if got := e.Run(it, 0); got != c.want {
			t.Errorf("blocks of %v, attention of %v: %v, want %v", c.block, c.device, got, c.want)
		}
		if e.layers > 12 {
			t.Errorf("%d layers are run of %d that repeat", e.layers, 2*layers)
		}
	}
}

// TestRepeatOnOneBus skips layers while results are still to come up over the bus that also carries data down. In each layer the results have the
// bus from 40 to 45. Data of 10 go down before; a further 30 fit, too, but 31 wait until 45. The GPU then works for 50.
func TestRepeatOnOneBus(t *testing.T) {
	const layers, down, up = 40, 1, 2
	for data, layer := range map[Time]Time{30: 40 + 50, 31: 45 + 31 + 50} {
		it := &Iteration{}
		b := builder{it}
		b.op(Op{Last: 1, Flags: NextLayer})
		b.op(Op{Last: 5, Resource: up})
		d := b.op(Op{Last: 10, Resource: down})
		d = b.op(Op{Last: data, Resource: down}, d)
		b.op(Op{Last: 50, Flags: NextLayer}, d)
		b.layers(0, layers, Range{0, 1}, b.since(1), 50)
		e := New([]Resource{{Name: "GPU"}, down: {Name: "down", Discipline: Link, Twin: up + 1}, up: {Name: "up", Latency: 40, Twin: down + 1}})
		if got := e.Run(it, 0); got != 1+layers*layer || e.layers > 5 {
			t.Errorf("data of %v: the iteration ends at %v, want %v; %d layers are run", data, got, 1+layers*layer, e.layers)
		}
	}
}

// drawIteration draws operations that wait for any earlier ones, on resources of every kind.
func drawIteration(t *rapid.T) ([]Resource, *Iteration) {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	r := handResources()
	r = append(r, Resource{Name: "writer", Reason: 4, Discipline: Link}, Resource{Name: "CPU", Reason: 5, Latency: Time(number("CPU latency", 0, 9))})
	const writer, cpu = testGPU + 1, testGPU + 2
	lanes := &r[testLanes]
	lanes.Count, lanes.Rotates = number("lanes", 1, 5), flag("rotates")
	lanes.Boundaries = Boundaries{Clock: NewClock(1, rapid.Int64Range(10, 20).Draw(t, "tREFI"), 10), Each: 2, Step: rapid.Int64Range(0, 9).Draw(t, "step")}
	r[testDown].Latency, r[testUp].Latency = Time(number("latency", 0, 20)), Time(number("latency up", 0, 20))
	if flag("one bus") {
		r[testDown].Twin, r[testUp].Twin = testUp+1, testDown+1
	}
	it := &Iteration{}
	b := builder{it}
	used := []int8{testLanes, testDown, testUp, testGPU, cpu}
	if flag("no links") {
		used = []int8{testLanes, testUp, testGPU, cpu}
	}
	draw := func(n int, before []int32) int32 {
		o := Op{Last: Time(number("time", 0, 100))}
		o.Resource = rapid.SampledFrom(used).Draw(t, "resource")
		o.Kind, o.Bus = uint8(1+o.Resource), Time(number("bus", 0, 100))
		o.Lane = int16(number("lane", 0, lanes.Count-1))
		var after []int32
		for _, x := range before {
			if number("waits", 0, 2) == 0 {
				after = append(after, x)
			}
		}
		switch o.Resource {
		case testLanes:
			from := int32(len(it.Parts))
			it.Parts = append(it.Parts, rapid.Int64Range(1, 30).Draw(t, "head"))
			o.Last = lanes.Boundaries.Clock.Time(2 * it.Parts[from])
			o.Parts = Range{from, from + 1}
		case testDown:
			o.Class = uint8(number("class", 0, 1))
			o.Pieces, o.Time = int32(number("pieces", 1, 3)), Time(number("piece", 1, 50))
			switch number("how", 0, 3) {
			case 0:
				o.Claims = testLanes + 1
				if flag("all") {
					o.Flags = ClaimAll
				}
			case 1:
				d := b.op(o, after...)
				return b.op(Op{Pieces: o.Pieces, Time: o.Time, Last: o.Last, Resource: writer, Claims: testLanes + 1, Lane: o.Lane, Flags: Stream, Kind: 8}, d)
			}
		}
		return b.op(o, after...)
	}
	for s := range number("sub-batches", 1, 2) {
		b.op(Op{Last: Time(number("entry", 1, 50)), Resource: testGPU, Flags: NextLayer})
		entry := b.since(len(it.Ops) - 1)
		layer := func() Range {
			from := len(it.Ops)
			var ops []int32
			for n := range number("operations", 0, 6) {
				ops = append(ops, draw(n, ops))
			}
			last := b.op(Op{Last: Time(number("block", 1, 100)), Resource: testGPU, Flags: NextLayer}, ops...)
			if len(used) == 5 && flag("background") {
				b.op(Op{Last: Time(number("background", 1, 100)), Resource: testDown, Claims: testLanes + 1, Class: 1, Flags: rapid.SampledFrom([]uint8{OnStart, 0}).Draw(t, "after")}, last)
			}
			return b.since(from)
		}
		kinds := make([]Range, number("kinds", 1, 3))
		for i := range kinds {
			kinds[i] = layer()
		}
		order := append([]Layers{{entry, 1}}, drawOrder(t, kinds, number("layers", 1, 100))...)
		it.Sub[s] = subBatch(Time(number("exit", 1, 100)), order...)
	}
	return r, it
}

// drawOrder draws the order of so many layers of some kinds: in runs, in cycles (the last may be cut short), or at random.
func drawOrder(t *rapid.T, kinds []Range, layers int) (order []Layers) {
	kind, left := rapid.SampledFrom(kinds), int32(layers)
	add := func(r Range, count int32) {
		if count = min(count, left); count > 0 {
			order, left = append(order, Layers{r, count}), left-count
		}
	}
	switch rapid.SampledFrom([]string{"runs", "turns", "turns", "none"}).Draw(t, "order") {
	case "runs":
		for left > 0 {
			add(kind.Draw(t, "kind"), rapid.Int32Range(1, left).Draw(t, "run"))
		}
	case "turns":
		turn := make([]Layers, rapid.IntRange(1, 5).Draw(t, "kinds in turn"))
		for i := range turn {
			turn[i] = Layers{kind.Draw(t, "kind"), rapid.Int32Range(1, 3).Draw(t, "layers in turn")}
		}
		for i := 0; left > 0; i++ {
			add(turn[i%len(turn)].Range, turn[i%len(turn)].Count)
		}
	default:
		for left > 0 {
			add(kind.Draw(t, "kind"), 1)
		}
	}
	return order
}

// checkTotals compares an iteration's totals with the spans of all its layers.
func checkTotals(t *rapid.T, it *Iteration, spans []Span) {
	var want Totals
	pieces := map[task]int32{}
	for i := range spans {
		x := &spans[i]
		if x.Claim {
			continue
		}
		o := &it.Ops[x.Op]
		want.ByKind[o.Kind] += x.End - x.Start
		if at := (task{x.Op, x.Layer, x.Sub}); pieces[at] == 0 {
			pieces[at] = o.Pieces
			want.Pieces += int64(o.Pieces)
			want.Bus += o.Bus
		}
		want.Longest = max(want.Longest, x.End-x.Start)
	}
	got := it.Totals()
	longest := want.Longest
	want.Longest = got.Longest
	if *got != want || got.Longest < longest {
		t.Fatalf("an iteration amounts to %+v, its spans to %+v, the longest %v", got, want, longest)
	}
}

// TestSchedulesAreLegal checks random iterations against the laws, and that skipping repeated
// layers changes nothing.
func TestSchedulesAreLegal(t *testing.T) {
	skipped := 0
	check := func(t *rapid.T) {
		resources, it := drawIteration(t)
		start := Time(rapid.IntRange(0, 1000).Draw(t, "start"))
		exact, fast := New(resources), New(resources)
		exact.Exact = true
		for range 2 { // the second run reuses memory
			want, found := exact.Check(it, start)
			if len(found) > 0 {
				t.Fatalf("running every layer: %v", found)
			}
			checkTotals(t, it, exact.Record(it, start))
			layers, waits := exact.layers, *exact.Waits()
			got, found := fast.Check(it, start)
			if leavingOut := *fast.Waits(); leavingOut != waits {
				t.Fatalf("leaving out layers waits %+v, running all layers %+v", leavingOut, waits)
			}
			if shortcut := fast.Run(it, start); got != want || shortcut != want {
				t.Fatalf("leaving out layers ends at %v, in a shortcut at %v, running all layers at %v", got, shortcut, want)
			}
			if len(found) > 0 {
				t.Fatalf("leaving out layers: %v", found)
			}
			if shortcut := *fast.Waits(); shortcut != waits {
				t.Fatalf("in a shortcut waits are %+v, running all layers %+v", shortcut, waits)
			}
			skipped += layers - fast.layers
		}
	}
	deep.Until(t, func() bool { return skipped > 0 }, check)
	deep.Seeds(t, 150, check)
}

// TestRunsAllocateNothing checks that an engine reuses its memory.
func TestRunsAllocateNothing(t *testing.T) {
	e, it := New(handResources()), handIteration()
	e.Run(it, 0)
	if n := testing.AllocsPerRun(100, func() { e.Run(it, 0) }); n > 0 {
		t.Errorf("a run allocates %v times", n)
	}
}
