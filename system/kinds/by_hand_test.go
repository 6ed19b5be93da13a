package kinds

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// TestHostWorkAddsUp: the CPUs attend and rank one after the other in every policy with both kinds of work.
func TestHostWorkAddsUp(t *testing.T) {
	requests := []scheduler.Decoding{{Base: 8001, Prompt: 8000}, {Base: 5001, Prompt: 4000}}
	most := 0
	for _, name := range []string{"dense", "h2o", "hgca", "csattention policy.csattention.mode=host"} {
		e := gpuCPUOf(t, append(strings.Fields("policy.name="+name), "cpu_offload.element_time=10ns")...)
		x, parts, want := e.Attends.Policy.Decode([]policy.Request{{Prompt: 8000, Context: 8001}, {Prompt: 4000, Context: 5001}}, 0), 0, units.Duration(0)
		for i := range x.Attend {
			if c := &x.Attend[i]; c.Device == policy.Home {
				parts, want = parts+1, want+e.AttendClass(c)
			}
		}
		for i := range x.Passes {
			if p := &x.Passes[i]; p.Device == policy.Home {
				parts, want = parts+1, want+e.Pass(p)
			}
		}
		var h hostWork
		e.Decoding = make([]gpus.Decoding, len(e.Attends.Runs))
		if e.decodes(&h, requests, 0, 0); h.took != want {
			t.Errorf("%s: the CPUs take %v, %d parts by hand %v", name, h.took, parts, want)
		}
		most = max(most, parts)
	}
	if most < 2 {
		t.Error("no policy has work of both kinds")
	}
}

// TestWeightsOfUnits: in a step of one token, the units multiply their columns of all layers: two matrices of 12,288 elements a column,
// each of two bytes or half a byte. The GPUs do not read these. Eight GPUs have a part each.
func TestWeightsOfUnits(t *testing.T) {
	for bits, bytes := range map[int]float64{16: 2, 8: 1} {
		e := rigOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-paper", "hbm_pim.feed_forward=0.25", fmt.Sprint("model.weight_bits=", bits)).hbm()
		columns, _ := e.Helps(1)
		read, _ := e.helped(1)
		weights := float64(96*e.Model.TensorParallel*columns) * 2 * 12288
		if want := weights * bytes; columns == 0 || math.Abs(e.NotRead/want-1) > 1e-12 {
			t.Errorf("%d bits: the GPUs leave out %v B, by hand %v", bits, e.NotRead, want)
		}
		// The units read them once for the token. That is as much as so many tokens of a KV head have: 2·128 elements of two bytes.
		if want := weights * e.reading.element / 512; math.Abs(float64(read)/want-1) > 1e-6 {
			t.Errorf("%d bits: the units read as %d tokens, by hand %v", bits, read, want)
		}
		if read, did := e.helped(1 << 20); read != 0 || did != (hbm.Tally{}) {
			if columns, _ := e.Helps(1 << 20); columns == 0 {
				t.Errorf("of nothing the units read %d tokens", read)
			}
		}
	}
}

// TestHostHasATokenOfEach: keys and values of one token of a replica have 2·96·12,288 elements of two bytes, 4.5 MiB.
func TestHostHasATokenOfEach(t *testing.T) {
	const token = 2 * 96 * 12288 * 2
	for replicas := 1; replicas <= 2; replicas++ {
		for _, more := range []int{0, -1} {
			bytes := replicas*token + more
			_, err := Loader().Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "run.model=gpt-175b", "node.gpus=" + fmt.Sprint(8*replicas), "cpu_offload.host_memory_share=1",
				fmt.Sprintf("node.memory_capacity=%dB", bytes)}})
			refused := err != nil && strings.HasPrefix(err.Error(), "--set: node.memory_capacity = ") && strings.Contains(err.Error(), "room for keys and values in cpu_offload.host_memory_share = 1 of it: those of a token on each replica take ")
			if refused != (more < 0) {
				t.Errorf("%d B for %d replicas: %v", bytes, replicas, err)
			}
		}
	}
}

