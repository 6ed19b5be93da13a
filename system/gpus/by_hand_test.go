package gpus

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestWattsByHand: two GPUs with 30 J in 2 s of work, and 70 W each when idle.
func TestWattsByHand(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2")
	h.Config.GPU.Power.ActiveIdle = 70
	d := New(h)
	did := &flow.Work{}
	did.Joules = flow.Joules{Prefill: 10, Decode: 20}
	did.Time[flow.OfGPU] = 2 * units.Second
	for took, want := range map[units.Duration]float64{0: 0, -units.Second: 0, 1: 30e12, units.Second: 30, 2 * units.Second: 15, 5 * units.Second: (30 + 3*2*70) / 5.} {
		if got := d.Watts(did, took); math.Abs(got/max(want, 1)-want/max(want, 1)) > 1e-12 {
			t.Errorf("in %v: %v W, by hand %v", took, got, want)
		}
	}
}

// TestJoulesByHand: two GPUs with 12 J run a sub-batch of 30 prompt tokens and 10 that decode, with 4 s of attention in 10 s. Three
// quarters of the attention are prefill, and three quarters of everything else.
func TestJoulesByHand(t *testing.T) {
	d := New(gpusOf(t, "run.model=llama-3-8b", "node.gpus=2", "model.tensor_parallel=2"))
	prompt, decoding := []scheduler.Chunk{{Tokens: 30}}, make([]scheduler.Decoding, 10)
	for _, c := range []struct {
		sub             scheduler.SubBatch
		prefill, decode float64 // seconds of attention
		want            flow.Joules
	}{
		{scheduler.SubBatch{Decode: decoding}, 0, 4, flow.Joules{Decode: 12}}, {scheduler.SubBatch{Prefill: prompt}, 4, 0, flow.Joules{Prefill: 12}},
		{scheduler.SubBatch{Prefill: prompt, Decode: decoding}, 3, 1, flow.Joules{Prefill: 9, Decode: 3}},
		{scheduler.SubBatch{Prefill: prompt, Decode: decoding}, 1, 3, flow.Joules{Prefill: 12 * (6*0.75 + 4*0.25) / 10, Decode: 12 * (6*0.25 + 4*0.75) / 10}},
		{scheduler.SubBatch{Prefill: prompt, Decode: decoding}, 0, 0, flow.Joules{Prefill: 12 * 4.5 / 10, Decode: 12 * 5.5 / 10}}, // of no kernel
	} {
		got := d.joules(&c.sub, 6, 10, 4, c.prefill, c.decode)
		if !(math.Abs(got.Prefill-c.want.Prefill) <= 1e-12 && math.Abs(got.Decode-c.want.Decode) <= 1e-12) { // nor NaN
			t.Errorf("%+v: %+v, by hand %+v", c.sub, got, c.want)
		}
	}
}

// TestGPUMemoryByHand: a page of 16 tokens of a head and layer of Llama 3 8B has 16·2·128 elements of two bytes, 8 KiB.
func TestGPUMemoryByHand(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b", "batching.page_tokens=16")
	m := &h.Config.Model
	if got := PageBytes(h); got != 8*units.KiB {
		t.Errorf("a page has %v", got)
	}
	free := h.Config.GPUMemory(1)*units.Bytes(m.TensorParallel) - m.WeightBytes()
	if got := FreeMemory(h); got != free || free <= 0 || workspace(h) != h.Config.Workspace() {
		t.Errorf("%v are free, by hand %v, and %v for activations", got, free, workspace(h))
	}
	if got, want := Memory(h), int64((free-h.Config.Workspace())/(8*units.KiB)); got != (flow.KVMemory{Unit: 8 * units.KiB, Capacity: want}) {
		t.Errorf("%+v, by hand %d pages", got, want)
	}
	if got, want := SpareLedger(h).Capacity(), int64(free/(8*units.KiB)); got != want {
		t.Errorf("%d pages of spare memory, by hand %d", got, want)
	}
	if got, want := Pages(h, 7), (memory.LedgerSpec{Ranksets: 1, Layers: 32, HeadsPerChannel: 8, UnitTokens: 16, Capacity: 7}); got.Layers != want.Layers || got.HeadsPerChannel != want.HeadsPerChannel || got.UnitTokens != 16 || got.Capacity != 7 || got.Ranksets != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
	h.KVBudget = units.GiB
	if got := Memory(h).Capacity; got != 1<<17 {
		t.Errorf("a budget of a GiB has %d pages, by hand %d", got, 1<<17)
	}
	h.KVBudget = 1 << 60
	if got, want := Memory(h).Capacity, int64((free-h.Config.Workspace())/(8*units.KiB)); got != want {
		t.Errorf("a budget of more than there is has %d pages, by hand %d", got, want)
	}
	h.KVBudget, h.GPUShare = 0, (float64(m.WeightBytes())+5e6)/(float64(h.Config.GPUMemory(1))*float64(m.TensorParallel)) // 5 MB for activations
	if free := FreeMemory(h); workspace(h) != free || free >= h.Config.Workspace() || free > 6e6 || Memory(h).Capacity != 0 {
		t.Errorf("of %v activations have %v, and pages %d", free, workspace(h), Memory(h).Capacity)
	}
	// Two of 16 GPUs hold each of the eight heads.
	h = gpusOf(t, "run.model=llama-3-8b", "batching.page_tokens=16", "node.gpus=16", "model.tensor_parallel=16")
	if got := Memory(h); got.Unit != 16*units.KiB || got.More != 1 || got.Capacity != int64((FreeMemory(h)-h.Config.Workspace())/(16*units.KiB)) || SpareLedger(h).Capacity() != int64(FreeMemory(h)/(16*units.KiB)) {
		t.Errorf("%+v", got)
	}
}

