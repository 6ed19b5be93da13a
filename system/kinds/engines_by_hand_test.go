package kinds

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// TestHostLedgersByHand: NEO has requests on the host beside those on the GPUs, FastDecode all of them there.
func TestHostLedgersByHand(t *testing.T) {
	for of, all := range map[string]bool{"neo": false, "fastdecode": true} {
		n := rigOf(t, "run.system=cpu-offload", "run.model=llama-3-8b", "cpu_offload.policy="+of)
		s := n.loop(nil, nil).Batcher
		if s.HostLedger == nil || s.HostLedger.Capacity() != hosts.Pages(n.Hardware)*int64(n.cfg.Batching.PageTokens) && s.HostLedger.Capacity() != hosts.Pages(n.Hardware) || s.AllOnHost != all {
			t.Errorf("%s: %+v, all on the host %t", of, s.HostLedger, s.AllOnHost)
		}
		gpu, host := gpus.Memory(n.Hardware), hosts.Memory(n.Hardware)
		if got := n.system.Memory(n.Hardware); got.Capacity != gpu.Capacity+host.Capacity || got.Unit != host.Unit || gpu.Capacity == 0 || host.Capacity == 0 {
			t.Errorf("%s: %+v, on the GPUs %+v, on the host %+v", of, got, gpu, host)
		}
	}
}

// TestWindowsBesideTheHost: HGCA keeps a window of each request on the GPUs, which their memory has in three separate numbers; dense attention
// keeps none.
func TestWindowsBesideTheHost(t *testing.T) {
	for policy, keeps := range map[string]bool{"hgca": true, "dense": false} {
		n := rigOf(t, "run.system=gpu+cpu", "run.model=gpt-89b", "policy.name="+policy)
		r := n.loop(nil, nil)
		window, prompt, share := gpus.Windows(n.Hardware, r.Engine.(*gpuCPU).Attends.Policy)
		if g := r.Batcher.GPU; g.Window != window || g.PromptShare != prompt || g.Share != share || (window > 0) != keeps || g.Free != gpus.FreeMemory(n.Hardware) {
			t.Errorf("%s: a window of %d tokens, shares of %v and %v; want %d, %v and %v", policy, g.Window, g.PromptShare, g.Share, window, prompt, share)
		}
	}
}

// TestMovesAloneByHand: an iteration that only moves keys and values takes as long as it waits for the links, and no time without a wait.
func TestMovesAloneByHand(t *testing.T) {
	e := rigOf(t, "run.system=cpu-offload", "run.model=llama-3-8b").replica(nil).Engine.(*cpuOffload)
	for _, c := range [][2]units.Duration{{0, 0}, {5, 0}, {0, 7}, {5, 7}, {9, 7}} {
		b := &scheduler.Batch{Step: 1, Sub: make([]scheduler.SubBatch, 2)}
		b.Moves.Down, b.Moves.Up = scheduler.Move{Tokens: 300, Wait: c[0] * units.Millisecond}, scheduler.Move{Tokens: 200, Wait: c[1] * units.Millisecond}
		before := e.Work
		end, err := e.Run(b, units.Second)
		did := e.Work.Since(&before)
		if err != nil || end-units.Second != max(c[0], c[1])*units.Millisecond || did.Time[flow.OfDown] != e.Moved(300) || did.Time[flow.OfUp] != e.Fetched(200) || did.Time[flow.OfGPU] != 0 {
			t.Errorf("%v: ends at %v, links %v and %v; %v", c, end, did.Time[flow.OfDown], did.Time[flow.OfUp], err)
		}
		if e.Check.Err() != nil {
			t.Error(e.Check.Err())
		}
	}
	if e.Linear(0) != 0 || e.Linear(1) != e.Sustained(&e.Dense.At(1).Block) || e.Linear(1) == 0 {
		t.Errorf("one row takes %v", e.Linear(1))
	}
}

