package kinds

import (
	"cmp"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

const ns = units.Nanosecond

// handCosts is a node of 2 ranksets and a model of 2 layers: requests 0 and 1 in sub-batch 0 on
// offsets 0 and 1, request 2 in sub-batch 1 on offset 0 together with a prompt on offset 1.
func handCosts() *iterationCosts {
	whole := func(t units.Duration) ranks.Shipment {
		return ranks.Shipment{Pieces: 1, Link: t, Last: t, Open: 2 * ns, Close: 3 * ns}
	}
	c := newIterationCosts(2, 2, dataflow.Run{Kind: 0, Count: 2})
	c.latency, c.upLatency = 1*ns, 1*ns
	c.rotate, c.concurrent, c.asyncPrefill = true, true, true
	c.vacate, c.reactivate = 1*ns, 4*ns
	c.clock, c.headsEach = dataflow.NewClock(ns, 1, 1), 3 // heads of 20 clocks of 1 ns
	for s := range c.sub {
		sub := &c.sub[s]
		sub.active, sub.entry, sub.block, sub.exit = true, 10*ns, 20*ns, 15*ns
	}
	short := ranks.GroupCost{Requests: 1, Compute: 40 * ns, Decode: whole(5 * ns), Up: 2 * ns, Heads: []int64{20}}
	c.groups[0], c.groups[1], c.groups[2] = short, short, short
	c.groups[1].Compute = 60 * ns
	c.sub[1].prefillAttention = 6 * ns
	c.groups[3] = ranks.GroupCost{Prompt: ranks.Cargo{Tokens: 16, Shipment: whole(8 * ns)}}
	return &c
}

// flowOf returns a flow on the resources of some costs, filled with their operations.
func flowOf(c *iterationCosts, ranksets int, exact bool) *flow.Flow {
	f := flow.New(withLayers(int(c.layers[0])), c.resources(ranksets), flow.Running{Exact: exact, Check: &flow.Checker{}})
	c.lay(&f)
	return &f
}

// runCosts runs an iteration of L3 under the checks.
func runCosts(t interface{ Fatal(...any) }, c *iterationCosts, ranksets int, exact bool, start units.Duration) (*flow.Flow, units.Duration) {
	f := flowOf(c, ranksets, exact)
	end, err := f.Run(start)
	if err == nil {
		err = f.Check.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f, end
}

// spansOf returns the work of every resource in an iteration.
func spansOf(f *flow.Flow) []flow.Span {
	spans, _ := f.Record(0)
	return spans
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
	f, end := runCosts(t, handCosts(), 2, true, 0)
	if end != 253*ns {
		t.Errorf("the iteration ends at %v, want 253ns", end)
	}
	checkSpans(t, spansOf(f), []hand{
		{flow.TrackGPU, flow.OpEntry, 0, 0, 0, 10},
		{flow.TrackGPU, flow.OpEntry, 2, 0, 10, 20},
		{flow.TrackGPU, flow.OpPrefillAttention, 2, 0, 20, 26},
		{flow.TrackGPU, flow.OpBlock, 0, 0, 91, 111},
		{flow.TrackGPU, flow.OpBlock, 2, 0, 119, 139},
		{flow.TrackGPU, flow.OpPrefillAttention, 2, 1, 139, 145},
		{flow.TrackGPU, flow.OpBlock, 0, 1, 198, 213},
		{flow.TrackGPU, flow.OpBlock, 2, 1, 238, 253},
		{flow.TrackDown, flow.OpDecodeDown, 0, 0, 13, 18},
		{flow.TrackDown, flow.OpDecodeDown, 1, 0, 20, 25},
		{flow.TrackDown, flow.OpDecodeDown, 2, 0, 44, 49},
		{flow.TrackDown, flow.OpDecodeDown, 0, 1, 114, 119},
		{flow.TrackDown, flow.OpDecodeDown, 1, 1, 121, 126},
		{flow.TrackDown, flow.OpPromptDown, 3, 0, 145, 153},
		{flow.TrackDown, flow.OpDecodeDown, 2, 1, 163, 168},
		{flow.TrackDown, flow.OpPromptDown, 3, 1, 241, 249},
		{flow.TrackUp, flow.OpResults, 0, 0, 77, 79},
		{flow.TrackUp, flow.OpResults, 1, 0, 89, 91},
		{flow.TrackUp, flow.OpResults, 2, 0, 117, 119},
		{flow.TrackUp, flow.OpResults, 1, 1, 190, 192},
		{flow.TrackUp, flow.OpResults, 0, 1, 196, 198},
		{flow.TrackUp, flow.OpResults, 2, 1, 236, 238},
		{flow.TrackRank, flow.OpAttention, 0, 0, 21, 41},
		{flow.TrackRank, flow.OpAttention, 0, 0, 56, 76},
		{flow.TrackRank, flow.OpAttention, 2, 0, 76, 116},
		{flow.TrackRank, flow.OpAttention, 1, 1, 129, 189},
		{flow.TrackRank + 1, flow.OpAttention, 1, 0, 28, 88},
		{flow.TrackRank + 1, flow.OpAttention, 0, 1, 122, 142},
		{flow.TrackRank + 1, flow.OpAttention, 0, 1, 175, 195},
		{flow.TrackRank + 1, flow.OpAttention, 2, 1, 195, 235},
	})
}

// hand is a span as worked out by hand, in nanoseconds.
type hand struct {
	resource     int32
	op           uint8
	group, layer int32
	start, end   units.Duration
}

func checkSpans(t *testing.T, spans []flow.Span, want []hand) {
	t.Helper()
	got := slices.Clone(spans)
	slices.SortStableFunc(got, func(a, b flow.Span) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Start, b.Start))
	})
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing %+v", want[i])
		case i >= len(want):
			t.Errorf("unexpected %+v", got[i])
		default:
			w := want[i]
			if s := (flow.Span{Start: w.start * ns, End: w.end * ns, Resource: w.resource, Kind: int32(w.op), A: w.group, B: w.layer}); s != got[i] {
				t.Errorf("got  %+v\nwant %+v", got[i], s)
			}
		}
	}
}

