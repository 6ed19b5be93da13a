package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// TestGroupLimitByHand: a kernel that serves four query heads with one read of keys and values reads them again for each four more.
func TestGroupLimitByHand(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Decode.GroupLimit = 4
	const kv = 2 * 64 * 4096 * 2 * 128 * 2 // bytes: both KV heads, keys and values of 64 requests
	for group, again := range map[int]float64{1: 0, 4: 0, 5: 1, 8: 1, 9: 2, 12: 2} {
		c := s.DecodeAttentionCost(UniformBatch(64, 4096), Heads{Query: 2 * group, KV: 2, Dim: 128, ElementBits: 16})
		if want := (c.Bytes + again*kv) / (s.Decode.Memory * float64(s.MemoryBandwidth)); !near(c.Memory, want) {
			t.Errorf("%d query heads of a KV head: %v s of memory, want %v", group, c.Memory, want)
		}
	}
}

// TestKernelsOfLatents: which kernels read which elements: only the server suite has kernels for latents, and FP8 latents need a fit with
// them.
func TestKernelsOfLatents(t *testing.T) {
	both, wide, none := latentGPU(t), latentGPU(t), latentGPU(t)
	both.Latent.PrefillFP8 = both.Prefill
	wide.Latent.DecodeFP8, wide.Latent.PrefillFP8 = LatentDecodeSpec{}, PrefillSpec{}
	none.Latent = LatentTables{}
	type kernels struct {
		decode  *LatentDecodeSpec
		prefill *PrefillSpec
	}
	for _, c := range []struct {
		name string
		s    *Spec
		h    Heads
		want kernels
	}{
		{"plain", both, Heads{}, kernels{}},
		{"plain FP8", both, Heads{KVFloat: true, KVBits: 8}, kernels{}},
		{"latent", both, Heads{Latent: true}, kernels{&both.Latent.Decode, &both.Latent.Prefill}},
		{"latent FP8", both, Heads{Latent: true, KVFloat: true, KVBits: 8}, kernels{&both.Latent.DecodeFP8, &both.Latent.PrefillFP8}},
		{"latent INT8", both, Heads{Latent: true, KVBits: 8}, kernels{nil, &both.Latent.Prefill}},
		{"latent of 16 bits", both, Heads{Latent: true, KVBits: 16}, kernels{&both.Latent.Decode, &both.Latent.Prefill}},
		{"expanded", both, Heads{Expanded: true}, kernels{nil, &both.Latent.Prefill}},
		{"expanded FP8", both, Heads{Expanded: true, KVFloat: true, KVBits: 8}, kernels{nil, &both.Latent.PrefillFP8}},
		{"latent FP8, no fit of FP8", wide, Heads{Latent: true, KVFloat: true, KVBits: 8}, kernels{nil, &wide.Latent.Prefill}},
		{"latent, no fit", none, Heads{Latent: true}, kernels{}},
		{"expanded FP8, no fit", none, Heads{Expanded: true, KVFloat: true, KVBits: 8}, kernels{}},
	} {
		c.h.ElementBits = 16
		if got := (kernels{c.s.latentDecode(&c.h), c.s.latentPrefill(&c.h)}); got != c.want {
			t.Errorf("%s: %p and %p, want %p and %p", c.name, got.decode, got.prefill, c.want.decode, c.want.prefill)
		}
		own, prompt := &c.s.Decode, &c.s.Prefill
		if c.h.KVFloat && !c.h.Expanded && c.s.decodesFP8(own) {
			own = &c.s.DecodeFP8
		}
		if c.want.decode != nil {
			own = &c.want.decode.DecodeSpec
		}
		if c.h.KVFloat && !c.h.Expanded && c.s.PrefillFP8.Compute > 0 {
			prompt = &c.s.PrefillFP8
		}
		if c.want.prefill != nil {
			prompt = c.want.prefill
		}
		if c.s.decodeOf(&c.h) != own || c.s.prefillOf(&c.h) != prompt {
			t.Errorf("%s: takes other kernels of all", c.name)
		}
	}
}

// TestKindsOfKeptWeights: the share of attention and networks that a checkpoint keeps in 16 bits uses 16-bit kernels, the rest FP8 kernels.
func TestKindsOfKeptWeights(t *testing.T) {
	m := parallelModel(1, llm.Parallel{})
	m.WeightBits, m.WeightBlock, m.ActivationBits = 8, FP8Block, 8
	m.KeptAttention, m.KeptNetwork, m.DenseLayers, m.DenseFFN = 0.25, 0.375, 1, 18432
	c := NewModelCost(loadPreset(t, "h200-sxm"), m)
	x := Shape{Decode: UniformBatch(30, 4000), Prefills: 2, Chunk: 500, Finished: 100}
	parts := c.IterationParts(x)
	experts := 2 * c.waits(c.mixture(&c.feedForwards[1], 1030)).Seconds
	made := 3 * c.expand(1000, 200).Seconds // keys and values of prompts, from latents
	attention, networks := parts[QKVProduct].Seconds+parts[ProjectionProduct].Seconds, parts[FeedForward].Seconds-experts
	want := map[string]float64{
		"gemm": parts[LMHead].Seconds + 0.25*attention + 0.375*networks, "fp8_block_gemm": 0.75*attention + 0.625*networks + made,
		"experts": 0.375 * experts, "fp8_block_experts": 0.625 * experts,
		"small_kernels": parts[SmallKernels].Seconds + parts[Embedding].Seconds,
	}
	for _, k := range c.KernelTimes(x) {
		if w, ok := want[k.Kind]; ok && !near(k.Seconds, w) {
			t.Errorf("%s takes %v s, want %v", k.Kind, k.Seconds, w)
		}
		delete(want, k.Kind)
	}
	if len(want) > 0 {
		t.Errorf("no kernels of %v", want)
	}
}
