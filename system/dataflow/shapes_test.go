package dataflow

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestAlone compares the pass over a single sub-batch with a closed form: layers in sequence, each
// as long as the longer of its attention on a GPU and on its device, plus its block; and a transfer
// that only the iteration's end waits for.
func TestAlone(t *testing.T) {
	check := func(t *rapid.T) {
		time := func(name string, low int) Time { return Time(rapid.IntRange(low, 50).Draw(t, name)) }
		start, entry, attention, device, block, exit := time("start", 0), time("entry", 0), time("attention", 1), time("device", 1), time("block", 0), time("exit", 0)
		latency, layers, hidden := time("latency", 0), 1+time("layers", 0), 50*time("hidden", 0)
		e, it := New([]Resource{{Name: "GPU"}, {Name: "device", Latency: latency}, {Name: "link"}}), &Iteration{}
		b, s := builder{it}, rapid.IntRange(0, 1).Draw(t, "sub-batch")
		b.op(Op{Last: entry, Flags: NextLayer})
		b.op(Op{Last: hidden, Resource: 2})
		before, first := b.since(0), len(it.Ops)
		a, d := b.op(Op{Last: attention}), b.op(Op{Last: device, Resource: 1})
		b.op(Op{Last: block, Flags: NextLayer}, a, d)
		b.layers(s, int(layers), before, b.since(first), exit)
		want := max(start+hidden, start+entry+layers*max(attention, latency+device)+(layers-1)*block+exit)
		e.readyWaits(it, start)
		if got, ok := e.alone.run(e, it, start); !ok || got != want {
			t.Fatalf("ends at %v (%v), want %v", got, ok, want)
		}
		// Work that outlives its layer, or uses a resource out of order, is left to the events.
		it.Ops[d].Last, it.Ops[d].Resource, it.Ops[a].Resource = device, 0, 0
		if _, ok := e.alone.run(e, it, start); ok {
			t.Fatal("two operations that are ready at once on one resource are no one's order")
		}
	}
	rapid.Check(t, check)
	deep.Seeds(t, 30, check)
}

