package system

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

const ns = units.Nanosecond

// handCosts is a node of 2 ranksets and a model of 2 layers: requests 0 and 1
// in sub-batch 0 on offsets 0 and 1, request 2 in sub-batch 1 on offset 0
// together with a prompt on offset 1.
func handCosts() *iterationCosts {
	heads := func(total, head sim.Time) []segment { return []segment{{end: total, head: head}} }
	return &iterationCosts{
		layers: 2, rotate: true, latency: 1 * ns,
		vacate: 1 * ns, open: 2 * ns, close: 3 * ns, reactivate: 4 * ns,
		sub: []subCost{
			{active: true, entry: 10 * ns, block: 20 * ns, exit: 15 * ns, groups: []groupCost{
				{requests: 1, compute: 40 * ns, down: 5 * ns, up: 2 * ns, segments: heads(40*ns, 20*ns)},
				{requests: 1, compute: 60 * ns, down: 5 * ns, up: 2 * ns, segments: heads(60*ns, 20*ns)},
			}},
			{active: true, entry: 10 * ns, prefillAttention: 6 * ns, block: 20 * ns, exit: 15 * ns, groups: []groupCost{
				{requests: 1, compute: 40 * ns, down: 5 * ns, up: 2 * ns, segments: heads(40*ns, 20*ns)},
				{prefillTokens: 16, prefill: 8 * ns},
			}},
		},
	}
}

// TestHandWorkedSchedule checks every task of one iteration against times worked
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
	spans := NewSpans(2)
	end := newPipeline(2, true, spans).run(handCosts(), 0)
	if end != 253*ns {
		t.Errorf("the iteration ends at %v, want 253ns", end)
	}
	const rank0, rank1 = resourceRank, resourceRank + 1
	want := []Span{
		{resourceGPU, 0, 0, "embedding, qkv", -1, 0, 10 * ns},
		{resourceGPU, 1, 0, "embedding, qkv", -1, 10 * ns, 20 * ns},
		{resourceGPU, 1, 0, "prefill attention", -1, 20 * ns, 26 * ns},
		{resourceGPU, 0, 0, "block", -1, 91 * ns, 111 * ns},
		{resourceGPU, 1, 0, "block", -1, 119 * ns, 139 * ns},
		{resourceGPU, 1, 1, "prefill attention", -1, 139 * ns, 145 * ns},
		{resourceGPU, 0, 1, "block", -1, 198 * ns, 213 * ns},
		{resourceGPU, 1, 1, "block", -1, 238 * ns, 253 * ns},
		{resourceDown, 0, 0, "decode q, k, v", 0, 13 * ns, 18 * ns},
		{resourceDown, 0, 0, "decode q, k, v", 1, 20 * ns, 25 * ns},
		{resourceDown, 1, 0, "decode q, k, v", 0, 44 * ns, 49 * ns},
		{resourceDown, 0, 1, "decode q, k, v", 0, 114 * ns, 119 * ns},
		{resourceDown, 0, 1, "decode q, k, v", 1, 121 * ns, 126 * ns},
		{resourceDown, 1, 0, "prefill k, v", 1, 145 * ns, 153 * ns},
		{resourceDown, 1, 1, "decode q, k, v", 0, 163 * ns, 168 * ns},
		{resourceDown, 1, 1, "prefill k, v", 1, 241 * ns, 249 * ns},
		{resourceUp, 0, 0, "attention results", 0, 77 * ns, 79 * ns},
		{resourceUp, 0, 0, "attention results", 1, 89 * ns, 91 * ns},
		{resourceUp, 1, 0, "attention results", 0, 117 * ns, 119 * ns},
		{resourceUp, 0, 1, "attention results", 1, 190 * ns, 192 * ns},
		{resourceUp, 0, 1, "attention results", 0, 196 * ns, 198 * ns},
		{resourceUp, 1, 1, "attention results", 0, 236 * ns, 238 * ns},
		{rank0, 0, 0, "decode attention", 0, 21 * ns, 41 * ns},
		{rank0, 0, 0, "decode attention", 0, 56 * ns, 76 * ns},
		{rank0, 1, 0, "decode attention", 0, 76 * ns, 116 * ns},
		{rank0, 0, 1, "decode attention", 1, 129 * ns, 189 * ns},
		{rank1, 0, 0, "decode attention", 1, 28 * ns, 88 * ns},
		{rank1, 0, 1, "decode attention", 0, 122 * ns, 142 * ns},
		{rank1, 0, 1, "decode attention", 0, 175 * ns, 195 * ns},
		{rank1, 1, 1, "decode attention", 0, 195 * ns, 235 * ns},
	}
	got := slices.Clone(spans.List)
	slices.SortStableFunc(got, func(a, b Span) int {
		if a.Resource != b.Resource {
			return a.Resource - b.Resource
		}
		return int(a.Start - b.Start)
	})
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing %+v", want[i])
		case i >= len(want):
			t.Errorf("unexpected %+v", got[i])
		case got[i] != want[i]:
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

