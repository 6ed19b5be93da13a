package ranks

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// scripted is a policy whose step and chunk a test sets. With fresh, a step's own key and value go
// home.
type scripted struct {
	policy.Costs
	step   policy.Step
	prompt policy.Prompt
	fresh  int64
}

func (s *scripted) Decode([]policy.Request, int) *policy.Step    { return &s.step }
func (s *scripted) Prompt(int, int, int, bool) *policy.Prompt    { return &s.prompt }
func (s *scripted) Vectors() policy.Vectors                      { return policy.Vectors{New: s.fresh} }
func (s *scripted) KV(tokens int) int64                          { return 4096 * int64(tokens) }
func (s *scripted) Memory(int) (decoding, filling []policy.Held) { return nil, nil }
func (s *scripted) Runs() []int                                  { return []int{32} }

// TestGroupsByHand: groups without requests do not attend, whatever they held before. Traffic of all groups is added up.
func TestGroupsByHand(t *testing.T) {
	group := func(n int64) GroupCost {
		v := vectors{heads: n, All: 2 * n, fresh: 3 * n, freshAll: 4 * n, Down: units.Bytes(5 * n), bursts: 6 * n, parts: 7 * n, partsAll: 8 * n}
		return GroupCost{
			Requests: int(9 * n), Clocks: 10 * n, Drain: 11 * n, Compute: units.Duration(100 * n), Idle: units.Duration(12 * n), Heads: []int64{n}, Vectors: v,
			Prompt: Cargo{Tokens: 13 * n, Bytes: units.Bytes(14 * n), bursts: 15 * n, clocks: 16 * n}, Leaving: Cargo{Tokens: 17 * n, Bytes: units.Bytes(18 * n)},
			Prefix: fetch{Tokens: 19 * n, bytes: units.Bytes(20 * n), clocks: 21 * n, bursts: 22 * n},
		}
	}
	stale := GroupCost{Compute: 10_000, Idle: 7}
	if busiest, all := Attending([]GroupCost{group(2), stale, group(3), group(1)}); busiest != 300 || all != (100-12)*6 {
		t.Errorf("%v and %v", busiest, all)
	}
	d := devicesOf(benchOf(t, "run.model=llama-2-7b"))
	got, want := d.Together([]GroupCost{group(1), group(2), {}}), group(3)
	want.Clocks, want.Drain, want.Compute, want.Idle, want.Heads, want.Leaving = 0, 0, 0, 0, nil, Cargo{}
	d.pack(&want.Prompt)
	d.packPrefix(&want.Prefix)
	if !reflect.DeepEqual(got, want) || want.Prompt.Last == 0 || want.Prefix.Up == 0 {
		t.Errorf("%+v, by hand %+v", got, want)
	}
	for _, n := range []int64{0, 1} {
		g := group(n)
		g.reset()
		if g.Compute, g.Heads = 0, g.Heads[:0]; n > 0 && !reflect.DeepEqual(g, GroupCost{Heads: []int64{}}) {
			t.Errorf("%+v is left", g)
		}
	}
}

