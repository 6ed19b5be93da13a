package ranks

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// cached returns ranks for Llama 3 8B, whose 8 KV heads are on 4 channels, with a prefix cache that the GPUs fetch from, or that
// stays in place.
func cached(t *testing.T, where string, sets ...string) (*Devices, *bench) {
	n := benchOf(t, append([]string{"run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=4", "cache.prefix=true", "cache.block=512", "cache.prefix_attention=" + where}, sets...)...)
	return devicesOf(n), n
}

// TestReuseByHand: either three tokens of a chunk attend one by one over the 1,024 tokens of a prefix in place, six heads on each channel, without an append; or the first
// chunk fetches the prefix.
func TestReuseByHand(t *testing.T) {
	d, _ := cached(t, scheduler.PrefixOnDIMM)
	groups := make([]GroupCost, 2)
	c := &scheduler.Chunk{Request: 9, Offset: 1, Prefix: 1024, Finished: 1024, Tokens: 3}
	head := d.Stored.At(1024)
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{*c}}
	for first := range 2 {
		d.Reuse(groups, c)
		n := first + 1
		want := GroupCost{Requests: 3 * n, Clocks: int64(6*n) * head, Drain: d.Stored.Table.Drain(1024), Vectors: vectors{heads: int64(6 * n), All: int64(24 * n), parts: int64(6 * n), partsAll: int64(24 * n)}}
		for range 6 * n / d.HeadsEach() {
			want.Heads = append(want.Heads, head)
		}
		if !reflect.DeepEqual(groups[1], want) || !reflect.DeepEqual(groups[0], GroupCost{}) || d.HeadsEach() != 2 {
			t.Errorf("%+v, by hand %+v", groups[1], want)
		}
	}
	if got, want := d.ScoringOf(c), d.Clock.Time(6*head); got != want || d.Scoring(sub) != 32*want || want == 0 {
		t.Errorf("prompts wait %v and %v, by hand %v in each of 32 layers", got, d.Scoring(sub), want)
	}
	sub.Prefill = append(sub.Prefill, *c, scheduler.Chunk{Tokens: 7})
	if got, want := d.Scoring(sub), 2*32*d.Clock.Time(6*head); got != want {
		t.Errorf("two chunks wait %v, by hand %v", got, want)
	}
	d.TallyPrefixes(sub)
	var got machine.Activity
	d.SettleHeads(&got)
	if want := (machine.Activity{}).Plus(d.Stored.Table.Activity(1024), 32*2*3*8); !closeTo(got, want) {
		t.Errorf("the ranks did %+v, by hand %+v", got, want)
	}

	d, _ = cached(t, scheduler.PrefixOnGPU)
	groups = make([]GroupCost, 2)
	d.Reuse(groups, c)
	later := *c
	later.Finished, later.Tokens = 1027, 5
	d.Reuse(groups, &later) // the GPUs have it
	if g := groups[1].Prefix; g.Tokens != 2*1024 || g.bytes != 1024*4096 || g.bursts != 2*2*1024*4 || g.clocks != 2*d.transfers.ReadBack(1024) || groups[1].Requests != 0 || d.Attends.Fetched != 32*1024*4096*d.Attends.Copies {
		t.Errorf("%+v is fetched, %d B for the GPUs", g, d.Attends.Fetched)
	}
	if d.ScoringOf(c) != 0 || d.Scoring(sub) != 0 {
		t.Error("the GPUs score what they fetch")
	}
	d.TallyPrefixes(sub)
	got = machine.Activity{}
	if d.SettleHeads(&got); got != (machine.Activity{}) {
		t.Errorf("the ranks did %+v", got)
	}
	g := &groups[1].Prefix
	d.packPrefix(g)
	if g.Read != d.Clock.Time(g.clocks) || g.Data != units.Duration(g.bursts)*d.burst || g.Up != flow.TransferTime(d.link, d.Attends.Copies*g.bytes) {
		t.Errorf("%+v", g)
	}
	if empty := (fetch{clocks: 9, bursts: 9}); true {
		if d.packPrefix(&empty); empty.Read != 0 || empty.Up != 0 {
			t.Errorf("nothing takes %+v", empty)
		}
	}
}

func closeTo(a, b machine.Activity) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if x.Field(i).Kind() == reflect.Float64 && math.Abs(x.Field(i).Float()-y.Field(i).Float()) > 1e-9*math.Abs(y.Field(i).Float()) {
			return false
		}
	}
	return true
}