// TestWorkAddsUp: the same iteration twice does twice the work, in every system.
func TestWorkAddsUp(t *testing.T) {
	for system, sets := range map[string]string{"l3": "", "gpu-only": "", "hbm-pim": "hbm_pim.feed_forward=0.5", "rank-pim": "", "cpu-offload": "", "gpu+cpu": "policy.name=hgca"} {
		n := rigOf(t, append(strings.Fields(sets), "run.system="+system, "run.model=llama-2-7b", "energy.host_cpus=1")...)
		r := n.loop(nil, nil)
		sub := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Request: 9, Tokens: 64, Finished: 128, Last: true, Host: system == "cpu-offload"}}}
		for i := range 6 {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Base: int64(6000 + 100*i), Prompt: 5000})
		}
		if system == "cpu-offload" {
			sub.Host, sub.Decode = sub.Decode[3:], sub.Decode[:3]
		}
		b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{sub}, Moves: scheduler.Moves{Up: scheduler.Move{Tokens: 300}, Down: scheduler.Move{Tokens: 200}}}
		var works []flow.Work
		now := units.Duration(0)
		for range 3 {
			before := r.Engine.Core().Work
			end, err := r.Engine.Run(b, now)
			if err != nil {
				t.Fatalf("%s: %v", system, err)
			}
			r.Engine.Settle()
			if now = end; len(works) == 0 && before.Time != (flow.Work{}).Time {
				t.Errorf("%s: work before anything is run", system)
			}
			works = append(works, r.Engine.Core().Work.Since(&before))
		}
		if works[1].Time != works[2].Time || works[0].Time != works[1].Time || works[1].Tasks != works[2].Tasks {
			t.Errorf("%s: work of the same iteration:\n%v\n%v\n%v", system, works[0].Time, works[1].Time, works[2].Time)
		}
	}
}

// TestL3MemoryByHand: with requests in the GPUs' spare memory, a replica has that memory in addition to the DIMMs.
func TestL3MemoryByHand(t *testing.T) {
	home := rigOf(t, "run.system=l3", "run.model=llama-3-8b")
	both := rigOf(t, "run.system=l3", "run.model=llama-3-8b", "memory.spare=decode")
	free := gpus.FreeMemory(both.Hardware)
	if want := home.Memory.Capacity + int64(free/home.Memory.Unit); both.Memory.Unit != home.Memory.Unit || both.Memory.Capacity != want || want <= home.Memory.Capacity || home.Memory.Capacity <= 0 {
		t.Errorf("%d units, by hand %d; without %d", both.Memory.Capacity, want, home.Memory.Capacity)
	}
}

// TestHiddenTransfersByHand: transfers of ranks beside the GPUs are booked for each layer, and an iteration takes at least the channels' time
// for them.
func TestHiddenTransfersByHand(t *testing.T) {
	e := rigOf(t, "run.system=rank-pim", "run.model=llama-2-7b").replica(nil).Engine.(*rankPIM)
	for _, context := range []int{2000, 20} {
		before := e.Work
		sub := decoding(20, context)
		end, err := e.Run(&scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*sub}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		all := e.ranks.Together(e.groups[0])
		traffic, did := e.ranks.Moves(all.Requests, &all.Vectors), e.Work.Since(&before)
		for of, want := range map[int]units.Duration{flow.OfDown: traffic.Down.Held(), flow.OfUp: traffic.Up, flow.OfChannel: traffic.Down.Data + traffic.UpBus} {
			if got := did.Time[of]; want == 0 || got != 32*want || end < got {
				t.Errorf("contexts of %d: resource %d is busy for %v, by hand 32 times %v, in %v", context, of, got, want, end)
			}
		}
	}
}