// TestHostLinksByHand: bytes on the links in each layer: vectors and fetched keys and values, what is loaded, and
// what leaves. With overlapping layers, the channels are busy beside the links.
func TestHostLinksByHand(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		e := gpuCPUOf(t, "run.model=llama-3-8b")
		e.Attends.Policy = &scripted{Costs: e.Attends.Policy, step: policy.Step{
			Attend:  []policy.Class{{Device: policy.Home, Heads: 8, Tokens: []int{100, 70, 30}}, {Device: policy.GPU, Heads: 8, Tokens: []int{9, 8, 7}}},
			Leave:   []policy.Leaving{{Heads: 8, Tokens: []int{3}}},
			Fetched: []int{20, 0, 4}, Ahead: ahead,
		}}
		before := e.Work
		if _, err := e.Run(&scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{{Decode: three}}}, 0); err != nil {
			t.Fatal(err)
		}
		did, h := e.Work.Since(&before), &e.home[0]
		down, up := 32*(flow.TransferTime(e.Link, h.down)+flow.TransferTime(e.Link, h.leaves)), 32*flow.TransferTime(e.Link, h.up)
		if did.Time[flow.OfDown] != down || did.Time[flow.OfUp] != up || h.down == h.up || h.leaves == 0 {
			t.Errorf("ahead %t: links %v and %v, by hand %v and %v", ahead, did.Time[flow.OfDown], did.Time[flow.OfUp], down, up)
		}
		if ahead && did.Time[flow.OfChannel] != 32*h.took || did.Time[flow.OfChannel] == 0 {
			t.Errorf("ahead %t: the channels %v, by hand %v", ahead, did.Time[flow.OfChannel], 32*h.took)
		}
		if c := e.Attends.Counted; c.Steps != 3 || c.Tokens[0] != 8*(200+24) {
			t.Errorf("counted %+v, by hand three steps over 224 tokens of eight heads", c)
		}
	}
}

// TestTierOfEnginesByHand: blocks that move between GPUs and host keep the links busy, in an iteration on the GPUs and in one with units in HBM. What
// was evicted when the previous iteration ended has had the links since.
func TestTierOfEnginesByHand(t *testing.T) {
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		n := rigOf(t, "run.system="+system, "run.model=llama-3-8b", "cache.prefix=true", "cache.host_capacity=64GiB")
		e := n.replica(nil).Engine
		b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*decoding(2, 100)}}
		b.Moves.Down.Tokens, b.Moves.Up.Tokens = 40_000, 30_000
		end, err := e.Run(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		rate := min(n.Hardware.Links(), n.Hardware.Channels())
		down := flow.TransferTime(rate, 40_000*128*units.KiB)
		if w := &e.Core().Work; w.Time[flow.OfDown] != down || w.Time[flow.OfUp] == 0 || end < down {
			t.Errorf("%s: links %v and %v until %v, by hand %v down", system, w.Time[flow.OfDown], w.Time[flow.OfUp], end, down)
		}
		// An iteration without moves, then one whose blocks have all gone since it ended.
		b.Moves = scheduler.Moves{}
		plain, err := e.Run(b, end)
		if err != nil {
			t.Fatal(err)
		}
		b.Moves.Down.Tokens, b.Moves.Earlier = 1000, 1000
		start := plain + units.Second
		if later, err := e.Run(b, start); err != nil || later-start != plain-end {
			t.Errorf("%s: an iteration takes %v, without moves %v; %v", system, later-start, plain-end, err)
		}
		b.Moves.Down.Tokens, b.Moves.Earlier = 40_000, 40_000
		if full, err := e.Run(b, start+plain-end); err != nil || full-(start+plain-end) < down {
			t.Errorf("%s: blocks that leave at once take %v of %v; %v", system, full-(start+plain-end), down, err)
		}
	}
}

// TestHBMMemoryByHand: stacks beside the GPUs leave the GPUs' memory for prompts; other stacks share it. If each request is in one channel, the memory
// counts as so many ranksets, each with its part.
func TestHBMMemoryByHand(t *testing.T) {
	of := func(sets ...string) (*rig, HBMPIM) {
		n := rigOf(t, append([]string{"run.system=hbm-pim", "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2", "hbm_pim.capacity_share=0.5"}, sets...)...)
		return n, configs.Section[HBMPIM](n.cfg)
	}
	n, h := of()
	all := hbmMemories(n.Hardware)
	if !all.GPU.HoldsKV || h.gpuShare() != 0.5 || n.Hardware.GPUShare != 0.5 || all.Ledger.Capacity() == 0 {
		t.Errorf("in the GPUs' own memory %+v, share %v", all.GPU, h.gpuShare())
	}
	n, h = of("hbm_pim.memory_beside=8GiB")
	all = hbmMemories(n.Hardware)
	if want := units.Bytes(2 * 0.5 * 8 * float64(units.GiB)); all.GPU.HoldsKV || all.GPU.Free != gpus.FreeMemory(n.Hardware) || all.GPU.Free == 0 || h.gpuShare() != 1 || h.beside(&n.cfg.Model) != want || hbmMemory(n.Hardware).Capacity != int64(want/hbmMemory(n.Hardware).Unit) {
		t.Errorf("beside %+v, share %v, %v", all.GPU, h.gpuShare(), h.beside(&n.cfg.Model))
	}
	n, h = of("hbm_pim.placement=channel")
	pages := gpus.Memory(n.Hardware).Capacity
	if got := hbmMemory(n.Hardware).Capacity; got != pages-pages%int64(h.channels()) || got == 0 || h.channels() != 16*h.Stacks {
		t.Errorf("%d pages over %d channels, of %d", got, h.channels(), pages)
	}
	if l := hbmMemories(n.Hardware).Ledger; l.Ranksets() != h.channels() {
		t.Errorf("%d ranksets", l.Ranksets())
	}
	// Copies of half of 14,336/2 columns: 32 layers, two GPUs, three matrices of 4,096 rows, two bytes each.
	_, h = of("hbm_pim.memory_beside=80GiB", "hbm_pim.feed_forward=0.5")
	n, _ = of("hbm_pim.memory_beside=80GiB", "hbm_pim.feed_forward=0.5")
	if columns, bytes := h.copied(n.cfg); columns != 3584 || bytes != 32*2*3584*3*4096*2 {
		t.Errorf("%d columns in %d B", columns, bytes)
	}
}