// TestExtrapolatedByHand: the time of layers, head and attention beyond their fits, at the pace of the power
// limit.
func TestExtrapolatedByHand(t *testing.T) {
	d := New(gpusOf(t, "run.model=llama-3-8b"))
	x := &d.extrapolating
	if x.extrapolated(nil, nil, 2) != nil {
		t.Error("nothing is extrapolated")
	}
	layers, head := gpu.Extrapolated{1, 2}, gpu.Extrapolated{10, 20}
	d.Attends.SetRuns([]int{3, 4, 5}, []int{0, 1, 0})
	d.farther = make([][]farther, 3)
	if d.addFarther(); d.attention != nil {
		t.Errorf("no kernels take %v", d.attention)
	}
	d.beyond(gpu.DecodeKernels, 100, 0)
	d.beyond(gpu.DecodeKernels, 200, 1)
	d.addFarther()
	var attention gpu.Extrapolated
	attention[gpu.DecodeKernels] = (3+5)*100 + 4*200
	if d.attention == nil || *d.attention != attention {
		t.Errorf("attention %v, by hand %v", d.attention, attention)
	}
	var before *flow.Extrapolated
	for i, c := range []struct{ layers, head, attention *gpu.Extrapolated }{{&layers, nil, nil}, {nil, &head, nil}, {nil, nil, &attention}, {&layers, &head, &attention}} {
		x.attention = c.attention
		got := x.extrapolated(c.layers, c.head, 2)
		if got == nil || got == before {
			t.Fatalf("case %d: %v, before %v", i, got, before)
		}
		for k := range got {
			want := 0.0
			for _, part := range []*gpu.Extrapolated{c.layers, c.head, c.attention} {
				if part != nil {
					want += 2 * part[k]
				}
			}
			if got[k] != units.FromSeconds(want) {
				t.Errorf("case %d, kind %d: %v, by hand %v s", i, k, got[k], want)
			}
		}
		before = got
	}
	if d.sum != attention {
		t.Errorf("%v, by hand %v", d.sum, attention)
	}
}

// TestAttentionOfRuns: three layers of 1 + 2 + 4 and two of 8 + 16 + 32, without the device's time.
func TestAttentionOfRuns(t *testing.T) {
	g := stage{Layers: []layerCost{{Count: 3, Attention: 1, Merge: 2, Chooses: 4, Device: 99, Prompts: 1}, {Count: 2, Attention: 8, Merge: 16, Chooses: 32}}}
	if got := g.attention(); got != 3*7+2*56 {
		t.Errorf("%d", got)
	}
	d := New(gpusOf(t, "run.model=llama-3-8b"))
	g.Entry, g.Block, g.Exit = 1000, 10_000, 100_000
	if got := d.Whole(&g); got != 1000+31*10_000+100_000+133 {
		t.Errorf("%d", got)
	}
}