// TestPromptsOnRankPIM: the GPUs wait in each layer for a join with the ranks only if requests decode there.
func TestPromptsOnRankPIM(t *testing.T) {
	const layers = 12 // of 32 heads
	e := rigOf(t, "run.system=rank-pim", "run.model=llama-2-7b", "model.layers=12", "model.tensor_parallel=1", `pcie.join="5us"`, `pim.host_access="2us"`).replica(nil).Engine.(*rankPIM)
	if e.join != 5*units.Microsecond {
		t.Fatal(e.join)
	}
	sub := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 256, Last: true}}}
	end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
	if want := e.Whole(e.StageRuns(&sub)); err != nil || end != want || e.GPU(&sub, 0) != want || e.PIM(&sub, 0, 0) != 0 {
		t.Errorf("prompts take %v, predicted %v and %v, by hand %v; %v", end, e.GPU(&sub, 0), e.PIM(&sub, 0, 0), want, err)
	}
	if w := &e.Work; w.Time[flow.OfPIMWaits+int(flow.ForGPU)] != end || w.Time[flow.OfPIM] != 0 || w.Time[flow.OfGPU] != end {
		t.Errorf("ranks work for %v and wait for the GPUs for %v of %v", w.Time[flow.OfPIM], w.Time[flow.OfPIMWaits+int(flow.ForGPU)], end)
	}
	decode := decoding(3, 400)
	e.decodeBeside(e.Attends.Decode(decode.Decode, 0, 1))
	want := e.GPUTime(decode) + layers*e.join
	if got := e.GPU(decode, 1); got != want {
		t.Errorf("decoding takes the GPUs %v, by hand %v", got, want)
	}
	if got, want := e.PIM(decode, 1, 0), e.ranks.Attention(decode, 1)+layers*2*2*units.Microsecond; got != want {
		t.Errorf("decoding takes the ranks %v, by hand %v", got, want)
	}
}

// TestJoinsByHand: if requests decode on ranks, the GPUs lose 5 µs in each of the 32 layers until a block's transfers
// have arrived. The costs of an iteration, the policy's predictions and the samples of a learned predictor include it. A
// sub-batch of prompts alone loses nothing. Meanwhile the GPU draws its idle power.
func TestJoinsByHand(t *testing.T) {
	of := func(join string) *rig {
		return rigOf(t, "run.model=llama-2-7b", "model.tensor_parallel=1", "pcie.join="+join)
	}
	n := of("5us")
	e, free := n.l3(), of("0s").l3()
	b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{*decoding(3, 400), {Prefill: []scheduler.Chunk{{Tokens: 256, Last: true}}}}}
	for i, each := range []units.Duration{5 * units.Microsecond, 0} {
		var with, without scheduler.Sample
		with.Set(&b.Sub[i], b.Step, 0)
		without.Set(&b.Sub[i], b.Step, 0)
		e.measure(&with, b, i, 0)
		free.measure(&without, b, i, 0)
		if got := with.FC - without.FC; got != 32*each || with.FC <= 32*each {
			t.Errorf("sub-batch %d: a sample has %v more, by hand 32 times %v", i, got, each)
		}
		if got := e.GPU(&b.Sub[i], b.Step) - free.GPU(&b.Sub[i], b.Step); got != 32*each {
			t.Errorf("sub-batch %d: predicted are %v more, by hand 32 times %v", i, got, each)
		}
	}
	costs, none := newIterationCosts(2, 8, e.costs.order...), newIterationCosts(2, 8, e.costs.order...)
	e.fill(&costs, b)
	free.fill(&none, b)
	idle := float64(n.cfg.GPU.Power.ActiveIdle)
	for i, each := range []units.Duration{5 * units.Microsecond, 0} {
		got, want := &costs.sub[i], &none.sub[i]
		if got.entry != want.entry || got.block-want.block != each || got.exit-want.exit != each {
			t.Errorf("sub-batch %d: %v, %v and %v, without joins %v, %v and %v", i, got.entry, got.block, got.exit, want.entry, want.block, want.exit)
		}
		if joules := got.use.Joules.Decode - want.use.Joules.Decode; math.Abs(joules-idle*(32*each).Seconds()) > 1e-9*idle {
			t.Errorf("sub-batch %d: %v J more, by hand %v W for 32 times %v", i, joules, idle, each)
		}
	}
}