// TestGatherByHand: groups get the requests' attention, the data that leave the GPUs, and prompts with their prefixes; prompts in spare memory add nothing. Only groups with requests
// compute, and only those with data to send have transfers.
func TestGatherByHand(t *testing.T) {
	d, _ := cached(t, scheduler.PrefixOnGPU)
	p := &scripted{Costs: d.Attends.Policy, fresh: 4096, step: policy.Step{
		Attend: []policy.Class{{Device: policy.Home, Heads: 8, Tokens: []int{700, 0}}},
		Leave:  []policy.Leaving{{Heads: 8, From: []int{5, 100}, Tokens: []int{0, 16}}},
	}, prompt: policy.Prompt{Leave: []policy.Leaving{{Heads: 8, From: []int{0}, Tokens: []int{10}}}}}
	d.Attends.Policy = p
	groups := make([]GroupCost, 4)
	for i := range groups {
		groups[i] = GroupCost{Requests: 5, Compute: 1, Heads: []int64{1}} // of an iteration before
	}
	sub := &scheduler.SubBatch{
		Decode:  []scheduler.Decoding{{Request: 0, Offset: 1, Base: 699}, {Request: 1, Offset: 2, Base: 10}},
		Prefill: []scheduler.Chunk{{Request: 2, Offset: 3, Prefix: 512, Finished: 512, Tokens: 10}, {Request: 3, Offset: 0, Prefix: 512, Finished: 512, Tokens: 10, Near: true}},
	}
	d.FillGroups(groups, sub, &p.step, 0)
	if g := &groups[0]; g.Requests != 0 || g.Prompt.Tokens != 0 || g.Prefix.Tokens != 0 || g.Prompt.Link != 0 {
		t.Errorf("spare memory: %+v", g)
	}
	if g := &groups[1]; g.Requests != 1 || g.Compute != d.Clock.Time(g.Clocks+g.Drain) || g.Clocks != 2*d.Sequence.At(700) || g.Up == 0 || g.Decode.Last == 0 || g.Leaving.Tokens != 0 {
		t.Errorf("decodes: %+v", g)
	}
	if g := &groups[2]; g.Requests != 0 || g.Leaving.Tokens != 2*16 || g.Leaving.Last == 0 || g.Prompt.Tokens != 0 {
		t.Errorf("leaves: %+v", g)
	}
	if g := &groups[3]; g.Prompt.Tokens != 2*10 || g.Prompt.Last == 0 || g.Prefix.Tokens != 2*512 || g.Prefix.Up == 0 || g.Requests != 0 {
		t.Errorf("prompt: %+v", g)
	}
}

// TestPrefixesAtHomeByHand: if prefixes stay in place, each token of a chunk sends the vectors of all heads, and nothing is
// fetched.
func TestPrefixesAtHomeByHand(t *testing.T) {
	h := &Homes{Attends: &flow.Attends{Policy: &scripted{}, Heads: 6, PrefixStays: true}, channels: 3}
	for _, c := range []struct {
		chunk scheduler.Chunk
		want  traffic
	}{{scheduler.Chunk{Prefix: 20, Finished: 20, Tokens: 10}, traffic{requests: 10, heads: 60}}, {scheduler.Chunk{Prefix: 20, Finished: 30, Tokens: 10}, traffic{requests: 10, heads: 60}}, {scheduler.Chunk{Tokens: 10}, traffic{}}} {
		got := traffic{requests: 3, heads: 2}
		h.reuse(&got, &c.chunk)
		c.want.requests, c.want.heads = c.want.requests+3, c.want.heads+2
		if got != c.want {
			t.Errorf("%+v: %+v, by hand %+v", c.chunk, got, c.want)
		}
	}
	h.Attends.PrefixStays = false
	got := traffic{fetched: 5, bytes: 7}
	if h.reuse(&got, &scheduler.Chunk{Prefix: 20, Finished: 20, Tokens: 10}); got != (traffic{fetched: 5 + 2*20, bytes: 7 + 20*4096}) {
		t.Errorf("%+v is fetched", got)
	}
}

