package kinds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// TestLayerOperationsByHand: the operations of one layer, with all numbers different. Group 1 decodes, has a prompt's keys and values, and
// data that leave the GPUs; group 0 has a prefix that goes up. Groups of the second sub-batch are numbered after those of the first.
func TestLayerOperationsByHand(t *testing.T) {
	shipment := func(n units.Duration) ranks.Shipment {
		return ranks.Shipment{Pieces: int(n), Link: n + 1, Last: n + 2, Open: n + 3, Close: n + 4, Data: n + 5, Bus: n + 6, End: n + 7}
	}
	op := func(resource int, kind uint8, lane int16, x ranks.Shipment) dataflow.Op {
		return dataflow.Op{Resource: int8(resource), Kind: kind, Lane: lane, Group: 2 + lane, Pieces: int32(x.Pieces), Time: x.Link, Last: x.Last, Open: x.Open, Close: x.Close, Bus: x.Data, Claims: onRanksets + 1}
	}
	for _, c := range []struct{ async, concurrent, buffered bool }{{true, true, false}, {false, true, false}, {true, false, false}, {true, true, true}, {false, false, true}} {
		costs := newIterationCosts(2, 2, dataflow.Run{})
		costs.asyncPrefill, costs.concurrent, costs.buffered = c.async, c.concurrent, c.buffered
		sub := &costs.sub[1]
		sub.block, sub.prefillAttention, sub.window = 1000, 300, 200
		sub.groups[0].Prefix.Tokens, sub.groups[0].Prefix.Read, sub.groups[0].Prefix.Data, sub.groups[0].Prefix.Up = 9, 31, 32, 33
		sub.groups[1] = ranks.GroupCost{Requests: 2, Decode: shipment(10), Heads: []int64{4, 5}, Compute: 50, Up: 60, UpBus: 70, Prompt: ranks.Cargo{Tokens: 1, Shipment: shipment(20)}, Leaving: ranks.Cargo{Tokens: 1, Shipment: shipment(40)}}
		var it dataflow.Iteration
		costs.layer(&it, sub, 1, 7)

		var want []dataflow.Op
		var waits [][]int32
		add := func(o dataflow.Op, after ...int32) int32 {
			if o.Claims > 0 && !c.concurrent {
				o.Flags |= dataflow.ClaimAll
			}
			want, waits = append(want, o), append(waits, after)
			return int32(len(want) - 1)
		}
		send := func(kind uint8, x ranks.Shipment, after ...int32) int32 {
			o := op(onLinkDown, kind, 1, x)
			if kind != flow.OpDecodeDown {
				o.Class = 1
				if len(after) > 0 {
					o.Flags = dataflow.OnStart
				}
			}
			if c.buffered {
				o.Claims = 0
			}
			i := add(o, after...)
			if !c.buffered {
				return i
			}
			return add(dataflow.Op{Resource: onWriter, Kind: flow.OpWrite, Lane: 1, Group: 3, Pieces: int32(x.Pieces), Time: x.Bus, Last: x.End, Open: x.Open, Close: x.Close, Flags: dataflow.Stream, Claims: onRanksets + 1}, i)
		}
		down := send(flow.OpDecodeDown, shipment(10))
		attends := add(dataflow.Op{Resource: onRanksets, Pieces: 1, Last: 50, Kind: flow.OpAttention, Lane: 1, Group: 3}, down)
		block := []int32{add(dataflow.Op{Resource: onLinkUp, Pieces: 1, Last: 60, Kind: flow.OpResults, Group: 3, Bus: 70}, attends)}
		if !c.async {
			block = append(block, send(flow.OpPromptDown, shipment(20)), send(flow.OpLeaving, shipment(40)))
		}
		read := add(dataflow.Op{Resource: onRanksets, Pieces: 1, Last: 31, Kind: flow.OpPrefixRead, Group: 2, Bus: 32})
		up := add(dataflow.Op{Resource: onLinkUp, Pieces: 1, Last: 33, Kind: flow.OpPrefixUp, Group: 2}, read)
		block = append(block, add(dataflow.Op{Resource: onGPUs, Pieces: 1, Last: 300, Kind: flow.OpPrefillAttention, Group: 2}, up))
		block = append(block, add(dataflow.Op{Resource: onGPUs, Pieces: 1, Last: 200, Kind: flow.OpWindow, Group: 2}))
		last := add(dataflow.Op{Resource: onGPUs, Pieces: 1, Last: 1007, Kind: flow.OpBlock, Group: 2, Flags: dataflow.NextLayer}, block...)
		if c.async {
			send(flow.OpPromptDown, shipment(20), last)
			send(flow.OpLeaving, shipment(40), last)
		}
		if len(it.Ops) != len(want) {
			t.Fatalf("%+v: %d operations, by hand %d", c, len(it.Ops), len(want))
		}
		for i, o := range it.Ops {
			if got := it.After[o.After.From:o.After.To]; !slices.Equal(got, waits[i]) {
				t.Errorf("%+v: operation %d waits for %v, by hand %v", c, i, got, waits[i])
			}
			if parts := it.Parts[o.Parts.From:o.Parts.To]; (o.Kind == flow.OpAttention) != slices.Equal(parts, []int64{4, 5}) {
				t.Errorf("%+v: operation %d has parts %v", c, i, parts)
			}
			if o.After, o.Parts = (dataflow.Range{}), (dataflow.Range{}); o != want[i] {
				t.Errorf("%+v: operation %d\n%+v, by hand\n%+v", c, i, o, want[i])
			}
		}
	}
}