// TestAloneInTurn: alternating layers of two kinds, each passed over once, take as long as their operations. Work that outlives the first or
// the last layer may end the iteration. If work outlives another layer, or a kind may find its resources busy, the pass gives up.
func TestAloneInTurn(t *testing.T) {
	const turns = 1 + 10*(30+5) + 10*(7+5)
	for name, c := range map[string]struct {
		hidden    Time // after the first layer
		with      []int
		results   Time // of layers with results; their attention takes 30
		beside    Time // of all layers, this long after attention
		exit, end Time
		passes    int32
		givesUp   bool
	}{
		"in turn":                              {exit: 5, end: turns, passes: 3},
		"beside an exit":                       {beside: 4, exit: 1, end: turns - 5 + 4, passes: 3},
		"hidden":                               {hidden: 9, exit: 5, end: turns, passes: 3},
		"hidden to the end":                    {hidden: 999, exit: 5, end: 999, passes: 3},
		"results within layers":                {with: []int{5, 7, 9}, results: 35, exit: 5, end: turns, passes: 4},
		"results of layers of a kind":          {with: []int{5, 9}, results: 40, exit: 5, end: turns, givesUp: true},
		"results of one layer":                 {with: []int{5}, results: 80, exit: 5, end: turns, givesUp: true},
		"results of one layer to the end":      {with: []int{5}, results: 2000, exit: 5, end: 1 + 35 + 12 + 35 + 12 + 2000, givesUp: true},
		"results of the last layer":            {with: []int{20}, results: 80, exit: 5, end: turns - 12 + 80, passes: 4},
		"results after what is hidden":         {hidden: 40, with: []int{20}, results: 36, exit: 5, end: turns - 12 + 36, passes: 4},
		"results long after what is hidden":    {hidden: 400, with: []int{20}, results: 36, exit: 5, end: turns - 12 + 36, givesUp: true},
		"results that wait for what is hidden": {hidden: 470, with: []int{20}, results: 30, exit: 5, end: 500, givesUp: true},
	} {
		it := &Iteration{}
		b := builder{it}
		b.op(Op{Last: 1, Resource: testGPU, Flags: NextLayer})
		if c.hidden > 0 {
			b.op(Op{Last: c.hidden, Resource: testUp})
		}
		layers := []Layers{{b.since(0), 1}}
		layer := func(attention, results Time) Range {
			from := len(it.Ops)
			if results > 0 {
				b.op(Op{Last: results, Resource: testUp})
			}
			if c.beside > 0 {
				b.op(Op{Last: attention + c.beside, Resource: testDown})
			}
			b.op(Op{Last: 5, Resource: testGPU, Flags: NextLayer}, b.op(Op{Last: attention, Resource: testLanes}))
			return b.since(from)
		}
		kinds := []Range{layer(30, 0), layer(7, 0)}
		for range 10 {
			layers = append(layers, Layers{kinds[0], 1}, Layers{kinds[1], 1})
		}
		if len(c.with) > 0 {
			with := layer(30, c.results)
			for _, i := range c.with {
				layers[i].Range = with
			}
		}
		it.Sub[0] = subBatch(c.exit, layers...)
		e := New([]Resource{testLanes: {Device: true, Discipline: Lanes, Count: 1}, testDown: {Reason: testDown}, testUp: {Reason: testUp}, testGPU: {Reason: testGPU}})
		end, ok := e.alone.run(e, it, 0)
		waits, passes := e.waits, e.alone.pass
		if ok == c.givesUp || ok && (end != c.end || passes != c.passes) {
			t.Errorf("%s: ends at %v (%v) in %d passes, want %v (%v) in %d", name, end, ok, passes, c.end, !c.givesUp, c.passes)
		}
		e.noShortcut, e.Exact = true, true
		if exact := e.Run(it, 0); exact != c.end || ok && waits != e.waits {
			t.Errorf("%s: ends at %v layer by layer, want %v; waits %+v, %+v", name, exact, c.end, waits, e.waits)
		}
	}
}

// drawLockstep draws an iteration that runs in lockstep, and the resources for it.
func drawLockstep(t *rapid.T) ([]Resource, *Iteration) {
	r := drawLanes(t)
	return r, drawWaves(t, r)
}

// drawLanes draws resources for iterations that run in lockstep.
func drawLanes(t *rapid.T) []Resource {
	time := func(name string, low, high int) Time { return Time(rapid.IntRange(low, high).Draw(t, name)) }
	r := handResources()
	lanes := &r[testLanes]
	lanes.Count, lanes.Rotates = int(time("lanes", 1, 6)), rapid.Bool().Draw(t, "rotates")
	lanes.Vacate, lanes.Reactivate = time("vacate", 0, 100), time("reactivate", 0, 100)
	lanes.Boundaries = Boundaries{Clock: NewClock(1, rapid.Int64Range(10, 20).Draw(t, "tREFI"), 10), Each: 2, Step: rapid.Int64Range(0, rapid.SampledFrom([]int64{20, 400}).Draw(t, "longest step")).Draw(t, "step")}
	r[testDown].Latency, r[testUp].Latency = time("latency", 0, 30), time("latency up", 0, 40)
	return r
}