// drawCosts draws the costs of an iteration: any of the parts may be absent.
func drawCosts(t *rapid.T, ranksets int) *iterationCosts {
	span := func(name string, low, high int) sim.Time {
		return sim.Time(rapid.IntRange(low, high).Draw(t, name))
	}
	c := &iterationCosts{
		layers: rapid.IntRange(1, 60).Draw(t, "layers"), rotate: rapid.Bool().Draw(t, "rotate"),
		latency: span("latency", 0, 30), vacate: span("vacate", 0, 5), open: span("open", 0, 5),
		close: span("close", 0, 5), reactivate: span("reactivate", 0, 5), step: span("step", 0, 20),
		sub: make([]subCost, rapid.IntRange(1, 2).Draw(t, "sub-batches")),
	}
	for s := range c.sub {
		sub := &c.sub[s]
		sub.active = true
		sub.entry, sub.block, sub.exit = span("entry", 1, 200), span("block", 1, 300), span("exit", 1, 300)
		sub.groups = make([]groupCost, ranksets)
		for o := range sub.groups {
			g := &sub.groups[o]
			if rapid.Bool().Draw(t, "decodes") {
				g.requests = 1
				head := span("head", 1, 60)
				g.compute = head * span("heads", 1, 8)
				g.segments = []segment{{end: g.compute, head: head}}
				g.down, g.up = span("down", 1, 20), span("up", 1, 20)
			}
			if rapid.Bool().Draw(t, "prefills") {
				sub.prefillAttention += span("prefill attention", 0, 100)
				g.prefillTokens, g.prefill = 16, span("prefill", 1, 200)
			}
		}
	}
	if len(c.sub) == 2 && rapid.IntRange(0, 9).Draw(t, "one is empty") == 0 {
		c.sub[rapid.IntRange(0, 1).Draw(t, "which")] = subCost{groups: make([]groupCost, ranksets)}
	}
	return c
}

// TestSkippedLayersChangeNothing checks the shortcut against the long way: the
// same end and the same work to the picosecond.
func TestSkippedLayersChangeNothing(t *testing.T) {
	skipped := 0
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 6).Draw(t, "ranksets")
		c := drawCosts(t, ranksets)
		exact, fast := newPipeline(ranksets, true, nil), newPipeline(ranksets, false, nil)
		start := sim.Time(rapid.IntRange(0, 1e6).Draw(t, "start"))
		want, got := exact.run(c, start), fast.run(c, start)
		if got != want {
			t.Fatalf("skipping layers ends at %d, running them at %d", got, want)
		}
		skipped += int(exact.work.layers - fast.work.layers)
		a, b := exact.work, fast.work
		a.events, b.events, a.layers, b.layers = 0, 0, 0, 0
		if a != b {
			t.Fatalf("skipping layers does %+v, running them %+v", b, a)
		}
	})
	if skipped == 0 {
		t.Error("no layer was ever skipped")
	}
}