// TestTrafficLawByHand: attention of 3 layers and 2 layers, and the channels' traffic for it, must equal the work
// done.
func TestTrafficLawByHand(t *testing.T) {
	e := rigOf(t).l3()
	e.costs = newIterationCosts(2, 1, dataflow.Run{Kind: 0, Count: 3}, dataflow.Run{Kind: 1, Count: 2})
	e.costs.buffered = true
	e.Attends.SetRuns([]int{3, 2}, []int{0, 1})
	e.costs.sub[0].active = true
	e.costs.sub[0].groups[0] = ranks.GroupCost{Requests: 1, Compute: 7 * units.Second, UpBus: 11 * units.Second}
	e.costs.of(1)[0].groups[0] = ranks.GroupCost{Requests: 1, Compute: 13 * units.Second, UpBus: 17 * units.Second}
	e.costs.sub[1].groups[0] = ranks.GroupCost{Requests: 1, Compute: 1000 * units.Second} // of an earlier iteration
	for _, c := range [][3]units.Duration{{47, 67, 0}, {48, 67, 1}, {47, 66, 1}} {
		e.Check = &flow.Checker{}
		done := flow.Work{}
		done.Time[flow.OfPIM], done.Time[flow.OfChannel] = c[0]*units.Second, c[1]*units.Second
		e.checkTraffic(&scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}, units.Second, &done)
		got, want := fmt.Sprint(e.Check.Err()), fmt.Sprintf("attention takes %ds and the channels carry data for %ds, want 47s and 67s", c[0], c[1])
		if strings.Contains(got, want) != (c[2] == 1) || strings.Contains(got, "attention takes") != (c[2] == 1) {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// TestNearLawByHand: the GPUs read the contexts of two requests of 1,000 and 3,000 tokens in their memory at its bandwidth, or slower.
func TestNearLawByHand(t *testing.T) {
	e := rigOf(t, "run.model=llama-3-8b", "memory.spare=decode").replica(nil).Engine.(*l3)
	b := &scheduler.Batch{Step: 4, Sub: []scheduler.SubBatch{{Near: []scheduler.Decoding{{Base: 996, Prompt: 900}}}, {Near: []scheduler.Decoding{{Base: 2996, Prompt: 10}}}}}
	least := units.FromSeconds(float64(4000*32*4096) / float64(e.HBMPeak))
	for less := range units.Duration(2) {
		e.Check = &flow.Checker{}
		e.checkNear(b, units.Second, least-less)
		want := fmt.Sprintf("the GPUs attend for %v, what they decode takes %v to read", least-less, least)
		if got := fmt.Sprint(e.Check.Err()); strings.Contains(got, want) != (less > 0) || (less == 0) != (e.Check.Err() == nil) {
			t.Errorf("%v too few: %s", less, got)
		}
	}
	// At the end of the iteration, traffic is checked against the GPUs' attention time.
	e.Check = &flow.Checker{}
	done := flow.Work{}
	done.Time[flow.OfAttention] = least - 1
	e.checkTraffic(b, 5*units.Second, &done)
	if got := fmt.Sprint(e.Check.Err()); !strings.Contains(got, "at 5s: the GPUs attend for") {
		t.Error(got)
	}
}

// TestLearnedSamples: a learned predictor gets a sample of each sub-batch that ran, with the prompts that the other sub-batch
// moves.
func TestLearnedSamples(t *testing.T) {
	n := rigOf(t, "run.model=llama-3-8b", "predictor.kind=learned")
	e := n.l3()
	if e.learned == nil || rigOf(t).l3().learned != nil {
		t.Fatal("which replicas learn")
	}
	sub := *decoding(3, 400)
	prompts := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 256, Last: true}}}
	for _, c := range []struct {
		subs  []scheduler.SubBatch
		i     int
		other int
	}{{[]scheduler.SubBatch{prompts, sub}, 1, prompts.MovedTokens()}, {[]scheduler.SubBatch{sub, prompts}, 1, 0}, {[]scheduler.SubBatch{sub, {}}, 0, 0}, {[]scheduler.SubBatch{{}, sub}, 1, 0}, {[]scheduler.SubBatch{sub}, 0, 0}} {
		b := &scheduler.Batch{Step: 1, Sub: c.subs}
		var want scheduler.Sample
		want.Set(&c.subs[c.i], 1, c.other)
		e.measure(&want, b, c.i, c.other)
		e.sample = scheduler.Sample{}
		if err := e.observe(b); err != nil {
			t.Fatal(err)
		}
		if got := e.sample; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: a sample of %+v, by hand %+v", c, got, want)
		}
	}
	if prompts.MovedTokens() == 0 {
		t.Error("the prompts move nothing")
	}
	// A run adds a sample.
	before := e.sample
	if _, err := e.Run(&scheduler.Batch{Step: 9, Sub: []scheduler.SubBatch{*decoding(5, 777), {}}}, 0); err != nil || fmt.Sprint(e.sample) == fmt.Sprint(before) {
		t.Error("an iteration that runs is not seen", err)
	}
}