// TestSwitchesByHand runs sub-batch 0 of the same node alone, one layer, with
// each technique of communication off.
//
// QKV ends at 10, the transfers are at [13,18] and [20,25], attention at [21,61]
// on rankset 0 and [28,88] on rankset 1.
//
// One mode at a time: all rows are closed at 21, the second transfer is at
// [23,28], and both ranksets start at 31.
//
// A prompt of 80 ns for offset 0 that is not delayed follows the vectors:
// rankset 0 is interrupted at a head's end, 41, data in [44,124], closed at 127,
// active at 131, last 20 ns in [131,151].
func TestSwitchesByHand(t *testing.T) {
	alone := func() *iterationCosts {
		c := handCosts()
		c.order[0].Count, c.layers[0], c.sub[1].active = 1, 1, false
		return c
	}
	for _, test := range []struct {
		name string
		set  func(*iterationCosts)
		end  units.Duration
	}{
		{"all on", func(*iterationCosts) {}, 106}, // 88 + 1 + 2 + 15
		{"one mode at a time", func(c *iterationCosts) { c.concurrent = false }, 109},
		{"one mode at a time, rankset 0 the last", func(c *iterationCosts) {
			c.concurrent = false
			c.groups[0].Compute = 80 * ns
		}, 129}, // [31,111] on rankset 0
		{"prompt before the block", func(c *iterationCosts) {
			c.asyncPrefill = false
			c.groups[0].Prompt = ranks.Cargo{Tokens: 1, Shipment: ranks.Shipment{Pieces: 1, Link: 80 * ns, Last: 80 * ns, Open: 2 * ns, Close: 3 * ns}}
		}, 169}, // 151 + 1 + 2 + 15
		{"prompt during the block", func(c *iterationCosts) {
			c.groups[0].Prompt = ranks.Cargo{Tokens: 1, Shipment: ranks.Shipment{Pieces: 1, Link: 80 * ns, Last: 80 * ns, Open: 2 * ns, Close: 3 * ns}}
		}, 174}, // starts after 91: eligible at 92, data in [94,174]
		{"buffered, two pieces", func(c *iterationCosts) {
			// Rankset 1's vectors: pieces over the links in [16,20], [20,24], written in
			// [22,24] and, closed at 27 and opened again, [29,31].
			c.buffered = true
			c.groups[0].Decode = ranks.Shipment{Pieces: 1, Link: 5 * ns, Last: 5 * ns, Bus: 2 * ns, End: 2 * ns, Open: 2 * ns, Close: 3 * ns}
			c.groups[1].Decode = ranks.Shipment{Pieces: 2, Link: 4 * ns, Last: 4 * ns, Bus: 2 * ns, End: 2 * ns, Open: 2 * ns, Close: 3 * ns}
		}, 112}, // attention on rankset 1 in [34,94]
	} {
		c := alone()
		test.set(c)
		if _, end := runCosts(t, c, 2, true, 0); end != test.end*ns {
			t.Errorf("%s: ends at %v, want %v", test.name, end, test.end*ns)
		}
	}
}