// drawWaves draws an iteration that runs in lockstep: transfers to lanes, work there and results, in one or two sub-batches.
func drawWaves(t *rapid.T, r []Resource) *Iteration {
	time := func(name string, low, high int) Time { return Time(rapid.IntRange(low, high).Draw(t, name)) }
	lanes := &r[testLanes]
	// If links are as busy as the lanes, or more, the operations that wait for them shape the
	// schedule.
	link := rapid.SampledFrom([]int{20, 20, 200, 1000}).Draw(t, "longest transfer")
	// In long heads most transfers interrupt at any boundary.
	head := rapid.SampledFrom([]int64{60, 60, 600}).Draw(t, "longest head")
	it := &Iteration{}
	b := builder{it}
	layer := func() Range {
		first := len(it.Ops)
		var waits []int32
		always := rapid.IntRange(0, lanes.Count-1).Draw(t, "lane that works")
		for lane := range lanes.Count {
			if lane != always && rapid.Bool().Draw(t, "idle") {
				continue
			}
			d := b.op(Op{Last: time("down", 1, link), Resource: testDown, Claims: testLanes + 1, Lane: int16(lane)})
			it.Ops[d].Open, it.Ops[d].Close = time("open", 0, 100), time("close", 0, 100)
			from := int32(len(it.Parts))
			it.Parts = append(it.Parts, rapid.Int64Range(1, head).Draw(t, "head"))
			a := b.op(Op{Last: lanes.Boundaries.Clock.Time(2*it.Parts[from]) + time("more", 0, 5), Resource: testLanes, Lane: int16(lane), Parts: Range{from, from + 1}}, d)
			waits = append(waits, b.op(Op{Last: time("up", 1, link), Resource: testUp}, a))
		}
		if rapid.Bool().Draw(t, "beside") {
			waits = append(waits, b.op(Op{Last: time("beside the lanes", 1, 400), Resource: testGPU}))
		}
		b.op(Op{Last: time("block", 1, 300), Resource: testGPU, Flags: NextLayer}, waits...)
		return b.since(first)
	}
	layers := rapid.IntRange(1, rapid.SampledFrom([]int{60, 60, 150}).Draw(t, "most layers")).Draw(t, "layers")
	for s := range rapid.IntRange(1, 2).Draw(t, "sub-batches") {
		b.op(Op{Last: time("entry", 1, 200), Resource: testGPU, Flags: NextLayer})
		entry := b.since(len(it.Ops) - 1)
		kinds := make([]Range, rapid.IntRange(1, 3).Draw(t, "kinds"))
		for i := range kinds {
			if kinds[i] = layer(); rapid.Bool().Draw(t, "nearly as the first") {
				kinds[i] = b.nearly(t, kinds[0])
			}
		}
		order := append([]Layers{{entry, 1}}, drawOrder(t, kinds, layers)...)
		it.Sub[s] = subBatch(time("exit", 1, 300), order...)
	}
	return it
}

// nearly adds the operations of a layer with one time changed.
func (b builder) nearly(t *rapid.T, layer Range) Range {
	first := int32(len(b.Ops))
	changed := rapid.Int32Range(layer.From, layer.To-1).Draw(t, "changed operation")
	for i := layer.From; i < layer.To; i++ {
		o := b.Ops[i]
		var after []int32
		for _, j := range b.After[o.After.From:o.After.To] {
			after = append(after, j-layer.From+first)
		}
		if i == changed {
			o.Last += Time(rapid.IntRange(0, 3).Draw(t, "longer by"))
			if o.Parts.From < o.Parts.To && rapid.Bool().Draw(t, "in other parts") {
				from := int32(len(b.Parts))
				b.Parts = append(b.Parts, max(1, b.Parts[o.Parts.From]-1), 1)
				o.Parts = Range{from, from + 2}
			}
		}
		j := b.op(o, after...)
		b.Ops[j].Open, b.Ops[j].Close = o.Open, o.Close
	}
	return b.since(int(first))
}