// TestMeasureByHand: the parts of a sample on the GPUs, with a policy that chooses pages there in all layers but two.
func TestMeasureByHand(t *testing.T) {
	e := rigOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=gpu", "pcie.join=3us").l3()
	sub := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 256, Finished: 512, Last: true}, {Tokens: 16}}}
	for i := range 3 {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(60_000 + i), Prompt: int32(60_000 + i)})
	}
	b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{sub, {}}}
	var m scheduler.Sample
	m.Set(&sub, 1, 0)
	e.measure(&m, b, 0, 0)
	g := e.StageRuns(&sub)
	layers := units.Duration(32)
	want := g.Entry + (layers-1)*g.Block + g.Exit + layers*e.join
	chooses := units.Duration(0)
	for run, count := range e.Attends.Runs {
		l := &g.Layers[run]
		want += units.Duration(count) * (l.Attention - l.Prompts + l.Merge + l.Chooses)
		chooses += l.Chooses
	}
	if m.FC != want || chooses == 0 || m.PIM != e.ranks.PIM(&sub, 1, 0) || m.PIM == 0 {
		t.Errorf("a sample has %v and %v, by hand %v", m.FC, m.PIM, want)
	}
	a := e.ModelCost.Attention()
	for i := range sub.Prefill {
		k := e.PromptAttention(&a, &sub.Prefill[i], 0)
		if want := layers * (k.Took(g.Slow) + e.ranks.ScoringOf(&sub.Prefill[i])); m.Chunks[i].Time != want {
			t.Errorf("chunk %d takes %v, by hand %v", i, m.Chunks[i].Time, want)
		}
	}
	e.decodeBeside(&sub, 1)
	if got, want := e.GPU(&sub, 1), e.GPUTime(&sub)+e.ranks.Scoring(&sub)+layers*e.join; got != want {
		t.Errorf("predicted are %v, by hand %v", got, want)
	}
	// Selection and merges on the GPUs count for all layers.
	costs := newIterationCosts(2, len(e.costs.sub[0].groups), e.costs.order...)
	e.fill(&costs, b)
	var all units.Duration
	for run, count := range e.Attends.Runs {
		all += units.Duration(count) * g.Layers[run].Chooses
		if got, l := &costs.of(run)[0], &g.Layers[run]; got.chooses != l.Chooses || got.window != l.Attention-l.Prompts || got.prefillAttention != l.Prompts || got.block != g.Block+l.Merge+e.join || got.exit != g.Exit+l.Merge+e.join {
			t.Errorf("run %d: %+v, by hand %+v", run, got, l)
		}
	}
	if got := costs.sub[0].use.Chooses; got != all || all == 0 || len(e.Attends.Runs) != 2 {
		t.Errorf("pages are chosen in %v, by hand %v", got, all)
	}
}