// TestCountsOfHeads: heads are counted by context, looked up if it is long, and each is settled once.
func TestCountsOfHeads(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-2-7b"))
	var h headCounts
	for _, x := range []struct {
		context int
		heads   int64
	}{{100, 3}, {700, 1}, {100, 2}, {0, 5}, {mostCounted, 4}, {mostCounted - 1, 6}} {
		h.add(d.Table, x.context, x.heads)
	}
	if !slices.Equal(h.lengths, []int{100, 700, mostCounted - 1}) {
		t.Errorf("contexts %v are counted", h.lengths)
	}
	var got machine.Activity
	want := (machine.Activity{}).Plus(d.Table.Activity(100), 5).Plus(d.Table.Activity(700), 1).Plus(d.Table.Activity(mostCounted), 4).Plus(d.Table.Activity(mostCounted-1), 6)
	for range 2 {
		if h.settle(d.Table, &got); !closeTo(got, want) {
			t.Errorf("%+v, by hand %+v", got, want)
		}
	}
	if len(h.lengths) != 0 {
		t.Error("what is settled is kept")
	}
	// A step of two layers: a class of 20 heads at home and one on the GPUs, and pages scored by a bank, in two
	// lists.
	d = devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank"))
	d.TallyStep(&policy.Step{
		Attend: []policy.Class{{Device: policy.Home, Heads: 8, Tokens: []int{100, 0, 300}}, {Device: policy.GPU, Heads: 8, Tokens: []int{9, 9, 9}}, {Device: policy.Home, Heads: 2, PerHead: []int{5, 6, 5, 6, 5, 6}, Tokens: []int{6, 6, 6}}},
		Choose: []policy.Choice{{Device: "bank", Heads: 8, Scored: []int{40, 0, 50}, Lists: 2}, {Heads: 8, Scored: []int{40, 40, 50}}},
	}, 2)
	got = machine.Activity{}
	d.SettleHeads(&got)
	want = (machine.Activity{}).Plus(d.Table.Activity(100), 16).Plus(d.Table.Activity(300), 16).Plus(d.Table.Activity(5), 6).Plus(d.Table.Activity(6), 6).Plus(d.bounds.Activity(40), 8*2*2).Plus(d.bounds.Activity(50), 8*2*2)
	if !closeTo(got, want) {
		t.Errorf("a step did %+v, by hand %+v", got, want)
	}
}

// TestCountsOfParts: of 1,100 tokens in parts of 512 on four channels, three channels have some, and the one with the newest
// stores it.
func TestCountsOfParts(t *testing.T) {
	n := benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=4", "comm.stripe=channels")
	d := devicesOf(n)
	if d.Stripe != (stripe{4, false, 512}) || d.Stored.Table == d.Sequence.Table || d.Stored.At(512) >= d.Sequence.At(512) {
		t.Fatalf("%+v", d.Stripe)
	}
	d.TallyStep(&policy.Step{Attend: []policy.Class{{Device: policy.Home, Heads: 8, Tokens: []int{1100}}}}, 3)
	var got machine.Activity
	d.SettleHeads(&got)
	if want := (machine.Activity{}).Plus(d.Stored.Table.Activity(512), 2*24).Plus(d.Table.Activity(76), 24); !closeTo(got, want) {
		t.Errorf("%+v, by hand %+v", got, want)
	}
	d.TallyStep(&policy.Step{Attend: []policy.Class{{Device: policy.Home, Heads: 8, Tokens: []int{1024}}}}, 1) // the newest fills the second part
	got = machine.Activity{}
	d.SettleHeads(&got)
	if want := (machine.Activity{}).Plus(d.Stored.Table.Activity(512), 8).Plus(d.Table.Activity(512), 8); !closeTo(got, want) {
		t.Errorf("%+v, by hand %+v", got, want)
	}
}

// layered is a policy whose layers hold different amounts.
type layered struct {
	policy.Costs
	runs []int
	held [][]policy.Held
}

func (l *layered) Runs() []int                         { return l.runs }
func (l *layered) Memory(run int) (d, f []policy.Held) { return l.held[run], l.held[run] }
func (l *layered) KV(tokens int) int64                 { return int64(tokens) }