// TestBoundariesByHand: a row of keys or values has 512 tokens: 32 chunks of 16 banks with a token each. A bank reads its 128 columns every
// tCCD_L, 8 clocks, and a switch of rows takes less than a quarter of that. Transfers that wait for heads have no boundaries within one.
func TestBoundariesByHand(t *testing.T) {
	step := func(boundary string) int64 {
		return rigOf(t, "run.model=llama-2-7b", "pim.transfer_boundary="+boundary).l3().costs.step
	}
	row := step(pim.BoundaryRow)
	if row < 128*8 || row >= 128*8*5/4 {
		t.Errorf("a row takes %d clocks, by hand 1024 and its switch", row)
	}
	if chunk, head := step(pim.BoundaryChunk), step(pim.BoundaryHead); chunk != row/32 || head != 0 {
		t.Errorf("boundaries every %d and %d clocks, by hand %d and none", chunk, head, row/32)
	}
}

// TestLoadedByHand: keys and values of a token in a layer have 2·32·128 elements of 2 bytes. All of the requests' tokens come over the link before the
// GPU attends. The CPUs read them in place.
func TestLoadedByHand(t *testing.T) {
	cfg, err := Loader().Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "run.model=llama-2-7b", "model.tensor_parallel=1"}})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHostAttention(cfg)
	for _, c := range [][3]int{{1, 1, 1}, {3, 1, 500}, {7, 1, 4000}, {2, 16, 900}} {
		requests, queries, tokens := c[0], c[1], c[2]
		all, transfer := h.Loaded(requests, queries, tokens)
		if want := h.Latency + flow.TransferTime(h.Link, units.Bytes(requests*tokens)*16384); transfer != want {
			t.Errorf("%v: the transfer takes %v, by hand %v", c, transfer, want)
		}
		a := h.ModelCost.Attention()
		attends := a.Decoding(gpu.UniformBatch(requests, tokens))
		if queries > 1 {
			a = h.ModelCost.Attention()
			attends = a.Prompts(requests, queries, tokens, 0)
		}
		if want := transfer + flow.TaskTime(attends.Seconds); all != want {
			t.Errorf("%v: takes %v, by hand %v", c, all, want)
		}
	}
	if one, three := h.OnCPUs(1, 1, 600), h.OnCPUs(3, 1, 200); three < one || three > 2*one {
		t.Errorf("600 tokens of one request take the CPUs %v, of three %v", one, three)
	}
}

// TestImbalanceOfARun: an engine counts the ranksets' load of each iteration that it runs. With one request at a time, one of the ranksets works in
// each layer; with equal requests at all offsets, all work equally.
func TestImbalanceOfARun(t *testing.T) {
	n := rigOf(t, "run.model=llama-2-7b")
	ranksets := n.cfg.Node.Ranksets
	one, even := decoding(1, 400), decoding(ranksets, 400)
	for i := range even.Decode {
		even.Decode[i].Offset = int32(i)
	}
	for _, c := range []struct {
		sub  *scheduler.SubBatch
		want float64
	}{{one, float64(ranksets)}, {even, 1}, {&scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 64, Last: true}}}, 0}} {
		e := n.l3()
		for step := range int64(2) {
			if _, err := e.Run(&scheduler.Batch{Step: step + 1, Sub: []scheduler.SubBatch{*c.sub, {}}}, units.Duration(step)*units.Second); err != nil {
				t.Fatal(err)
			}
		}
		if m := e.Ranksets(); math.Abs(m.Ratio(ranksets)-c.want) > 1e-9 {
			t.Errorf("%d requests on %d ranksets: %v, by hand %v", len(c.sub.Decode), ranksets, m.Ratio(ranksets), c.want)
		}
	}
}