// TestBesideRanksByHand: heads that attend on the GPUs in parallel with the ranks are batches there, with their
// passes.
func TestBesideRanksByHand(t *testing.T) {
	step := policy.Step{
		Attend: []policy.Class{{Device: policy.Home, Heads: 5, Tokens: []int{100, 70, 10}}, {Device: policy.GPU, Heads: 3, Tokens: []int{9, 8, 7}}},
		Passes: []policy.Pass{{Device: policy.GPU, Kernels: 2, Bytes: 5e6}, {Device: policy.Home, Bytes: 3e6}}, Merged: 3,
	}
	for _, counts := range []bool{true, false} {
		e := rigOf(t, "run.model=llama-3-8b").l3()
		e.counts = counts
		e.Attends.Policy = &scripted{Costs: e.Attends.Policy, step: step}
		sub := scheduler.SubBatch{Decode: three}
		e.ask(&sub, 1)
		x := e.beside(&sub, 0, 1, false)
		want := gpus.Decoding{Batches: []gpu.DecodeBatch{{Requests: 3, Tokens: 24, Longest: 9, KVHeads: 3}}}
		if counts {
			want.Beside, want.Merge = e.Passes(x, policy.GPU), e.ModelCost.Merge(3)
		}
		if got := e.Decoding[0]; !slices.Equal(got.Batches, want.Batches) || got.Beside != want.Beside || got.Merge != want.Merge || got.Chooses != want.Chooses || counts && want.Beside.Seconds == 0 {
			t.Errorf("counts %t: %+v, by hand %+v", counts, got, want)
		}
	}
}

// TestQueriesAtTheHostByHand: eight queries of each of three requests send 24 vectors to CPUs that attend for one request at a time.
func TestQueriesAtTheHostByHand(t *testing.T) {
	// A step is bound by reads, or on slow CPUs by operations, which double with two queries.
	for _, compute := range []string{"1.0", "0.01"} {
		cfg, err := Loader().Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "run.model=llama-3-8b", "model.tensor_parallel=2", "cpu_offload.compute_efficiency=" + compute}})
		if err != nil {
			t.Fatal(err)
		}
		h := NewHostAttention(cfg)
		h.Attends.Copies = 3
		for _, c := range [][3]int{{3, 8, 900}, {3, 1, 900}, {1, 2, 50}} {
			requests, queries, tokens := c[0], c[1], c[2]
			down, up := h.Attends.Vectors(requests * queries)
			took := h.Attend(int64(requests * tokens))
			if queries > 1 {
				took = units.Duration(requests) * h.AttendNew(queries, tokens)
			}
			want := h.Around + flow.TransferTime(h.Link, down) + h.Overhead + took + flow.TransferTime(h.Link, up)
			if got := h.OnCPUs(requests, queries, tokens); got != want {
				t.Errorf("%v: %v, by hand %v", c, got, want)
			}
			_, transfer := h.Loaded(requests, queries, tokens)
			if want := h.Latency + flow.TransferTime(h.Link, h.Attends.Copies*units.Bytes(requests*tokens)*4096); transfer != want {
				t.Errorf("%v: loaded in %v, by hand %v", c, transfer, want)
			}
		}
	}
}