// TestWiresByHand: the configured rates of links and channels.
func TestWiresByHand(t *testing.T) {
	for _, sets := range []string{"", "run.model=llama-3-70b pim.mc_buffer=4KiB", "model.kv_bits=8", "run.model=llama-2-7b comm.stripe=ranksets serving.verified_tokens=3 serving.acceptance=0.5", "run.model=opt-66b node.channels=20 comm.head_rotation=none", "pim.relayout=cpu"} {
		cfg, err := benches.Load(configs.Options{Sets: strings.Fields(sets)})
		if err != nil {
			t.Fatal(err)
		}
		hw := &flow.Hardware{Config: cfg, KV: flow.Place{Name: "in the DIMMs", InDIMM: true, Keeps: true}, GPUShare: 1}
		d := New(hw, flow.NewAttends(hw), nil)
		s, m, channels := &cfg.DRAM.Spec, &cfg.Model, cfg.ReplicaChannels()
		tCK := s.TCK
		up := func(bytes int) int64 { return int64(bytes+63) / 64 }
		want := wires{
			link: hw.Links(), channel: hw.Channels(), Buffer: units.Bytes(channels) * cfg.PIM.MCBuffer, Latency: cfg.PCIe.Latency, padding: padding(hw),
			UpLatency: cfg.PCIe.Latency + cfg.PCIe.Wake + units.Duration(s.CL)*tCK + 2*cfg.PIM.HostAccess, HostAccess: cfg.PIM.HostAccess,
			burst: 4 * tCK, burstBytes: 64, openRow: units.Duration(s.TRCD+s.CWL) * tCK, closeRow: units.Duration(s.TWR+s.TRP) * tCK, stageLatency: units.Duration(s.CWL) * tCK,
			tokenBytes: d.Attends.KV(1) / units.Bytes(m.KVHeads), boundBytes: units.Bytes(2 * m.HeadDim * m.ElementBits / 8),
			descriptor: up(int(cfg.PIM.Descriptor)), resultBursts: up(m.HeadDim * m.ElementBits / 8),
		}
		if strings.Contains(sets, "stripe") {
			want.sums = 4 * int64(d.queries)
		}
		if strings.Contains(sets, "kv_bits") {
			want.scales = 1
		}
		if strings.Contains(sets, "relayout") {
			want.transposed = s
		}
		if d.wires != want {
			t.Errorf("%s: %+v, by hand %+v", sets, d.wires, want)
		}
		verified := 1
		if strings.Contains(sets, "verified") {
			verified = 3
		}
		per := (m.KVHeads + channels - 1) / channels
		if d.channels != channels || d.perChannel != per || d.uneven != (per*channels != m.KVHeads) || d.queries != verified*m.Heads/m.KVHeads || d.group() != m.Heads/m.KVHeads || d.verified != int64(verified) || len(d.byChannel) != channels ||
			d.Fixed != strings.Contains(sets, "none") || d.merged || !d.stores || len(d.predicted) != cfg.Node.Ranksets {
			t.Errorf("%s: %+v", sets, d.headMap)
		}
		link := d.link
		if d.BesideKernels(0.25); d.link != link*0.75 {
			t.Errorf("%v of %v are left beside kernels", d.link, link)
		}
	}
}