// TestGroupsByHand: three requests with contexts of 5,000 share 4,096 tokens, and two of them 512 more. The first run of blocks has three
// requests with two partial outputs each. Both runs together have a third partial output for two requests. If two tokens are verified, a
// step has twice as many outputs.
func TestGroupsByHand(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b", "serving.verified_tokens=2", "serving.acceptance=0.5")
	d := New(h)
	sub := &scheduler.SubBatch{Shared: []scheduler.Shared{{Tokens: 4096, Requests: []int32{0, 1, 2}}, {Tokens: 512, Requests: []int32{0, 2}}}}
	for range 3 {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: 4999})
	}
	context := d.Attends.Decode(sub.Decode, 0, 1).Attend[0].Tokens[0] // what a step with drafts attends to
	for takes := range 3 {
		var asked int
		g := &d.Grouping
		g.of = -1
		g.Group(&d, sub, &scheduler.Batch{Grouped: int64(takes), Step: 1}, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
			tokens, longest, groups, parts := int64(3*context), context, []gpu.Shared{{Requests: 3, Tokens: 4096}, {Requests: 2, Tokens: 512}}[:asked], 0
			switch asked {
			case 1:
				tokens, longest, parts = tokens-3*4096, context-4096, 6
			case 2:
				tokens, longest, parts = tokens-3*4096-2*512, context-4096, 8
			}
			if rest != (gpu.DecodeBatch{Requests: 3, Tokens: tokens, Longest: longest, KVHeads: 8}) {
				t.Errorf("%d stretches leave %+v, by hand %d and %d", asked, rest, tokens, longest)
			}
			if asked > 0 && (kernel != d.ModelCost.Kernel(d.ModelCost.SharedCost(groups)) || merge != d.ModelCost.MergeParts(2*3, 2*parts)) {
				t.Errorf("%d stretches: %+v and %+v", asked, kernel, merge)
			}
			asked++
			return math.Abs(float64(asked - 1 - takes)) // this number is best
		})
		spared := []int64{0, 2 * 4096, 2*4096 + 512}[takes]
		if asked != 3 || len(g.Groups) != takes || g.Spared != spared {
			t.Errorf("%d are best: %d are taken, which spare %d tokens, by hand %d; asked %d times", takes, len(g.Groups), g.Spared, spared, asked)
		}
		if want := int64(3*context) - []int64{0, 3 * 4096, 3*4096 + 2*512}[takes]; takes > 0 && g.Rest.Tokens != want {
			t.Errorf("%d are best: %d tokens are left, by hand %d", takes, g.Rest.Tokens, want)
		}
	}
}

// TestChoiceOfGroups: runs of blocks are read once as long as decode attention, their kernel and the merge take less
// together.
func TestChoiceOfGroups(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b")
	taken := map[bool]bool{}
	for tokens := 16; tokens <= 16_384; tokens += max(16, tokens/8/16*16) { // in blocks of 16
		d := New(h)
		sub := &scheduler.SubBatch{Shared: []scheduler.Shared{{Tokens: tokens}}}
		for i := range 64 {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Base: 20_000})
			sub.Shared[0].Requests = append(sub.Shared[0].Requests, int32(i))
		}
		b := &scheduler.Batch{Grouped: 1, Step: 0}
		d.DecodeRuns(sub.Decode, 0)
		d.StageGroups(sub, b, d.StageRuns(sub))
		rest := func(n int) float64 {
			c := d.Attends.Decode(sub.Decode, 0, 0).Attend[0].Tokens[0] - n
			return d.ModelCost.DecodeBatch(gpu.DecodeBatch{Requests: 64, Tokens: int64(64 * c), Longest: c, KVHeads: 8}).Seconds
		}
		groups := []gpu.Shared{{Requests: 64, Tokens: tokens}}
		want := rest(tokens)+d.ModelCost.Kernel(d.ModelCost.SharedCost(groups)).Seconds+d.ModelCost.MergeParts(64, 128).Seconds < rest(0)
		if got := len(d.Grouping.Groups) == 1; got != want {
			t.Errorf("%d tokens are read once: %v, by hand %v", tokens, got, want)
		}
		taken[want] = true
	}
	if len(taken) != 2 {
		t.Errorf("all lengths are alike: %v", taken)
	}
}