// TestStandInByHand: other links, the GPUs' power while they wait, and slower or faster kernels around attention of a given time.
func TestStandInByHand(t *testing.T) {
	cfg, err := Loader().Load(configs.Options{Sets: []string{"run.system=l3", "run.model=llama-2-7b", "model.tensor_parallel=2", "scheduler.sub_batches=1", "pcie.join=5us", "node.ranksets=3"}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := StandInOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := x.IdleWatts(), 2*cfg.GPU.Power.ActiveIdle; got != want || x.Link() != cfg.PCIe || x.costs.halfDuplex {
		t.Errorf("%v W, by hand %v", got, want)
	}
	if !slices.ContainsFunc(x.Flow.Resources, func(r flow.Resource) bool { return r.Discipline == dataflow.Lanes && r.Count == 3 }) {
		t.Errorf("no lanes of three ranksets among %+v", x.Flow.Resources)
	}
	b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*decoding(4, 600)}}
	run := func(attention units.Duration, scale float64) (units.Duration, float64) {
		took, joules, err := x.Iteration(b, attention, scale)
		if err != nil {
			t.Fatal(err)
		}
		return took, joules
	}
	one, joules := run(units.Millisecond, 1)
	if three, same := run(3*units.Millisecond, 1); three-one != 32*2*units.Millisecond || same != joules || joules <= 0 {
		t.Errorf("attention of 2 ms more takes %v more, and %v J after %v", three-one, same, joules)
	}
	double, _ := run(units.Millisecond, 2)
	if got, want := double-one, x.GPUTime(b); math.Abs(float64(got-want)) > 1e-3*float64(want) {
		t.Errorf("kernels of twice their time take %v more, by hand %v", got, want)
	}
	link := cfg.PCIe
	link.Latency += 7 * units.Microsecond
	x.SetLink(link)
	if later, _ := run(units.Millisecond, 1); later-one != 32*2*7*units.Microsecond || x.Link() != link || cfg.PCIe == link {
		t.Errorf("links of 7 us more take %v more", later-one)
	}
	prompts := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{{Prefill: []scheduler.Chunk{{Tokens: 900, Last: true}}}}}
	took, joules, err := x.Iteration(prompts, units.Millisecond, 1)
	if err != nil || joules <= 0 || took < x.GPUTime(prompts) {
		t.Errorf("prompts take %v and %v J; %v", took, joules, err)
	}
}

// TestHiddenPrefixesByHand: prefixes that go up together with the ranks' results add to the time of links and channels, in each layer.
func TestHiddenPrefixesByHand(t *testing.T) {
	e := rigOf(t, "run.system=rank-pim", "run.model=llama-2-7b", "node.ranksets=2").replica(nil).Engine.(*rankPIM)
	groups := e.groups[0]
	e.ranks.Gather(groups, decoding(4, 900), e.Attends.Decode(decoding(4, 900).Decode, 0, 1), 0)
	transfers := func() (down, up, channel units.Duration) {
		before := e.Work
		e.Reset()
		e.transfers(groups)
		did := e.Work.Since(&before)
		return did.Time[flow.OfDown], did.Time[flow.OfUp], did.Time[flow.OfChannel]
	}
	down, up, channel := transfers()
	groups[1].Prefix.Tokens, groups[1].Prefix.Up, groups[1].Prefix.Data = 10, 3*units.Microsecond, 2*units.Microsecond
	all := e.ranks.Together(groups)
	d, u, c := transfers()
	if d != down || u != up+32*all.Prefix.Up || c != channel+32*all.Prefix.Data || up == 0 || down == 0 || channel == 0 {
		t.Errorf("with a prefix %v down, %v up, %v on the channels; by hand %v up and %v on the channels more, in each of 32 layers", d-down, u-up, c-channel, all.Prefix.Up, all.Prefix.Data)
	}
}