// TestClassesOfRanksByHand: 8 heads on four channels. Layers rotate over two ranksets; each rankset counts as one layer with the most heads of each class. Windows that no rankset has
// together with the most whole heads are left out.
func TestClassesOfRanksByHand(t *testing.T) {
	whole := func(heads int) policy.Held { return policy.Held{Device: policy.Home, Heads: heads, Bytes: 100} }
	ring := func(heads int) policy.Held {
		return policy.Held{Device: policy.Home, Heads: heads, Bytes: 100, Most: 50}
	}
	class := func(heads, most int) memory.HeadClass {
		return memory.HeadClass{Heads: heads, TokenBytes: 100, Most: most}
	}
	for name, c := range map[string]struct {
		runs     []int
		held     [][]policy.Held
		rotation bool
		layers   int
		want     []memory.HeadClass
	}{
		"all alike":     {[]int{6}, [][]policy.Held{{whole(8)}}, true, 6, []memory.HeadClass{class(2, 0)}},
		"runs alike":    {[]int{2, 4}, [][]policy.Held{{whole(5), {Device: policy.GPU, Heads: 3, Bytes: 100}}, {whole(5)}}, true, 6, []memory.HeadClass{class(2, 0)}},
		"in turn":       {[]int{1, 1, 1, 1}, [][]policy.Held{{whole(8)}, {ring(8)}, {whole(8)}, {ring(8)}}, true, 2, []memory.HeadClass{class(4, 0)}},
		"one rankset":   {[]int{1, 1, 1, 1}, [][]policy.Held{{whole(8)}, {ring(8)}, {whole(8)}, {ring(8)}}, false, 1, []memory.HeadClass{class(4, 0), class(4, 50)}},
		"both":          {[]int{3, 1, 2}, [][]policy.Held{{whole(8)}, {whole(5), ring(3)}, {ring(8)}}, true, 2, []memory.HeadClass{class(4, 0), class(3, 50)}},
		"longest share": {[]int{1, 1}, [][]policy.Held{{{Device: policy.Home, Heads: 8, Bytes: 100, Share: 0.2, Longest: 0.5}}, {whole(4)}}, false, 1, []memory.HeadClass{{Heads: 2, TokenBytes: 100, Share: 0.5}, class(1, 0)}},
	} {
		h := benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=4").hw
		spec := memory.LedgerSpec{Ranksets: 2, Layers: 6, Rotation: c.rotation, HeadsPerChannel: 2}
		if rankClasses(h, &spec, &layered{runs: c.runs, held: c.held}); spec.Layers != c.layers || !slices.Equal(spec.Classes, c.want) {
			t.Errorf("%s: %d layers of %+v, by hand %d of %+v", name, spec.Layers, spec.Classes, c.layers, c.want)
		}
	}
	// 8 heads on three channels: if equal, each head separately; else the fullest channel has three of each
	// class.
	h := benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=3").hw
	for name, c := range map[string]struct {
		runs  []int
		held  [][]policy.Held
		heads [3]int
		want  []memory.HeadClass
	}{
		"alike":        {[]int{6}, [][]policy.Held{{whole(8)}}, [3]int{1, 8, 3}, []memory.HeadClass{class(1, 0)}},
		"two classes":  {[]int{6}, [][]policy.Held{{whole(5), ring(3)}}, [3]int{3, 0, 0}, []memory.HeadClass{class(2, 0), class(1, 50)}},
		"two runs":     {[]int{2, 4}, [][]policy.Held{{whole(8)}, {whole(7)}}, [3]int{3, 0, 0}, []memory.HeadClass{class(3, 0)}},
		"runs alike":   {[]int{2, 4}, [][]policy.Held{{whole(8)}, {whole(8), {Device: policy.GPU, Heads: 1, Bytes: 9}}}, [3]int{1, 8, 3}, []memory.HeadClass{class(1, 0)}},
		"on GPUs, too": {[]int{6}, [][]policy.Held{{whole(8), {Device: policy.GPU, Heads: 2, Bytes: 9}}}, [3]int{1, 8, 3}, []memory.HeadClass{class(1, 0)}},
	} {
		spec := memory.LedgerSpec{Ranksets: 1, Layers: 6, HeadsPerChannel: 1, Heads: 8, Channels: 3}
		if rankClasses(h, &spec, &layered{runs: c.runs, held: c.held}); [3]int{spec.HeadsPerChannel, spec.Heads, spec.Channels} != c.heads || !slices.Equal(spec.Classes, c.want) || spec.Layers != 6 {
			t.Errorf("%s: %+v, by hand %v and %+v", name, spec, c.heads, c.want)
		}
	}
}