// TestLockstep checks the recurrence against the events, to the picosecond.
func TestLockstep(t *testing.T) {
	skipped := int64(0)
	check := func(t *rapid.T) {
		resources, it := drawLockstep(t)
		e, start := New(resources), Time(rapid.IntRange(0, 1000).Draw(t, "start"))
		if rapid.Bool().Draw(t, "on used memory") {
			e.Run(drawWaves(t, resources), start)
		}
		if !e.lockstep.fits(e, it) {
			t.Fatal("the iteration has the shape of none that runs in lockstep")
		}
		got, waits := e.Run(it, start), *e.Waits()
		if one := &it.Sub[0]; int64(one.total()-1) > e.lockstep.layers && len(one.Order) > 2 {
			skipped++
		}
		e.noShortcut = true
		events, byEvents := e.Run(it, start), *e.Waits()
		e.Exact = true
		if exact := e.Run(it, start); got != exact || events != exact {
			t.Fatalf("in lockstep the iteration ends at %v, by events at %v, layer by layer at %v", got, events, exact)
		}
		if exact := *e.Waits(); waits != exact || byEvents != exact {
			t.Fatalf("in lockstep waits are\n%+v, by events\n%+v, layer by layer\n%+v", waits, byEvents, exact)
		}
		if two := &it.Sub[1]; len(two.Order) > 0 {
			two.more(1)
			if e.lockstep.fits(e, it) {
				t.Fatal("sub-batches of unlike numbers of layers run in lockstep")
			}
			two.more(-1)
		}
		// Other times of the same operations, some 0; the iteration may no longer be in lockstep.
		retime(t, it)
		e.noShortcut, e.Exact = false, false
		got, waits = e.Run(it, start), *e.Waits()
		e.noShortcut, e.Exact = true, true
		if exact := e.Run(it, start); got != exact || waits != *e.Waits() {
			t.Fatalf("with other times the iteration ends at %v, layer by layer at %v; waits %+v and %+v", got, exact, waits, *e.Waits())
		}
	}
	deep.Until(t, func() bool { return skipped > 0 }, check)
	deep.Seeds(t, 400, check)
}

// TestLockstepSkips counts the layers that run of two sub-batches of 120 layers each, with kinds in some order: few if the orders repeat, even
// for part of the layers.
func TestLockstepSkips(t *testing.T) {
	for _, c := range []struct {
		name         string
		order, other string // of both sub-batches; a letter for each kind; an order repeats
		want         int64
	}{
		{"one kind", "A", "A", 8},
		{"in turn", "AB", "AB", 12},
		{"a turn that does not divide the layers", "AAAAAAB", "AAAAAAB", 32},
		{"one layer of its own", "C" + strings.Repeat("AB", 60), "AB", 10},
		{"in turn, then one kind", strings.Repeat("AB", 40) + strings.Repeat("A", 40), "A", 14},
		{"long runs", strings.Repeat("A", 50) + strings.Repeat("B", 70), "A", 12},
		{"long runs of the other", "A", strings.Repeat("A", 50) + strings.Repeat("B", 70), 22},
		{"short runs in a long turn", "AAAAABBBBBCCCC", "A", 34},
		{"no order that is found", "AAAAAAAABBBBBBBBB", "A", 240},
	} {
		it := &Iteration{}
		b := builder{it}
		for s := range it.Sub {
			b.op(Op{Last: 10, Resource: testGPU, Flags: NextLayer})
			layers, kinds := []Layers{{b.since(len(it.Ops) - 1), 1}}, map[byte]Range{}
			for i, compute := range []Time{40, 60, 80} {
				from := len(it.Ops)
				b.op(Op{Last: 20, Resource: testGPU, Flags: NextLayer}, b.group(0, compute))
				kinds["ABC"[i]] = b.since(from)
			}
			for i := range 120 {
				order := []string{c.order, c.other}[s]
				layers = append(layers, Layers{kinds[order[i%len(order)]], 1})
			}
			it.Sub[s] = subBatch(15, layers...)
		}
		e := New(handResources())
		got := e.Run(it, 0)
		if e.lockstep.layers != c.want {
			t.Errorf("%s: %d layers are run, want %d", c.name, e.lockstep.layers, c.want)
		}
		if e.Exact = true; e.Run(it, 0) != got {
			t.Errorf("%s: the iteration ends at %v, layer by layer at %v", c.name, got, e.end)
		}
	}
}