// TestLayersByHand: the embedding and the QKV product come before the first layer's attention; the projection and the feed-forward network after the
// last one's; both between two layers' attention.
func TestLayersByHand(t *testing.T) {
	d := New(gpusOf(t, "run.model=llama-3-8b"))
	for _, tokens := range []int{1, 7, 600} {
		embedding, qkv, rest, _ := d.ModelCost.Layers(tokens)
		if qkv != d.ModelCost.QKV(tokens) || embedding.Seconds <= 0 || rest.Seconds < 2*qkv.Seconds {
			t.Fatalf("%d tokens: %+v, %+v and %+v", tokens, embedding, qkv, rest)
		}
		x := d.Dense.At(tokens)
		for of, c := range map[string][2]float64{
			"entry": {x.entry.Seconds, embedding.Seconds + qkv.Seconds}, "block": {x.Block.Seconds, rest.Seconds + qkv.Seconds},
			"end": {x.end.Seconds, rest.Seconds}, "all": {x.all.Seconds, embedding.Seconds + 32*(qkv.Seconds+rest.Seconds)},
			"energy": {x.all.Dynamic, embedding.Dynamic + 32*(qkv.Dynamic+rest.Dynamic)},
		} {
			if math.Abs(c[0]/c[1]-1) > 1e-12 {
				t.Errorf("%d tokens, %s: %v, by hand %v", tokens, of, c[0], c[1])
			}
		}
	}
}

// TestDecodedByHand: decode attention in a layer takes the times of its batches, of what requests share, and of the extra
// passes, one after the other.
func TestDecodedByHand(t *testing.T) {
	d := New(gpusOf(t, "run.model=llama-3-8b"))
	batches := []gpu.DecodeBatch{gpu.UniformBatch(3, 500), gpu.UniformBatch(40, 2000)}
	shared, beside := gpu.Cost{Seconds: 20e-6, Bytes: 7e6, FLOPs: 9e6}, gpu.Work{Seconds: 30e-6, Dynamic: 0.1}
	for mask := range 8 {
		var decode Decoding
		want := gpu.Work{}
		if mask&1 != 0 {
			decode.Batches = batches
			a := d.ModelCost.Attention()
			want = want.Plus(a.Decoding(batches[0])).Plus(a.Decoding(batches[1]))
		}
		if mask&2 != 0 {
			decode.Shared = &shared
			want = want.Plus(d.ModelCost.Kernel(shared))
		}
		if mask&4 != 0 {
			decode.Beside = beside
			want = want.Plus(beside)
		}
		prefill, decoded, all := d.LayerAttention(&scheduler.SubBatch{}, 0, &decode)
		if math.Abs(decoded.Seconds-want.Seconds) > 1e-15 || math.Abs(decoded.Dynamic-want.Dynamic) > 1e-12*want.Dynamic || all != decoded || prefill != (kernelSum{}) {
			t.Errorf("parts %03b: %+v of %+v, by hand %+v", mask, decoded, all, want)
		}
		if took := units.FromSeconds(want.Seconds); decoded.time < took-4 || decoded.time > took+4 {
			t.Errorf("parts %03b take %v, by hand %v", mask, decoded.time, took)
		}
	}
}

// TestPromptsOfALayerByHand: the prompts of a sub-batch take their times one after the other. Outputs of prompts and of decode attention are joined.
func TestPromptsOfALayerByHand(t *testing.T) {
	d := New(gpusOf(t, "run.model=llama-3-8b", "gpu.preset=a100-sxm-80gb"))
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 512, Finished: 1024}, {Tokens: 100, Last: true}, {Tokens: 2048}}, Decode: make([]scheduler.Decoding, 30)}
	a := d.ModelCost.Attention()
	want := a.Prompts(1, 512, 1024, 0).Plus(a.Prompts(1, 100, 0, 0)).Plus(a.Prompts(1, 2048, 0, 0))
	batch := gpu.UniformBatch(30, 900)
	decodes := a.Decoding(batch)
	prefill, decoded, all := d.LayerAttention(sub, 0, &Decoding{Batches: []gpu.DecodeBatch{batch}})
	joined := a.Total(want, decodes, 512+100+2048+30)
	for of, c := range map[string][2]float64{
		"prompts": {prefill.Seconds, want.Seconds}, "decoding": {decoded.Seconds, decodes.Seconds}, "all": {all.Seconds, joined.Seconds},
		"prompts' time": {prefill.time.Seconds(), want.Seconds}, "all time": {all.time.Seconds(), joined.Seconds},
	} {
		if math.Abs(c[0]-c[1]) > 1e-11 || c[1] <= 0 {
			t.Errorf("%s: %v s, by hand %v s", of, c[0], c[1])
		}
	}
	if joined.Seconds <= want.Seconds+decodes.Seconds {
		t.Error("joining takes nothing")
	}
}