// TestPiecesByHand: 1,000 B over links of 1 B a ns in pieces of 300 are four, the last of 100. The channels' 500 ns are shared by bytes, rounded up.
func TestPiecesByHand(t *testing.T) {
	for _, c := range []struct {
		link                     units.Bandwidth
		buffer, n                units.Bytes
		span                     units.Duration
		pieces                   int
		eachLink, last, bus, end units.Duration
	}{
		{1e9, 300, 1000, 500_000, 4, 300_000, 100_000, 150_000, 50_000}, {1e9, 0, 1000, 500_000, 1, 1_000_000, 1_000_000, 500_000, 500_000}, {1e9, 1000, 1000, 500_000, 1, 1_000_000, 1_000_000, 500_000, 500_000},
		{1e9, 600, 1000, 500_000, 2, 600_000, 400_000, 300_000, 200_000}, {4e9, 300, 1000, 500_000, 4, 150_000, 50_000, 150_000, 50_000}, {1e9, 500, 1000, 500_001, 2, 500_000, 500_000, 250_001, 250_001},
	} {
		d := &Devices{wires: wires{link: c.link, Buffer: c.buffer, burst: 7}}
		s := d.cut(c.n, 30, c.span)
		if want := (Shipment{Pieces: c.pieces, Link: c.eachLink, Last: c.last, Bus: c.bus, End: c.end, Data: 210}); s != want {
			t.Errorf("%+v: %+v, by hand %+v", c, s, want)
		}
		s.Open, s.Close = 11, 13
		if held := units.Duration(c.pieces-1)*c.eachLink + c.last; s.Held() != held || s.Took() != held+24 {
			t.Errorf("%+v: held for %v, takes %v", c, s.Held(), s.Took())
		}
	}
	for _, c := range []struct{ x, part, whole, want int64 }{{10, 3, 10, 3}, {10, 1, 3, 4}, {9, 1, 3, 3}, {1 << 50, 1 << 40, 1 << 41, 1 << 49}, {0, 1, 3, 0}, {7, 5, 5, 7}} {
		if got := share(c.x, units.Bytes(c.part), units.Bytes(c.whole)); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestMergesByHand: outputs are merged if a request attends on several lanes, or on ranks and GPUs over different tokens of the same heads. A step that
// verifies three tokens has three outputs of each.
func TestMergesByHand(t *testing.T) {
	x := &policy.Step{Attend: []policy.Class{{Tokens: []int{5, 16, 17, 40, 0, 0}}, {Tokens: []int{5, 5, 5, 5, 0, 20}}, {Device: policy.GPU, Tokens: []int{9, 0, 9, 9, 9, 0}}}}
	for _, c := range []struct {
		parts           int
		merged          bool
		requests, count int
	}{{0, false, 0, 0}, {4, false, 3, 2 + 3 + 2}, {4, true, 4, 2 + 3 + 4 + 2}, {2, false, 3, 2 + 2 + 2}} {
		for _, verified := range []int64{1, 3} {
			d := &Devices{Attends: &flow.Attends{Requests: make([]policy.Request, 6)}}
			d.Stripe, d.merged, d.verified = stripe{Parts: c.parts, tokens: 16}, c.merged, verified
			if requests, parts := d.Merges(x); requests != c.requests*int(verified) || parts != c.count*int(verified) {
				t.Errorf("%+v, %d tokens: %d and %d", c, verified, requests, parts)
			}
		}
	}
}

// TestHeadsOfByHand: heads and their parts are dealt over the channels.
func TestHeadsOfByHand(t *testing.T) {
	for channels := 1; channels <= 5; channels++ {
		d := &Devices{headMap: headMap{channels: channels}}
		for heads := range 12 {
			on, most := make([]int, channels), (heads+channels-1)/channels
			for first := range 7 {
				clear(on)
				for h := range heads {
					on[(first+h)%channels]++
				}
				for channel, want := range on {
					if got := d.dealt(heads, first, channel); got != want {
						t.Fatalf("%d heads from channel %d of %d: channel %d has %d, by hand %d", heads, first, channels, channel, got, want)
					}
					for part := range 3 {
						if got := d.headsOf(heads, part, first-part, channel); first >= part && got != want {
							t.Fatalf("part %d of %d heads: %d, by hand %d", part, heads, got, want)
						}
						d.Stripe.lanes = true
						if got := d.headsOf(heads, part, first, channel); got != want || d.headsOf(heads, part, first, -1) != most {
							t.Fatalf("part %d of %d heads on lanes: %d, by hand %d", part, heads, got, want)
						}
						d.Stripe.lanes = false
					}
				}
				if got := d.headsOf(heads, first, 99, -1); got != most {
					t.Fatalf("part %d of %d heads on the fullest channel: %d, by hand %d", first, heads, got, most)
				}
			}
			if d.onChannel(heads) != most {
				t.Fatalf("%d of %d heads are on the fullest of %d channels", d.onChannel(heads), heads, channels)
			}
		}
	}
}

// TestChoicesByHand: lists of pages go down in two bytes a page, without the newest; ranks that choose take the clocks of their scores, list after list,
// and of the bounds that they keep.
func TestChoicesByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank"))
	on := int64(d.onChannel(8))
	for _, c := range []struct {
		step   policy.Step
		clocks int64
		v      vectors
	}{
		{policy.Step{Choose: []policy.Choice{{Heads: 8, Keep: 40, Ranked: []int{0, 100}}}}, 0, vectors{Down: 8 * 80, bursts: on * 2}},
		{policy.Step{Choose: []policy.Choice{{Heads: 8, Keep: 40, Ranked: []int{0, 33}}}}, 0, vectors{Down: 8 * 64, bursts: on * 1}},
		{policy.Step{Choose: []policy.Choice{{Heads: 8, Keep: 40, Ranked: []int{0, 100}, Lists: 2, PerQueryHead: true}}}, 0, vectors{Down: 8 * 80 * 8, bursts: on * 10}},
		{policy.Step{Choose: []policy.Choice{{Heads: 8, Keep: 40, Ranked: []int{100, 0}}}}, 0, vectors{}},
		{policy.Step{Choose: []policy.Choice{{Device: "bank", Heads: 8, Keep: 40, Scored: []int{0, 100}, Ranked: []int{0, 100}, Lists: 3}}}, 3 * d.bounds.Select(100), vectors{}},
		{policy.Step{Choose: []policy.Choice{{Device: "bank", Heads: 8, Keep: 40, Scored: []int{0, 100}, Ranked: []int{0, 90}, Softmax: true}}}, d.bounds.Select(100) + 4*90, vectors{}},
		{policy.Step{Bounds: policy.Bounds{Heads: 8, Down: []int{9, 3}}}, 3 * d.bounds.Store, vectors{Down: 8 * 3 * 512, bursts: on * 3 * 8}},
		{policy.Step{Bounds: policy.Bounds{Heads: 8, Down: []int{9, 0}, Updates: true}}, d.bounds.Update, vectors{}},
		{policy.Step{Bounds: policy.Bounds{Down: []int{9, 3}}}, 0, vectors{}},
		{ // lists and bounds are sent together; the ranks' work is sequential
			policy.Step{
				Choose: []policy.Choice{{Heads: 8, Keep: 40, Ranked: []int{0, 100}}, {Heads: 8, Keep: 20, Ranked: []int{0, 100}}, {Device: "bank", Heads: 8, Scored: []int{0, 100}, Ranked: []int{0, 100}}, {Device: "bank", Heads: 8, Scored: []int{0, 50}, Ranked: []int{0, 50}}},
				Bounds: policy.Bounds{Heads: 8, Down: []int{9, 3}, Updates: true},
			},
			d.bounds.Select(100) + d.bounds.Select(50) + d.bounds.Update + 3*d.bounds.Store, vectors{Down: 8*80 + 8*40 + 8*3*512, bursts: on * (2 + 1 + 3*8)},
		},
	} {
		if clocks, v := d.chooses(&c.step, 1); clocks != c.clocks || v != c.v {
			t.Errorf("%+v: %d clocks and %+v, by hand %d and %+v", c.step, clocks, v, c.clocks, c.v)
		}
	}
}

// TestFollowByHand: six heads on three channels. A chunk after a cached prefix of 20 tokens sends 10 tokens home, or their bounds; a step sends one. Attending
// to more than was sent is an error.
func TestFollowByHand(t *testing.T) {
	p := &scripted{fresh: 1, prompt: policy.Prompt{Leave: []policy.Leaving{{Heads: 6, From: []int{20}, Tokens: []int{10}}, {Heads: 2, From: []int{0}, Tokens: []int{3}, Bounds: true}}}}
	for _, near := range []bool{false, true} {
		for _, c := range []struct {
			prefix, finished, attends, extra int // extra: heads' tokens at home beyond those of the chunk
			want                             traffic
			fails                            bool
		}{
			{20, 20, 31, 6 * 20, traffic{requests: 1, heads: 6, fetched: 2 * 20, tokens: 2 * 10, bytes: 30*4096 + 6*100}, false},
			{20, 20, 32, 6 * 20, traffic{requests: 1, heads: 6, fetched: 2 * 20, tokens: 2 * 10, bytes: 30*4096 + 6*100}, true},
			{0, 20, 11, 0, traffic{requests: 1, heads: 6, tokens: 2 * 10, bytes: 10*4096 + 6*100}, false},
			{0, 20, 12, 0, traffic{requests: 1, heads: 6, tokens: 2 * 10, bytes: 10*4096 + 6*100}, true},
		} {
			h := &Homes{Attends: &flow.Attends{Policy: p, Heads: 6, Runs: []int{32}, Alike: []int{0}}, channels: 3, have: map[homeOf]int64{}, bound: 100, verified: 1, group: 1}
			var check flow.Checker
			chunk := scheduler.Chunk{Request: 7, Prefix: c.prefix, Finished: c.finished, Tokens: 10, Near: near}
			got := h.Follow(&check, &scheduler.SubBatch{Prefill: []scheduler.Chunk{chunk}}, 1, 2, 0)
			p.step = policy.Step{Attend: []policy.Class{{Heads: 6, Tokens: []int{c.attends}}, {Device: policy.GPU, Heads: 6, Tokens: []int{1000}}}}
			then := h.Follow(&check, &scheduler.SubBatch{Decode: []scheduler.Decoding{{Request: 7, Prompt: 30}}}, 1, 2, 0)
			got.requests, got.heads = got.requests+then.requests, got.heads+then.heads
			if near {
				c.want, c.fails = traffic{requests: 1, heads: 6}, true // nothing has gone home
			}
			if got != c.want || (check.Err() != nil) != c.fails {
				t.Errorf("near %v, %+v: %+v; %v", near, c, got, check.Err())
			}
		}
	}
}

// TestFollowPartsByHand: a request has a part on each of three lanes for every 16 tokens, on all three beyond 32. Heads of its classes are on
// as many lanes as they have units, and the request is on as many as its longest head. Each of two requests counts.
func TestFollowPartsByHand(t *testing.T) {
	p := &scripted{step: policy.Step{Attend: []policy.Class{{Heads: 4, Tokens: []int{20}}, {Heads: 2, Tokens: []int{40}}, {Heads: 3, Tokens: []int{0}}, {Device: policy.GPU, Heads: 6, Tokens: []int{1000}}},
		Choose: []policy.Choice{{Heads: 6, Keep: 8, Ranked: []int{100}}}}}
	for stripe, want := range map[stripe]traffic{
		{}:            {requests: 2 * 1, heads: 2 * (4 + 2), lists: 2 * 6 * 8 * 2},
		{3, true, 16}: {requests: 2 * 3, heads: 2 * (4*2 + 2*3), lists: 2 * 6 * 8 * 2}, {3, false, 16}: {requests: 2 * 3, heads: 2 * (4*2 + 2*3), lists: 2 * 6 * 8 * 2},
		{2, true, 16}: {requests: 2 * 2, heads: 2 * (4*2 + 2*2), lists: 2 * 6 * 8 * 2}, {5, true, 40}: {requests: 2 * 1, heads: 2 * (4 + 2), lists: 2 * 6 * 8 * 2},
	} {
		h := &Homes{Attends: &flow.Attends{Policy: p, Heads: 6, Runs: []int{32}, Alike: []int{0}}, channels: 3, have: map[homeOf]int64{{7, 0}: 4*20 + 2*40, {8, 0}: 4*20 + 2*40}, verified: 1, group: 1, stripe: stripe}
		var check flow.Checker
		sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Request: 7, Prompt: 30}, {Request: 8, Prompt: 30}}}
		if got := h.Follow(&check, sub, 1, 2, 0); got != want || check.Err() != nil {
			t.Errorf("%+v: %+v, by hand %+v; %v", stripe, got, want, check.Err())
		}
	}
}