// TestIdleSubBatchesByHand: an idle sub-batch adds nothing to the ranksets' load, whatever it did before.
func TestIdleSubBatchesByHand(t *testing.T) {
	costs := newIterationCosts(2, 2, dataflow.Run{Kind: 0, Count: 3})
	costs.sub[0].active = true
	for g := range 2 {
		costs.sub[0].groups[g] = ranks.GroupCost{Requests: 1, Compute: units.Second}
	}
	costs.sub[1].groups[0] = ranks.GroupCost{Requests: 1, Compute: 1000 * units.Second}
	var m flow.Imbalance
	if costs.imbalance(&m); m.Ratio(2) != 1 {
		t.Errorf("the busiest rankset has %v times the mean, by hand as much", m.Ratio(2))
	}
}

// TestHostMemoryOfStandIns: a stand-in's host memory transfers in both directions at once; a node's channels would not.
func TestHostMemoryOfStandIns(t *testing.T) {
	cfg := rigOf(t, "run.model=llama-3-8b", "node.gpus=16").cfg
	x, err := StandInOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !rigOf(t, "run.model=llama-3-8b", "node.gpus=16").l3().costs.halfDuplex || x.costs.halfDuplex {
		t.Errorf("one direction at a time: %t", x.costs.halfDuplex)
	}
	for policy, counts := range map[string]bool{"dense": false, "quest": true} {
		if x, err := StandInOf(rigOf(t, "run.model=llama-3-8b", "policy.name="+policy).cfg); err != nil || x.counts != counts {
			t.Errorf("%s: counts %t; %v", policy, !counts, err)
		}
	}
}

// TestMergesOfStripesByHand: merging parts of heads counts for all layers.
func TestMergesOfStripesByHand(t *testing.T) {
	e := rigOf(t, "run.system=rank-pim", "run.model=llama-2-7b", "model.tensor_parallel=1", "comm.stripe=ranksets").replica(nil).Engine.(*rankPIM)
	sub := decoding(3, 900)
	if _, err := e.Run(&scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*sub}}, 0); err != nil {
		t.Fatal(err)
	}
	if merge := e.Staged.Layers[0].Merge; merge == 0 || e.Uses[0].Merge != 32*merge {
		t.Errorf("merges take %v, by hand 32 times %v", e.Uses[0].Merge, merge)
	}
}

// TestWindowsOnGPUsByHand: the GPU memory that weights and the shortest chunk's activations leave holds the tokens of a window with its sink, and no
// more.
func TestWindowsOnGPUsByHand(t *testing.T) {
	load := func(window int) error {
		_, err := Loader().Load(configs.Options{Sets: []string{"run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "gpu.memory_capacity=20GiB", "policy.name=window", fmt.Sprint("policy.window.window=", window)}})
		return err
	}
	cfg := rigOf(t, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "gpu.memory_capacity=20GiB", "policy.name=window").cfg
	tokens, _, _ := gpus.Windows(Of(cfg).Derive(cfg), flow.PolicyOf(Of(cfg).Derive(cfg)))
	_, window := cfg.Policy.GPUWindow()
	free := 20*units.GiB - cfg.GPU.MemoryReserve - cfg.Model.WeightBytes() - cfg.Model.ActivationBytes(cfg.Scheduler.ChunkMultiple)
	most := int(free/(128*units.KiB)) - (tokens - window)
	if err := load(most); err != nil || most < 1000 {
		t.Errorf("a window of %d: %v", most, err)
	}
	if err := load(most + 1); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("policy.window.window = %d: expected %d at most, with the sink", most+1, most)) {
		t.Errorf("a window of %d: %v", most+1, err)
	}
}

// TestPrefixesAtHomeByHand: prompts that attend over a prefix in the DIMMs wait for that attention in each layer, in predictions and in
// samples.
func TestPrefixesAtHomeByHand(t *testing.T) {
	e := rigOf(t, "run.model=llama-3-8b", "cache.prefix=true", "cache.block=512", "cache.prefix_attention=dimm").l3()
	sub := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Request: 1, Tokens: 64, Finished: 1024, Prefix: 1024, Last: true}}}
	scoring := e.ranks.ScoringOf(&sub.Prefill[0])
	if got, want := e.GPU(&sub, 1), e.GPUs.GPU(&sub, 1)+32*scoring; got != want || scoring == 0 {
		t.Errorf("predicted are %v, by hand %v", got, want)
	}
	e.counts = true
	if got, want := e.GPU(&sub, 1), e.GPUTime(&sub)+32*scoring; got != want {
		t.Errorf("predicted are %v where tokens are counted, by hand %v", got, want)
	}
	var m scheduler.Sample
	m.Set(&sub, 1, 0)
	e.measure(&m, &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{sub}}, 0, 0)
	a := e.ModelCost.Attention()
	k := e.PromptAttention(&a, &sub.Prefill[0], 0)
	if want := 32 * (k.Took(e.StageRuns(&sub).Slow) + scoring); m.Chunks[0].Time != want {
		t.Errorf("a chunk takes %v, by hand %v", m.Chunks[0].Time, want)
	}
}