// drawCosts draws the costs of an iteration: any part may be absent.
func drawCosts(t *rapid.T, ranksets int) *iterationCosts {
	span := func(name string, low, high int) units.Duration {
		return units.Duration(rapid.IntRange(low, high).Draw(t, name))
	}
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	turn := rapid.SampledFrom([]int{5, 5, 100}).Draw(t, "longest switch")
	ship := func(name string, high int) ranks.Shipment {
		s := ranks.Shipment{Pieces: 1, Link: span(name, 1, high), Open: span("open", 0, turn), Close: span("close", 0, turn)}
		s.Last, s.Bus, s.End, s.Data = s.Link, s.Link/2, s.Link/2, s.Link/2
		return s
	}
	subs := rapid.IntRange(1, 2).Draw(t, "sub-batches")
	costs := newIterationCosts(subs, ranksets, dataflow.Run{Kind: 0, Count: rapid.Int32Range(1, 60).Draw(t, "layers")})
	c := &costs
	c.step = rapid.Int64Range(0, 20).Draw(t, "step")
	c.latency, c.upLatency = span("latency", 0, 30), span("up latency", 0, 40)
	c.clock = dataflow.NewClock(1, rapid.Int64Range(10, 20).Draw(t, "tREFI"), 10)
	c.headsEach = rapid.IntRange(1, 8).Draw(t, "heads")
	c.vacate, c.reactivate = span("vacate", 0, turn), span("reactivate", 0, turn)
	c.rotate, c.concurrent, c.asyncPrefill = flag("rotate"), flag("concurrent"), flag("async")
	c.halfDuplex, c.buffered = flag("half duplex"), flag("buffered")
	// If links are as busy as the ranksets, or more, the operations that wait for them shape the
	// schedule.
	link := rapid.SampledFrom([]int{20, 20, 200, 1000}).Draw(t, "longest transfer")
	windows := rapid.SampledFrom([]int{0, 100, 300}).Draw(t, "longest window")
	for s := range c.sub {
		sub := &c.sub[s]
		sub.active, sub.window = true, span("window", 0, windows)
		sub.entry, sub.block, sub.exit = span("entry", 1, 200), span("block", 1, 300), span("exit", 1, 300)
		for o := range sub.groups {
			g := &sub.groups[o]
			if flag("decodes") {
				g.Requests = 1
				g.Heads = []int64{rapid.Int64Range(1, 60).Draw(t, "head")}
				g.Compute = c.clock.Time(g.Heads[0]*int64(c.headsEach)) + span("first head", 0, 5)
				g.Decode, g.Up = ship("down", link), span("up", 1, link)
			}
			if flag("prefills") {
				sub.prefillAttention += span("prefill attention", 0, 100)
				g.Prompt = ranks.Cargo{Tokens: 16, Shipment: ship("prefill", 200)}
				if c.buffered {
					g.Prompt.Pieces = rapid.IntRange(1, 4).Draw(t, "pieces")
				}
			}
			if flag("leaves") {
				g.Leaving = ranks.Cargo{Tokens: 8, Shipment: ship("leaving", 100)}
			}
		}
	}
	if subs == 2 && rapid.IntRange(0, 9).Draw(t, "one is empty") == 0 {
		s := rapid.IntRange(0, 1).Draw(t, "which")
		c.sub[s] = subCost{groups: c.sub[s].groups}
		clear(c.sub[s].groups)
	}
	return c
}