// TestLedgersByHand: the memory of two ranksets of four channels: rows of 512 tokens, for each of two heads on a channel. Striped over channels or ranksets they are one
// memory.
func TestLedgersByHand(t *testing.T) {
	sets := []string{"run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=4", "node.ranksets=2"}
	n := benchOf(t, sets...)
	room := int64(n.cfg.RankRoom() / rankUnitBytes(n.hw))
	one := Memory(n.hw)
	if one.Unit != 4*rankUnitBytes(n.hw) || one.Capacity != 2*room || room == 0 {
		t.Errorf("%+v, by hand %d units of %d B", one, 2*room, 4*rankUnitBytes(n.hw))
	}
	if l := Ledger(n.hw, true); l.Ranksets() != 2 || l.UnitsOf(512) != 32*2 || l.UnitsOf(513) != 32*2*2 {
		t.Errorf("%d ranksets, %d and %d units for 512 and 513 tokens", l.Ranksets(), l.UnitsOf(512), l.UnitsOf(513))
	}
	n = benchOf(t, append(sets, "comm.stripe=ranksets")...)
	if m, l := Memory(n.hw), Ledger(n.hw, true); m.Unit != 4*rankUnitBytes(n.hw) || m.Capacity != 2*room || l.Ranksets() != 1 {
		t.Errorf("over ranksets %+v of %d", m, l.Ranksets())
	}
	n = benchOf(t, append(sets, "comm.stripe=channels")...)
	if m, l := Memory(n.hw), Ledger(n.hw, true); m.Unit != rankUnitBytes(n.hw) || m.Capacity != 4*2*room || l.UnitsOf(512) != 32*8 {
		t.Errorf("over channels %+v, %d units for 512 tokens", m, l.UnitsOf(512))
	}
	n = benchOf(t, append(sets, "node.channels=3")...)
	if l := Ledger(n.hw, false); l.Ranksets() != 2 || l.UnitsOf(512) < 32*8/3 {
		t.Errorf("on three channels %d units for 512 tokens", l.UnitsOf(512))
	}
}

// TestRanksOfConfigurations: the settings that kernels depend on: heads that attend without the newest token, and pages' bounds on ranks.
func TestRanksOfConfigurations(t *testing.T) {
	deep.Heavy(t)
	for set, want := range map[string][3]bool{ // own key and value at home, parts, bounds
		"comm.stripe=none": {true, false, false}, "comm.stripe=channels": {true, true, false}, "comm.stripe=ranksets": {true, true, false}, "cache.prefix_attention=gpu": {true, false, false}, "cache.prefix_attention=dimm": {true, true, false},
	} {
		sets := []string{"run.model=llama-3-8b", set}
		if set[:5] == "cache" {
			sets = append(sets, "cache.prefix=true", "cache.block=512")
		}
		n := benchOf(t, sets...)
		r, err := ranksOf(n.hw)
		if err != nil || r.atHome != want[0] || r.parts != want[1] || r.group > 0 != want[2] || r.shape != n.cfg.HeadShape() || r.dram != n.cfg.DRAM.Spec {
			t.Errorf("%s: %+v; %v", set, r, err)
		}
		k, err := KernelsOf(n.hw)
		if err != nil || (k.Stored.Table != k.Sequence.Table) != want[1] {
			t.Errorf("%s: one table for all: %t; %v", set, k.Stored.Table == k.Sequence.Table, err)
		}
	}
	n := benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank", "policy.quest.top_k_latency=77")
	if r, err := ranksOf(n.hw); err != nil || r.group != 4 || r.pages != (policy.PagesSpec{SelectDevice: "bank", SelectGroup: "sum", TopKLatency: 77}) {
		t.Errorf("%+v; %v", r, err)
	}
	s := &n.cfg.DRAM.Spec
	d := devicesOf(n)
	bank := float64(s.BurstBytes()) / (float64(s.TCCDL) * s.TCK.Seconds())
	if want := float64(n.cfg.ReplicaChannels()*n.cfg.Node.Ranksets*s.Banks()) * bank; math.Abs(float64(d.PIMPeak)/want-1) > 1e-12 {
		t.Errorf("%v B/s, by hand %v", float64(d.PIMPeak), want)
	}
	for unit, want := range map[string]bool{pim.RankLevelUnit: true, n.cfg.PIM.ProcessingUnit: false} {
		spec := n.cfg.PIM
		spec.ProcessingUnit = unit
		if d := AttentionDraw(n.cfg, &spec, energy.Mid); d.RankLevel != want {
			t.Errorf("%s: of the rank %t", unit, d.RankLevel)
		}
	}
	if got := DIMMRanks(n.cfg); got != n.cfg.Energy.RanksPerDIMM {
		t.Errorf("%d ranks of a DDR4 DIMM", got)
	}
	five := benchOf(t, "run.model=llama-3-8b", "dram.preset=ddr5-4800-16gb-x8")
	if got := DIMMRanks(five.cfg); got != 2*five.cfg.Energy.RanksPerDIMM {
		t.Errorf("%d ranks of a DDR5 DIMM", got)
	}
}