// TestTallyByHand: with 2 heads more than channels, two channels have one head more than the others, on each of the
// GPUs.
func TestTallyByHand(t *testing.T) {
	e, _ := commandUnits(t, "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2", "hbm_pim.queries_per_read=4")
	requests := (e.slots + 2) / 2 // four KV heads a GPU, two of them in this class
	b := gpu.DecodeBatch{Requests: requests, Tokens: int64(requests * 700), Longest: 700, KVHeads: 4}
	heads := requests * 2
	if heads != e.slots+2 || e.reads != 1 {
		t.Fatal(heads, e.slots, e.reads)
	}
	want := e.stack.Tally(2, 700)
	two, one := e.tally(b, 1), e.stack.Tally(1, 700)
	sum := want.Plus(want, 1).Plus(one, float64(e.slots-2))
	if all := sum.Plus(sum, 1); two != all {
		t.Errorf("%+v, by hand %+v", two, all)
	}
}

// TestSpareGroupsByHand: two sub-batches save what the groups of both save.
func TestSpareGroupsByHand(t *testing.T) {
	e := rigOf(t, sharing("hbm-pim", "hbm_pim.bandwidth_factor=1")...).hbm()
	sub := func() scheduler.SubBatch {
		s := *decoding(40, 9000)
		x := scheduler.Shared{Tokens: 8192}
		for i := range s.Decode {
			x.Requests = append(x.Requests, int32(i))
		}
		s.Shared = []scheduler.Shared{x}
		return s
	}
	b := &scheduler.Batch{Step: 0, Grouped: 1, Sub: []scheduler.SubBatch{sub(), sub()}}
	grouped, err := e.grouped(b, 0)
	if want := int64(2 * 39 * 8192); err != nil || !grouped || e.Attends.Spared != want || e.Attends.Counted.Steps != 0 {
		t.Errorf("grouped %t: %d tokens spared, by hand %d; %v", grouped, e.Attends.Spared, want, err)
	}
	// In a batch without groups nothing is tried.
	e.Attends.Spared = 0
	b.Grouped, b.Sub[0].Shared, b.Sub[1].Shared = 2, nil, nil
	if grouped, err := e.grouped(b, 0); grouped || err != nil || e.Attends.Spared != 0 {
		t.Errorf("without groups %t, %v", grouped, err)
	}
}