// TestSchedulesAreLegal checks laws on random iterations: no resource does two
// things at once, nothing computes before its data is there, and the end lies
// between the busiest resource and the serial sum.
func TestSchedulesAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 4).Draw(t, "ranksets")
		c := drawCosts(t, ranksets)
		spans := NewSpans(ranksets)
		p := newPipeline(ranksets, true, spans)
		end := p.run(c, 0)
		checkOverlaps(t, spans.List)
		checkAttention(t, c, spans.List, ranksets)
		busiest := max(p.work.gpu, p.work.pcieDown, p.work.pcieUp, (p.work.pim+sim.Time(ranksets)-1)/sim.Time(ranksets))
		serial := p.work.gpu + p.work.pcieDown + p.work.pcieUp + p.work.pim +
			sim.Time(p.work.tasks)*(2*c.latency+c.vacate+c.open+c.close+c.reactivate+maxHead(c))
		if end < busiest || end > serial {
			t.Fatalf("the end %d is outside of [%d, %d]", end, busiest, serial)
		}
	})
}

// maxHead returns the longest wait for a boundary.
func maxHead(c *iterationCosts) sim.Time {
	var longest sim.Time
	for s := range c.sub {
		for o := range c.sub[s].groups {
			for _, seg := range c.sub[s].groups[o].segments {
				longest = max(longest, seg.head)
			}
		}
	}
	return longest
}

func checkOverlaps(t *rapid.T, spans []Span) {
	byStart := slices.Clone(spans)
	slices.SortStableFunc(byStart, func(a, b Span) int {
		if a.Resource != b.Resource {
			return a.Resource - b.Resource
		}
		if a.Start != b.Start {
			return int(a.Start - b.Start)
		}
		return int(a.End - b.End)
	})
	for i := 1; i < len(byStart); i++ {
		a, b := byStart[i-1], byStart[i]
		if a.Resource == b.Resource && b.Start < a.End {
			t.Fatalf("two tasks at once: %+v and %+v", a, b)
		}
	}
}

// checkAttention checks that every group computes in full, after its own
// transfer, on its rankset, and that no transfer reaches a computing rankset.
func checkAttention(t *rapid.T, c *iterationCosts, spans []Span, ranksets int) {
	type key struct{ sub, layer, offset int }
	received, computed := map[key]sim.Time{}, map[key]sim.Time{}
	rankOf := func(k key) int {
		if c.rotate {
			return (k.layer + k.offset) % ranksets
		}
		return k.offset
	}
	for _, s := range spans {
		if s.Resource == resourceDown && s.Name == "decode q, k, v" {
			received[key{s.Sub, s.Layer, s.Offset}] = s.End
		}
	}
	for _, s := range spans {
		k := key{s.Sub, s.Layer, s.Offset}
		if s.Resource == resourceDown {
			for _, a := range spans {
				if a.Resource == resourceRank+rankOf(k) && a.Start < s.End && s.Start < a.End {
					t.Fatalf("rankset %d computes %+v while it receives %+v", rankOf(k), a, s)
				}
			}
		}
		if s.Resource < resourceRank {
			continue
		}
		if s.Resource != resourceRank+rankOf(k) {
			t.Fatalf("%+v runs on another rankset than %d", s, rankOf(k))
		}
		if end, ok := received[k]; !ok || s.Start < end {
			t.Fatalf("%+v starts before its transfer has ended at %d", s, end)
		}
		computed[k] += s.End - s.Start
	}
	for s := range c.sub {
		for o := range c.sub[s].groups {
			for layer := range c.layers {
				if got, want := computed[key{s, layer, o}], c.sub[s].groups[o].compute; got != want {
					t.Fatalf("sub-batch %d, layer %d, offset %d computes for %d, want %d", s, layer, o, got, want)
				}
			}
		}
	}
}