// TestBeginsByHand: 8 heads on three channels leave two over. The first request of an offset begins on channel 0; the next where its two extra heads meet the least load of the others;
// for prompts, the load is all work of the chunk.
func TestBeginsByHand(t *testing.T) {
	n := benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=3", "model.layers=1")
	d := devicesOf(n)
	if d.Rest != 2 || d.Fixed {
		t.Fatal(d.Rest, d.Fixed)
	}
	b := &scheduler.Batch{Step: 10, Grouped: 9999, Sub: []scheduler.SubBatch{{
		Decode:  []scheduler.Decoding{{Request: 0, Base: 90}, {Request: 1, Base: 490}, {Request: 3, Base: 20}},
		Prefill: []scheduler.Chunk{{Request: 2, Finished: 100, Tokens: 30}, {Request: 5, Offset: 1, Finished: 9000, Tokens: 1}, {Request: 6, Finished: 9000, Near: true}},
	}}}
	// Prompts come first. 2 begins on channel 0, with 130 tokens there and on 1. Request 0 meets the fewest on channels 1 and 2 or 2 and 0, 130: it begins on 1, with 100 on 1 and 2. Request 1 meets 230 on 1, 100 on
	// 2 and 130 on 0: the fewest on 2 and 0. The loads are then 630, 230 and 600, so request 3 begins on 1.
	d.Rotate(b)
	got := []int32{d.first[0], d.first[1], d.first[2], d.first[5], d.first[3]}
	if !slices.Equal(got, []int32{2, 3, 1, 1, 2}) || len(d.first) != 6 {
		t.Errorf("requests begin on channels %v, by hand 1, 2, 0, 0 and 1", got)
	}
	d.Rotate(b)
	if again := []int32{d.first[0], d.first[1], d.first[2], d.first[5], d.first[3]}; !slices.Equal(got, again) {
		t.Errorf("requests move to %v", again)
	}
}

// TestNarrowPrefixesByHand: 8-bit keys and values are read back with their scales, and each GPU that holds a head gets its own copy.
func TestNarrowPrefixesByHand(t *testing.T) {
	d, _ := cached(t, scheduler.PrefixOnGPU, "model.kv_bits=8")
	d.Attends.Copies = 3
	var g fetch
	d.fetch(&g, 700)
	scales := 2 * d.transfers.ScaleBursts(0, 700)
	if want := (fetch{Tokens: 1400, bytes: 700 * units.Bytes(8*264), bursts: 2*2*700*2 + scales, clocks: 2*d.transfers.ReadBack(700) + d.transfers.Scales(scales)}); g != want || scales == 0 || d.transfers.Scales(scales) == 0 {
		t.Errorf("%+v, by hand %+v", g, want)
	}
	groups := make([]GroupCost, 1)
	d.Reuse(groups, &scheduler.Chunk{Prefix: 700, Finished: 700, Tokens: 3})
	if want := 32 * 700 * units.Bytes(8*264) * 3; d.Attends.Fetched != want {
		t.Errorf("%d B for the GPUs, by hand %d", d.Attends.Fetched, want)
	}
	if d.packPrefix(&g); g.Up != flow.TransferTime(d.link, 3*g.bytes) {
		t.Errorf("%v up", g.Up)
	}
}