// retime draws other times for the operations of an iteration.
func retime(t *rapid.T, it *Iteration) {
	least := rapid.SampledFrom([]int{0, 1, 1, 1}).Draw(t, "least")
	time := func() Time { return Time(rapid.IntRange(least, 200).Draw(t, "other time")) }
	for i := range it.Parts {
		it.Parts[i] = rapid.Int64Range(1, 60).Draw(t, "other head")
	}
	for i := range it.Ops {
		o := &it.Ops[i]
		o.Last = time()
		if o.Resource == testDown {
			o.Open, o.Close = time(), time()
			o.Pieces = rapid.SampledFrom([]int32{1, 1, 1, 1, 1, 1, 1, 1, 1, 3}).Draw(t, "pieces")
			o.Time = time()
		}
	}
	for s := range it.Sub {
		it.Sub[s].Exit = time()
	}
}

// TestAlike changes one part of a state of four rotating lanes at a time: the start of layer 5 at 1000, with links of 10 ps latency,
// the other sub-batch on lanes that end from 1100 on. Times before a bound count as the bound.
func TestAlike(t *testing.T) {
	l := &lockstep{shape: shape{latency: 10, resultsAt: 30}}
	kind, another := &waveCost{}, &waveCost{}
	state := func() *waveState {
		return &waveState{at: 1000, linkFree: 1020, upFree: 1140, gpuFree: 1050, sent: 900, layer: 5, first: 1, cost: kind, freeAt: []Time{1011, 1012, 1013, 1014},
			other: subWave{layer: 4, cost: kind, attention: true, at: 1400, beside: 1050, due: []Time{1100, 800, 1300, 1400}}}
	}
	later := state() // by 500 and one layer
	later.at, later.linkFree, later.upFree, later.gpuFree, later.sent, later.layer, later.first = 1500, 1520, 1640, 1550, 1400, 6, 2
	later.freeAt, later.other.layer, later.other.at, later.other.beside, later.other.due = []Time{1514, 1511, 1512, 1513}, 5, 1900, 1550, []Time{1600, 1300, 1800, 1900}
	for _, x := range []struct {
		name string
		set  func(w *waveState)
		want bool
	}{
		{"nothing", func(*waveState) {}, true},
		{"link", func(w *waveState) { w.linkFree++ }, false},
		{"results' link", func(w *waveState) { w.upFree++ }, false},
		{"GPU", func(w *waveState) { w.gpuFree++ }, false},
		{"beside", func(w *waveState) { w.other.beside++ }, false},
		{"a lane", func(w *waveState) { w.freeAt[2]++ }, false},
		{"turned lanes", func(w *waveState) { w.first = 2 }, false},
		{"an end", func(w *waveState) { w.other.due[2]++ }, false},
		{"an end to come", func(w *waveState) { w.other.due[1] = 950 }, false},
		{"another end that is over", func(w *waveState) { w.other.due[1] = 900 }, true},
		{"an end over", func(w *waveState) { w.other.due[0] = 850 }, false},
		{"the kind", func(w *waveState) { w.cost = another }, false},
		{"the other's kind", func(w *waveState) { w.other.cost = another }, false},
		{"the other's layer", func(w *waveState) { w.other.layer++ }, false},
		{"the other's attention", func(w *waveState) { w.other.attention = false }, false},
		{"waiting", func(w *waveState) { w.other.waits = true }, false},
		{"for its own", func(w *waveState) { w.other.own = true }, false},
	} {
		w := state()
		x.set(w)
		if got := l.alike(w, later); got != x.want {
			t.Errorf("%s: alike %v, want %v", x.name, got, x.want)
		}
	}
	// Links, lanes and the GPU are free at any time below their bounds.
	for _, w := range []*waveState{later, state()} {
		w.linkFree, w.gpuFree, w.other.beside = w.at+Time(w.layer), w.at-Time(w.layer), w.at-7
		for i := range w.freeAt {
			w.freeAt[i] = w.at + Time(i)
		}
		w.upFree = w.at + 30 - Time(w.layer)
		if w != later && !l.alike(w, later) {
			t.Error("states that differ below their bounds are not alike")
		}
	}
}

