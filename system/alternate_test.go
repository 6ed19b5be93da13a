package system

import (
	"testing"

	"github.com/l3sim/l3sim/sim"
	"pgregory.net/rapid"
)

// TestAlternation checks an iteration by hand: two layers, attention on the device
// for 10 and 6 ns, blocks of 5 and 4 ns.
func TestAlternation(t *testing.T) {
	a := alternation{layers: 2, exact: true, check: newChecker(1)}
	a.stages[0] = stage{active: true, entry: 3 * ns, block: 5 * ns, exit: 7 * ns, device: 10 * ns}
	a.stages[1] = stage{active: true, entry: 2 * ns, block: 4 * ns, exit: 6 * ns, device: 6 * ns}
	// GPU: entry 0 to 3, entry 1 to 5. Device: 0 from 3 to 13, 1 from 13 to 19.
	// GPU: block 0 from 13 to 18, block 1 from 19 to 23. Device: 0 from 19 to 29, 1 from 29 to 35.
	// GPU: exit 0 from 29 to 36, exit 1 from 36 to 42.
	if got := a.run(100 * ns); got != 142*ns {
		t.Errorf("ends at %v, want 142ns", got)
	}
	if a.work.gpu != 27*ns || a.work.pim != 32*ns || a.work.tasks != 10 || a.work.events != 6 {
		t.Errorf("work %+v", a.work)
	}
	if a.check.violation != nil {
		t.Error(a.check.violation)
	}
}

// TestAlternationIsThePipeline checks that it takes exactly the time of L3's
// pipeline on one rankset with transfers that take none, and that skipping layers
// changes nothing.
func TestAlternationIsThePipeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		time := func(name string, low int) sim.Time { return sim.Time(rapid.IntRange(low, 20).Draw(t, name)) }
		layers := rapid.IntRange(1, 60).Draw(t, "layers")
		start := time("start", 0)
		c := newIterationCosts(2, 1)
		c.layers, c.concurrent, c.asyncPrefill = layers, true, true
		c.clock = newRankClock(1, 1, 1)
		fast := alternation{layers: layers}
		for s := range rapid.IntRange(1, 2).Draw(t, "sub-batches") {
			g := stage{
				active: true, entry: time("entry", 1), attention: time("attention", 0), block: time("block", 1),
				exit: time("exit", 1), device: time("device", 0),
			}
			fast.stages[s] = g
			c.sub[s].active, c.sub[s].entry, c.sub[s].prefillAttention = true, g.entry, g.attention
			c.sub[s].block, c.sub[s].exit = g.block, g.exit
			if g.device > 0 {
				c.sub[s].groups[0] = groupCost{requests: 1, compute: g.device, decode: shipment{pieces: 1}}
			}
		}
		slow := fast
		slow.exact, fast.check, slow.check = true, newChecker(1), newChecker(1)
		got, want := fast.run(start), newPipeline(1, true).run(&c, start)
		if every := slow.run(start); got != want || every != want {
			t.Fatalf("%d layers of %+v: %v, every layer %v, the pipeline %v", layers, fast.stages, got, every, want)
		}
		if fast.check.violation != nil || fast.work.gpu != slow.work.gpu || fast.work.events > slow.work.events {
			t.Fatalf("%v; work %+v, every layer %+v", fast.check.violation, fast.work, slow.work)
		}
	})
}

// TestAlternationSkips checks that an iteration of many layers takes few steps.
func TestAlternationSkips(t *testing.T) {
	a := alternation{layers: 96}
	for s, device := range []sim.Time{70, 90} {
		a.stages[s] = stage{active: true, entry: 30, block: 50, exit: 60, device: device}
	}
	a.run(0)
	if a.work.events > 20 {
		t.Errorf("%d steps for 96 layers", a.work.events)
	}
}

func BenchmarkAlternation(b *testing.B) {
	b.ReportAllocs()
	a := alternation{layers: 96}
	for s, device := range []sim.Time{70, 90} {
		a.stages[s] = stage{active: true, entry: 30, block: 50, exit: 60, device: device}
	}
	var now sim.Time
	for b.Loop() {
		now = a.run(now)
	}
}