// TestBoundsOnTheirWay: bounds of pages go home like FP16 keys and values, in addition to tokens, and do
// not count as tokens.
func TestBoundsOnTheirWay(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=4", "model.kv_bits=8", "policy.name=quest", "policy.quest.select_device=bank"))
	tokens := policy.Leaving{Heads: 8, From: []int{5}, Tokens: []int{30}}
	bounds := policy.Leaving{Heads: 8, From: []int{1}, Tokens: []int{3}, Bounds: true}
	var c Cargo
	d.load(&c, &tokens, 0)
	first := c
	if first.Tokens != 2*30 || first.Bytes != 8*30*d.tokenBytes || d.tokenBytes != 264 {
		t.Errorf("%+v", first)
	}
	d.load(&c, &bounds, 0)
	if c.Tokens != first.Tokens || c.Bytes-first.Bytes != 8*3*512 || c.bursts-first.bursts != 2*2*3*int64(d.written.KVBursts()/2) || c.clocks-first.clocks != 2*d.written.Write(1, 3) || d.written.KVBursts() != 8 {
		t.Errorf("bounds add %+v to %+v", c, first)
	}
	// Lists of pages and bounds go down together.
	h := &Homes{Attends: &flow.Attends{Heads: 8}, bound: 100, group: 4}
	x := &policy.Step{Choose: []policy.Choice{{Heads: 8, Keep: 7, Ranked: []int{9}}, {Device: "bank", Heads: 8, Keep: 7, Ranked: []int{9}}, {Heads: 8, Keep: 7, Ranked: []int{0}}, {Heads: 2, Keep: 5, Ranked: []int{9}, Lists: 3, PerQueryHead: true}}, Bounds: policy.Bounds{Heads: 8, Down: []int{2}}}
	if got, want := h.lists(x), units.Bytes(2*8*7+2*2*5*3*4+8*2*100); got != want {
		t.Errorf("%d B of lists and bounds, by hand %d", got, want)
	}
}

// TestPartsOfClassesByHand: a part has the heads of all classes at home; only the class with the newest token has fresh keys and values; the first head waits for its own drain.
func TestPartsOfClassesByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=4", "comm.stripe=channels"))
	x := &policy.Step{Attend: []policy.Class{{Device: policy.Home, Heads: 4, Tokens: []int{9, 1100}}, {Device: policy.GPU, Heads: 8, Tokens: []int{9, 1100}}, {Device: policy.Home, Heads: 8, Tokens: []int{9, 600}}}}
	for part, want := range []struct {
		v       vectors
		heads   []int64
		attends bool
	}{
		{vectors{heads: 3, All: 12}, []int64{d.Stored.At(512), d.Stored.At(512), d.Stored.At(512)}, true},
		{vectors{heads: 3, All: 12, fresh: 2, freshAll: 8}, []int64{d.Stored.At(512), d.Sequence.At(88), d.Sequence.At(88)}, true},
		{vectors{heads: 1, All: 4, fresh: 1, freshAll: 4}, []int64{d.Sequence.At(76)}, true},
		{vectors{}, nil, false},
	} {
		var g GroupCost
		v, attends := d.placePart(&g, x, 1, part, 0, -1)
		clocks := int64(0)
		for _, head := range want.heads {
			clocks += head
		}
		if v != want.v || attends != want.attends || !slices.Equal(g.Heads, want.heads) || g.Clocks != clocks || (g.Drain > 0) != attends {
			t.Errorf("part %d: %+v and %+v, by hand %+v", part, v, g, want)
		}
	}
}

// TestApartByHand: heads that do not divide evenly begin on each request's own channel, unless their places are fixed.
func TestApartByHand(t *testing.T) {
	for _, c := range []struct {
		rest  int
		fixed bool
		want  bool
	}{{0, false, false}, {0, true, false}, {1, false, true}, {2, false, true}, {1, true, false}} {
		var d Devices
		if d.Rest, d.Fixed = c.rest, c.fixed; d.Apart() != c.want {
			t.Errorf("%+v: %v", c, d.Apart())
		}
	}
}

// TestChannelsOfHeads: heads that divide over the channels are in blocks, others are dealt.
func TestChannelsOfHeads(t *testing.T) {
	odd := devicesOf(benchOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=3"))
	even, _ := cached(t, scheduler.PrefixOnGPU)
	odd.first, even.first = []int32{0, 3}, []int32{0, 3} // request 1 begins on channel 2
	for head := range 8 {
		if a, b := odd.ChannelOf(1, head), even.ChannelOf(1, head); a != (head+2)%3 || b != (head/2+2)%4 {
			t.Errorf("head %d lies on channels %d and %d", head, a, b)
		}
	}
	if a, b := odd.ChannelOf(0, 0), int(Scattered(0)%3); a != b || odd.ChannelOf(7, 1) != int(Scattered(7)%3+1)%3 {
		t.Errorf("a request that was given no channel begins on %d, by hand %d", a, b)
	}
	odd.Fixed = true
	if odd.ChannelOf(1, 4) != 1 {
		t.Error("heads that are fixed begin on channel 0")
	}
}