// BenchmarkRun runs an iteration of each shape by each method: two sub-batches that decode on four
// lanes, two that alternate on a GPU and a device, and one alone.
func BenchmarkRun(b *testing.B) {
	for _, shape := range []struct {
		name      string
		resources []Resource
		fill      func(b builder, s int)
		batches   int
	}{
		{"lanes", handResources(), func(b builder, s int) {
			b.op(Op{Last: 20, Resource: testGPU, Flags: NextLayer}, b.group(0, Time(400+s)), b.group(1, 600))
		}, 2},
		{"turns", handResources(), func(b builder, s int) {
			d := b.op(Op{Last: Time(70 + 20*s), Resource: testDevice})
			b.op(Op{Last: 50, Resource: testGPU, Flags: NextLayer}, d)
		}, 2},
		{"alone", handResources(), func(b builder, _ int) {
			d := b.op(Op{Last: 70, Resource: testGPU})
			b.op(Op{Last: 50, Resource: testGPU, Flags: NextLayer}, d)
		}, 1},
	} {
		it := &Iteration{}
		build := builder{it}
		for s := range shape.batches {
			build.op(Op{Last: 30, Resource: testGPU, Flags: NextLayer})
			entry, first := build.since(len(it.Ops)-1), len(it.Ops)
			shape.fill(build, s)
			build.layers(s, 96, entry, build.since(first), 60)
		}
		for _, way := range []string{"shortcut", "events", "exact"} {
			b.Run(shape.name+"/"+way, func(b *testing.B) {
				e := New(shape.resources)
				e.noShortcut, e.Exact = way == "events", way == "exact"
				b.ReportAllocs()
				for b.Loop() {
					e.Run(it, 0)
				}
			})
		}
	}
}

// TestLastResultsByHand: results come up 30 after a lane has ended, and those of all lanes take 50. A lane that ends at 1,000 sends its
// results at once if nothing else can be on the link up: no other lane has ended within the last 50, and the link has been free for 50.
func TestLastResultsByHand(t *testing.T) {
	for _, c := range []struct {
		name            string
		free            Time // when the link up becomes free
		due             [2][]Time
		silent          int // sub-batch that attends to nothing, -1 for none
		tells           bool
		slowest, sender int
	}{
		{"alone", 0, [2][]Time{{0, 1000, 0}, {}}, 1, true, 1, 0},
		{"of the second sub-batch", 0, [2][]Time{{0, 0, 0}, {0, 0, 1000}}, 0, true, 2, 1},
		{"beside one that works on", 0, [2][]Time{{1000, 0, 0}, {1001, 5000, 0}}, -1, true, 0, 0},
		{"50 behind another", 0, [2][]Time{{950, 0, 1000}, {0, 0, 0}}, -1, true, 2, 0},
		{"49 behind another", 0, [2][]Time{{951, 0, 1000}, {0, 0, 0}}, -1, false, 0, 0},
		{"49 behind one of the other sub-batch", 0, [2][]Time{{0, 0, 1000}, {951, 0, 0}}, -1, false, 0, 0},
		{"49 behind one that is of no layer", 0, [2][]Time{{0, 0, 1000}, {951, 0, 0}}, 1, true, 2, 0},
		{"both at once", 0, [2][]Time{{1000, 0, 1000}, {}}, 1, false, 0, 0},
		{"a way that is free just in time", 980, [2][]Time{{0, 1000, 0}, {}}, 1, true, 1, 0},
		{"a way that may not be", 981, [2][]Time{{0, 1000, 0}, {}}, 1, false, 0, 0},
	} {
		l := newLockstep(3)
		l.upAll, l.resultsAt, l.upFree = 50, 30, c.free
		for s := range l.sub {
			l.sub[s].attention, l.sub[s].cost = s != c.silent, &l.costs[s].kinds[0]
			copy(l.sub[s].due, c.due[s])
			for i := range l.sub[s].cost.lanes {
				l.sub[s].cost.lanes[i].up = Time(100*s + 10*i) // only the sender's counts
			}
		}
		if got := l.sendLast(1000); got != c.tells {
			t.Errorf("%s: sent %v", c.name, got)
			continue
		}
		want, x := 1030+Time(100*c.sender+10*c.slowest), &l.sub[c.sender]
		if c.tells && (l.upFree != want || x.results != want || x.slowest != c.slowest) {
			t.Errorf("%s: up at %d, results of offset %d at %d, by hand %d", c.name, l.upFree, x.slowest, x.results, want)
		}
		if !c.tells && (l.upFree != c.free || x.results != 0) {
			t.Errorf("%s: something is sent", c.name)
		}
	}
}