// TestShortcutsChangeNothing compares L3's iterations of all shapes with and without shortcuts: the
// same end to the picosecond, and no law broken.
func TestShortcutsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 6).Draw(t, "ranksets")
		start := units.Duration(rapid.IntRange(0, 1e6).Draw(t, "start"))
		c := drawCosts(t, ranksets)
		if rapid.Bool().Draw(t, "only decodes") {
			withoutPrompts(c)
		}
		_, want := runCosts(t, c, ranksets, true, start)
		if _, got := runCosts(t, c, ranksets, false, start); got != want {
			t.Fatalf("with shortcuts the iteration ends at %d, layer by layer at %d", got, want)
		}
	})
}

// withoutPrompts changes an iteration into one that runs in lockstep.
func withoutPrompts(c *iterationCosts) {
	c.concurrent, c.buffered, c.halfDuplex = true, false, false
	for s := range c.sub {
		c.sub[s].prefillAttention = 0
		for i := range c.sub[s].groups {
			c.sub[s].groups[i].Prompt, c.sub[s].groups[i].Leaving = ranks.Cargo{}, ranks.Cargo{}
		}
	}
}

// TestSchedulesAreLegal checks laws on random iterations by their spans: no resource does two
// things at once, nothing computes before its data has arrived, and no rankset computes while it
// receives. The checker finds no fault either.
func TestSchedulesAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 4).Draw(t, "ranksets")
		c := drawCosts(t, ranksets)
		f, _ := runCosts(t, c, ranksets, true, 0)
		spans := spansOf(f)
		if err := exclusive(spans); err != nil {
			t.Fatal(err)
		}
		checkAttention(t, c, spans, ranksets)
	})
}

// checkAttention checks that every group computes in full, after its own transfer, on its rankset,
// and that without a buffer no transfer reaches a computing rankset.
func checkAttention(t *rapid.T, c *iterationCosts, spans []flow.Span, ranksets int) {
	type key struct{ group, layer int32 }
	received, computed := map[key]units.Duration{}, map[key]units.Duration{}
	rankOf := func(s flow.Span) int32 {
		offset := int(s.A) % ranksets
		if c.rotate {
			offset = (offset + int(s.B)) % ranksets
		}
		return flow.TrackRank + int32(offset)
	}
	for _, s := range spans {
		if s.Kind == int32(flow.OpDecodeDown) {
			received[key{s.A, s.B}] = s.End
		}
	}
	for _, s := range spans {
		if s.Resource == flow.TrackDown && !c.buffered {
			for _, a := range spans {
				if a.Kind == int32(flow.OpAttention) && (a.Resource == rankOf(s) || !c.concurrent) && a.Start < s.End && s.Start < a.End {
					t.Fatalf("a rankset computes %+v during the transfer %+v", a, s)
				}
			}
		}
		if s.Kind != int32(flow.OpAttention) {
			continue
		}
		if s.Resource != rankOf(s) {
			t.Fatalf("%+v runs on another rankset than %d", s, rankOf(s))
		}
		if end, ok := received[key{s.A, s.B}]; !ok || s.Start < end {
			t.Fatalf("%+v starts before its transfer has ended at %d", s, end)
		}
		computed[key{s.A, s.B}] += s.End - s.Start
	}
	for g := range c.groups {
		for layer := range c.layers[0] {
			if got, want := computed[key{int32(g), layer}], c.groups[g].Compute; got != want {
				t.Fatalf("group %d, layer %d computes for %d, want %d", g, layer, got, want)
			}
		}
	}
}

// withLayers returns hardware for a model of that many layers.
func withLayers(layers int) *flow.Hardware {
	return &flow.Hardware{Config: &configs.Config{Model: llm.Model{Layers: layers}}}
}