// TestReadingOfUnitsByHand: the data sent to units beside the GPUs for a request that verifies three tokens, weights that one reading uses for four tokens, and rows of elements as wide as the units read them.
func TestReadingOfUnitsByHand(t *testing.T) {
	e := rigOf(t, "run.system=hbm-pim", "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2", "hbm_pim.memory_beside=80GiB", "hbm_pim.queries_per_read=4", "hbm_pim.link=100GB/s", "serving.verified_tokens=3", "serving.acceptance=0.5").hbm()
	r := &e.reading
	if want := 3. * ((32+16)*128 + 32*128) / 2 * 2; r.vectors != want || r.link != 100e9 || r.tokens != 4 {
		t.Errorf("%v B of a request cross at %v B/s, by hand %v", r.vectors, r.link, want)
	}
	for tokens, reads := range map[int]float64{1: 1, 4: 1, 5: 2, 9: 3} {
		if got, want := e.weightBytes(tokens, 10), reads*10*3*4096*2; got != want {
			t.Errorf("%d tokens have %v B read, by hand %v", tokens, got, want)
		}
	}
	if got, want := e.crossing(7), flow.TaskTime(7*r.vectors/100e9); got != want || got == 0 {
		t.Errorf("seven requests cross in %v, by hand %v", got, want)
	}
	for _, c := range []struct {
		sets  string
		bytes float64 // of an element as the units read it
	}{{"", 2}, {"model.kv_bits=8", 2}, {"hbm_pim.elements_per_read=2", 2}, {"hbm_pim.elements_per_read=2 model.kv_bits=8", 1}, {"hbm_pim.elements_per_read=2 model.kv_bits=4", 1}, {"hbm_pim.elements_per_read=4 model.kv_bits=8", 1}} {
		e, _ := commandUnits(t, append(strings.Fields(c.sets), "run.model=llama-3-8b")...)
		all := 8 * 2 * 128 * 8192 * c.bytes
		if want := float64(e.slots) * all / (e.clock * e.stack.Clocks(8, 8192)); math.Abs(e.reading.rate/want-1) > 1e-12 {
			t.Errorf("%s: %g B/s, by hand %g", c.sets, e.reading.rate, want)
		}
	}
}

// TestImbalanceOfKindsByHand: five layers of one kind and one of another weigh as six layers: the busiest of two ranksets has
// 5 · 3 + 1 · 20 seconds of 5 · 4 + 1 · 20 in all. Equal runs count with all their layers.
func TestImbalanceOfKindsByHand(t *testing.T) {
	c := newIterationCosts(1, 2, dataflow.Run{Kind: 0, Count: 2}, dataflow.Run{Kind: 1, Count: 1}, dataflow.Run{Kind: 0, Count: 3})
	c.sub[0].active = true
	c.sub[0].groups[0] = ranks.GroupCost{Requests: 1, Compute: 3 * units.Second}
	c.sub[0].groups[1] = ranks.GroupCost{Requests: 1, Compute: 1 * units.Second}
	c.of(1)[0].groups[0] = ranks.GroupCost{Requests: 1, Compute: 20 * units.Second}
	var m flow.Imbalance
	c.imbalance(&m)
	if got, want := m.Ratio(2), 2*(5*3+20.0)/(5*4+20); got != want {
		t.Errorf("an imbalance of %v, want %v", got, want)
	}
}