// TestSystemsOfLoaders: the systems of a loader, and those of a nil one.
func TestSystemsOfLoaders(t *testing.T) {
	mine := otherSystem()
	ld, err := Extend(policies.Builtin(), mine)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range In(ld) {
		names = append(names, s.Name)
	}
	if want := []string{"l3", "gpu-only", "hbm-pim", "rank-pim", "cpu-offload", "gpu+cpu", "sparse-offload", "mine"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	var none *System
	h := none.Derive(rigOf(t).cfg)
	if h.GPUShare != 1 || slices.Contains(none.Policies(), "hgca") {
		t.Errorf("of no system %+v, %v", h, none.Policies())
	}
	for _, s := range []*System{none, &gpuOnlySystem} {
		for _, h := range []*flow.Hardware{nil, {}} {
			if _, err := s.Measure(h); err == nil || !strings.Contains(err.Error(), "that of a system, as Derive returns") {
				t.Errorf("%v of %v: %v", s, h, err)
			}
		}
	}
	if _, err := none.Measure(rigOf(t).Hardware); err == nil {
		t.Error("no system measures")
	}
	broken := mine
	broken.Name, broken.Section, broken.Defaults = "broken", "broken", "[broken]\nx = 1"
	broken.Zero = GPUOnly{}
	if _, err := Extend(policies.Builtin(), broken); err == nil || !strings.Contains(err.Error(), `system "broken": `) {
		t.Error(err)
	}
}

// TestRanksOfRankPIM: the groups of the second of two sub-batches are numbered after those of the first. A block waits for the ranks of its
// own sub-batch. Prompts add the time of their keys and values on links and channels.
func TestRanksOfRankPIM(t *testing.T) {
	e := rigOf(t, "run.system=rank-pim", "run.model=llama-2-7b", "model.tensor_parallel=1", "node.ranksets=3", "pcie.join=5us", "rank_pim.sub_batches=always").replica(nil).Engine.(*rankPIM)
	two := decoding(2, 500)
	two.Decode[0].Offset, two.Decode[1].Offset = 2, 1
	prompts := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Request: 5, Tokens: 64, Offset: 1}}}
	prompts.Decode = append(prompts.Decode, scheduler.Decoding{Request: 3, Base: 900, Offset: 2})
	b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*two, prompts}}
	before := e.Work
	if _, err := e.Run(b, 0); err != nil {
		t.Fatal(err)
	}
	var groups, blocks, attends []int16
	for _, o := range e.Iteration.Ops {
		switch o.Kind {
		case flow.OpAttention:
			groups = append(groups, o.Group)
		case flow.OpBlock:
			blocks = append(blocks, o.Group)
			if want := e.StageRuns(&b.Sub[len(blocks)-1]).Block + 5*units.Microsecond; o.Last != want {
				t.Errorf("block %d takes %v, by hand %v", len(blocks), o.Last, want)
			}
		case flow.OpGPUAttention:
			attends = append(attends, o.Group)
		}
	}
	if !slices.Equal(groups, []int16{1, 2, 5}) || !slices.Equal(blocks, []int16{0, 3}) || !slices.Equal(attends, []int16{3}) {
		t.Errorf("groups %v, blocks %v, attention on the GPUs %v", groups, blocks, attends)
	}
	did := e.Work.Since(&before)
	var down, channel units.Duration
	for s := range b.Sub {
		all := e.ranks.Together(e.groups[s])
		traffic := e.ranks.Moves(all.Requests, &all.Vectors)
		down, channel = down+traffic.Down.Held(), channel+traffic.Down.Data+traffic.UpBus
		if s == 1 {
			if all.Prompt.Tokens == 0 || all.Prompt.Data == 0 {
				t.Errorf("a prompt of %+v", all.Prompt)
			}
			down, channel = down+all.Prompt.Held(), channel+all.Prompt.Data
		}
	}
	if did.Time[flow.OfDown] != 32*down || did.Time[flow.OfChannel] != 32*channel {
		t.Errorf("%v down and %v on the channels, by hand %v and %v", did.Time[flow.OfDown], did.Time[flow.OfChannel], 32*down, 32*channel)
	}
	// Predictions set the GPUs' part again.
	e.Decoding[0].Merge = gpu.Work{Seconds: 1}
	if got, want := e.GPU(two, 1), e.GPUTime(two)+32*5*units.Microsecond; got != want || e.Decoding[0].Merge.Seconds != 0 {
		t.Errorf("predicted are %v, by hand %v", got, want)
	}
}

// TestHeadsBeginOnOtherChannels: if heads do not divide over the channels, each request's heads begin on another channel.
func TestHeadsBeginOnOtherChannels(t *testing.T) {
	deep.Heavy(t)
	for _, system := range []string{"rank-pim", "l3"} {
		engine := rigOf(t, "run.system="+system, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=3").replica(nil).Engine
		var devices *ranks.Devices
		switch e := engine.(type) {
		case *rankPIM:
			devices = e.ranks
		case *l3:
			devices = e.ranks
		}
		if devices.Rest == 0 || devices.Fixed {
			t.Fatal("heads divide over three channels")
		}
		var all []int
		b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*decoding(3, 500)}}
		for i := range b.Sub[0].Decode {
			b.Sub[0].Decode[i].Request = int32(i)
		}
		if _, err := engine.Run(b, 0); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			all = append(all, devices.ChannelOf(int32(i), 0))
		}
		if slices.Equal(all, []int{all[0], all[0], all[0]}) {
			t.Errorf("%s: requests begin on channels %v", system, all)
		}
	}
}