// TestShapesOutOfStep changes one thing at a time in two sub-batches of three layers that run in lockstep. If they leave lockstep, they end
// as layer by layer.
func TestShapesOutOfStep(t *testing.T) {
	const entry, down, work, up, beside, block = 0, 1, 2, 3, 4, 5 // operations of the first sub-batch
	for _, c := range []struct {
		name   string
		change func(r []Resource, it *Iteration)
		fits   bool
	}{
		{"nothing", func([]Resource, *Iteration) {}, true},
		{"latency of the links", func(r []Resource, it *Iteration) { r[testDown].Latency, r[testUp].Latency = 7, 9 }, true},
		{"latency of the GPU", func(r []Resource, it *Iteration) { r[testGPU].Latency = 7 }, false},
		{"latency of the lanes", func(r []Resource, it *Iteration) { r[testLanes].Latency = 7 }, false},
		{"other times", func(_ []Resource, it *Iteration) { it.Ops[work].Last, it.Ops[up].Last = 61, 3 }, true},
		{"two entries", func(_ []Resource, it *Iteration) { it.Sub[0].Kinds[0].Count, it.Sub[0].Order[0].Count = 2, 2 }, false},
		{"one more layer", func(_ []Resource, it *Iteration) { it.Sub[1].more(1) }, false},
		{"one more layer of both", func(_ []Resource, it *Iteration) { it.Sub[0].more(1); it.Sub[1].more(1) }, true},
		{"one sub-batch", func(_ []Resource, it *Iteration) { it.Sub[1] = SubBatch{} }, true},
		{"an entry in no time", func(_ []Resource, it *Iteration) { it.Ops[entry].Last = 0 }, false},
		{"an exit in no time", func(_ []Resource, it *Iteration) { it.Sub[0].Exit = 0 }, false},
		{"a lane in no time", func(_ []Resource, it *Iteration) { it.Ops[work].Last = 0 }, false},
		{"results in no time", func(_ []Resource, it *Iteration) { it.Ops[up].Last = 0 }, false},
		{"a block in no time", func(_ []Resource, it *Iteration) { it.Ops[block].Last = 0 }, false},
		{"beside it in no time", func(_ []Resource, it *Iteration) { it.Ops[beside].Last = 0 }, false},
		{"a transfer in no time", func(_ []Resource, it *Iteration) { it.Ops[down].Last = 0 }, true},
		{"a transfer in two pieces", func(_ []Resource, it *Iteration) { it.Ops[down].Pieces = 2 }, false},
		{"an entry on a link", func(_ []Resource, it *Iteration) { it.Ops[entry].Resource = testUp }, false},
		{"results on the GPU", func(_ []Resource, it *Iteration) { it.Ops[up].Resource = testGPU }, false},
	} {
		r, it := handResources(), &Iteration{}
		b := builder{it}
		for s := range it.Sub {
			b.op(Op{Last: 10, Resource: testGPU, Flags: NextLayer})
			before, from := b.since(len(it.Ops)-1), len(it.Ops)
			b.op(Op{Last: 20, Resource: testGPU, Flags: NextLayer}, b.group(0, 60), b.op(Op{Last: 12, Resource: testGPU}))
			b.layers(s, 3, before, b.since(from), 15)
		}
		c.change(r, it)
		e := New(r)
		if fits := e.lockstep.fits(e, it); fits != c.fits {
			t.Errorf("%s: runs in lockstep %v", c.name, fits)
		}
		got, waits := e.Run(it, 0), *e.Waits()
		e.Exact = true
		if exact := e.Run(it, 0); got != exact || waits != *e.Waits() {
			t.Errorf("%s: ends at %v, layer by layer at %v; waits %+v and %+v", c.name, got, exact, waits, *e.Waits())
		}
	}
}

