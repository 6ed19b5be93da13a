package system

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"math"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestUnevenHeads: where heads do not divide over the channels a rankset takes as long as the channel with the most
// clocks, counted head by head; the choice of pages comes with each head that chooses and with no other.
func TestUnevenHeads(t *testing.T) {
	n := nodeOf(t, "policy.name=lserve", "policy.lserve.budget=128", "policy.lserve.page=32", "policy.lserve.static_sparsity=0.6", "policy.lserve.stream_device=home",
		"policy.lserve.select_device=bank", "model.layers=1")
	rapid.Check(t, func(t *rapid.T) {
		e := l3Of(n)
		d := e.ranks
		d.fixed = rapid.Bool().Draw(t, "fixed")
		sub := scheduler.SubBatch{}
		for i := range rapid.IntRange(1, 9).Draw(t, "requests") {
			context := rapid.SampledFrom([]int64{2, 40, 300, 1200, 2001, 2400, 4000}).Draw(t, "context") // each fourth chooses
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(i % 2), Base: context, Prompt: 1})
		}
		c := &e.costs
		e.fill(c, &scheduler.Batch{Sub: []scheduler.SubBatch{sub, {}}})
		for offset := range int32(2) {
			clocks, heads := make([]int64, d.channels), make([]int64, d.channels)
			for i, r := range sub.Decode {
				if r.Offset != offset {
					continue
				}
				x := d.decode(sub.Decode, 0, 0)
				chooses, _ := d.chooses(x, i)
				channel := d.begins(r.Request)
				for k := range x.Attend {
					head, _ := d.headClocks(&x.Attend[k], i)
					for range x.Attend[k].Heads {
						clocks[channel] += head
						if k == 0 { // 38 of 96 heads choose
							clocks[channel] += chooses
						}
						heads[channel]++
						channel = (channel + 1) % d.channels
					}
				}
			}
			busiest := slices.Max(clocks)
			g := &c.sub[0].groups[offset]
			if over := g.clocks + g.drain - busiest; over < 0 || over > 400 || busiest == 0 && over > 0 { // the first head's start
				t.Fatalf("offset %d: %d clocks, of channels %v", offset, g.clocks+g.drain, clocks)
			}
			if g.requests > 0 && g.vectors.all != int64(96*g.requests) {
				t.Fatalf("offset %d: vectors of %d heads for %d requests", offset, g.vectors.all, g.requests)
			}
		}
	})
}

// TestHeadsOfTheirOwn: a rankset takes as long as the rank with the most clocks of heads, whose
// blocks begin one channel further with every request; each layer has its own shares, and a run
// with all checks is the same with shortcuts.
func TestHeadsOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.3, 0.9}), 16, 16).Draw(t, "shares")
		cfg, err := Load(configs.Options{Sets: profiled(t, dir, 8, shares)})
		if err != nil {
			t.Fatal(err)
		}
		n := mustNode(t, cfg)
		e := l3Of(n)
		d := e.ranks
		sub := &scheduler.SubBatch{}
		for i := range rapid.IntRange(1, 9).Draw(t, "requests") {
			context := rapid.Int64Range(2, 4000).Draw(t, "context")
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(i % 2), Base: context, Prompt: 1})
		}
		c := &e.costs
		e.fill(c, &scheduler.Batch{Sub: []scheduler.SubBatch{*sub, {}}})
		for run := range 2 {
			_, subs := c.run(run)
			x := d.decode(sub.Decode, run, 0)
			home := x.Attend[len(x.Attend)-1]
			for offset := range 2 {
				var clocks [4]int64
				for i := offset; i < len(sub.Decode); i += 2 {
					for h := range 8 {
						clocks[d.channelOf(int32(i), h)] += d.sequence.at(home.PerHead[i*8+h])
					}
				}
				busiest := max(clocks[0], clocks[1], clocks[2], clocks[3])
				g := &subs[0].groups[offset]
				if over := g.clocks + g.drain - busiest; over < 0 || busiest > 0 && over > 200 || busiest == 0 && g.clocks+g.drain != 0 { // the first head's start
					t.Fatalf("layer %d, offset %d: %d clocks, of channels %v", run, offset, g.clocks+g.drain, clocks)
				}
				if mean := d.clock.Time((clocks[0] + clocks[1] + clocks[2] + clocks[3]) / 4); g.idle < 0 || g.compute-g.idle > mean+d.clock.Time(210) {
					t.Fatalf("layer %d, offset %d: %v of %v idle, the mean rank takes %v", run, offset, g.idle, g.compute, mean)
				}
			}
		}
		var m imbalance
		c.imbalance(&m)
		var busiest, mean units.Duration
		for run := range 2 {
			_, subs := c.run(run)
			a, b := &subs[0].groups[0], &subs[0].groups[1]
			busiest += max(a.compute, b.compute)
			mean += a.compute - a.idle + b.compute - b.idle
		}
		if want := float64(busiest) * 2 / float64(mean); mean > 0 && math.Abs(m.ratio(2)/want-1) > 1e-9 {
			t.Fatalf("imbalance %v, want %v", m.ratio(2), want)
		}
		// Any rank may have the longest heads: two a channel, copies of 20,000 tokens less the window.
		ledger := rankLedger(n.hw, true)
		each := int64(math.Ceil(math.Ceil(slices.Max(shares)*19920)/512)) + 39
		ledger.Reserve(memory.Length{Prompt: 20_000, Tokens: 20_000}, nil, 0, nil)
		if got := ledger.Used(); got != 2*2*each {
			t.Fatalf("a request of 20,000 tokens takes %d units, want %d", got, 2*2*each)
		}
		trace := &traces.Trace{Requests: equal(3, rapid.IntRange(1, 900).Draw(t, "in"), rapid.IntRange(1, 90).Draw(t, "out"))}
		if got, want := requestsOf(t, mustRun(t, n, trace, false)), requestsOf(t, mustRun(t, n, trace, true)); got != want {
			t.Fatalf("got\n%s\nlayer by layer\n%s", got, want)
		}
	})
}