// TestBoundaryStepByHand: at row boundaries the step is half of the clocks of a third row, for its keys or its values; at chunk boundaries a chunk's share of
// that; a head has no inner boundaries.
func TestBoundaryStepByHand(t *testing.T) {
	n := benchOf(t, "run.model=llama-2-7b")
	table, row := n.kernels.Table, n.kernels.Table.RowTokens()
	rows := (table.Attention(3*row) - table.Attention(2*row)) / 2
	for boundary, want := range map[string]int64{pim.BoundaryHead: 0, pim.BoundaryRow: rows, pim.BoundaryChunk: rows * 16 / int64(row)} {
		if got := BoundaryStep(table, boundary, 16); got != want || boundary != pim.BoundaryHead && got <= 0 {
			t.Errorf("%s: %d clocks, by hand %d", boundary, got, want)
		}
	}
	if BoundaryStep(table, pim.BoundaryChunk, 0) != 1 {
		t.Error("a chunk takes a clock at least")
	}
}

// TestWholeListsByHand: a list of all pages of a context is in the context's rows, of 512 tokens.
func TestWholeListsByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank"))
	for context, want := range map[int][2]int{1: {1, 1}, 511: {1, 511}, 512: {1, 512}, 513: {2, 1}, 1024: {2, 512}, 1025: {3, 1}} {
		for _, page := range []int{0, 16} {
			c := policy.Class{Tokens: []int{context}, Paged: policy.Paged{Page: page}}
			if tokens, rows, last := d.list(&c, 0, context); tokens != context || rows != want[0] || last != want[1] {
				t.Errorf("%d tokens in pages of %d: %d in %d rows, %d in the last", context, page, tokens, rows, last)
			}
		}
	}
}