// TestSavedStates: the state that a sub-batch saves when it starts a layer, by hand, and the same state shifted to a later time and layer, for either
// sub-batch.
func TestSavedStates(t *testing.T) {
	const lanes, by = 3, 10_000
	for s := range 2 {
		l := &lockstep{shape: shape{spec: &Resource{Rotates: true}, total: 40}, freeAt: []Time{811, 812, 813}, linkFree: 901, upFree: 902, gpuFree: 903, sent: 904, waits: waveWaits{up: 1, idle: 2}}
		for i := range l.costs {
			costs := make([]laneCost, lanes)
			for lane := range costs {
				costs[lane].close, costs[lane].compute = Time(3+i), Time(40+lane)
			}
			l.costs[i].kinds, l.costs[i].runs = []waveCost{{lanes: costs}, {lanes: costs}}, []waveRun{{0, 20}, {1, 40}}
		}
		sub, other := &l.sub[s], &l.sub[1-s]
		*sub = subWave{layer: 7, cost: &l.costs[s].kinds[0], first: 1, at: 1000, due: []Time{1, 2, 3}, down: make([]Time, lanes)}
		*other = subWave{layer: 6, cost: &l.costs[1-s].kinds[0], attention: true, waits: true, own: true, at: 1500, beside: 1020, gap: gap{free: 800, until: 850}, due: []Time{1100, 700, 1300}, down: make([]Time, lanes)}
		var w waveState
		w.freeAt, w.other.due = make([]Time, lanes), make([]Time, lanes)
		if key := l.save(&w, s); key != 500+100+0+300 {
			t.Errorf("sub-batch %d: the key is %d", s, key)
		}
		want := waveState{at: 1000, linkFree: 901, upFree: 902, gpuFree: 903, sent: 904, waits: l.waits, layer: 7, first: 1, cost: sub.cost, freeAt: []Time{811, 812, 813},
			other: subWave{layer: 6, cost: other.cost, attention: true, waits: true, own: true, at: 1500, beside: 1020, gap: other.gap, due: []Time{1100, 700, 1300}}}
		if !reflect.DeepEqual(w, want) {
			t.Errorf("sub-batch %d saves\n%+v, by hand\n%+v", s, w, want)
		}
		// Layer 27 begins on lane 0, layer 7 did on lane 1: the lanes rotate by the difference.
		for i := range l.sub {
			l.sub[i] = subWave{due: make([]Time, lanes), down: make([]Time, lanes)}
		}
		l.linkFree, l.upFree, l.gpuFree, l.sent = 0, 0, 0, 0
		l.load(&w, s, 27, by)
		if sub.layer != 27 || sub.cost != &l.costs[s].kinds[1] || sub.first != 0 || sub.at != 1000+by || l.linkFree != 901+by || l.upFree != 902+by || l.gpuFree != 903+by || l.sent != 904+by || l.idle != 1000+by ||
			!slices.Equal(l.freeAt, []Time{812 + by, 813 + by, 811 + by}) {
			t.Errorf("sub-batch %d goes on as %+v of %+v", s, sub, l)
		}
		if other.layer != 26 || other.cost != &l.costs[1-s].kinds[1] || other.first != 2 || !other.attention || !other.waits || !other.own || other.at != 1500+by || other.beside != 1020+by ||
			other.gap != (gap{free: 800 + by, until: 850 + by}) || !slices.Equal(other.due, []Time{1100 + by, 700 + by, 1300 + by}) {
			t.Errorf("beside sub-batch %d the other goes on as %+v", s, other)
		}
		for lane, due := range other.due {
			if got := due - other.down[lane]; got != Time(3+1-s+40+lane) {
				t.Errorf("the transfer to lane %d ended %d before the operation", lane, got)
			}
		}
	}
}
