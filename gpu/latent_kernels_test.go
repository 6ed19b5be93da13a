package gpu

import (
	"math"
	"testing"
)

// latentGPU returns a GPU with its own kernels of latent attention, with numbers that are easy to compute with.
func latentGPU(t *testing.T) *Spec {
	s := loadPreset(t, "h200-sxm")
	s.Latent.Decode = LatentDecodeSpec{DecodeSpec: s.Decode, WideGroup: 32, AgainShare: 0.5}
	s.Latent.Decode.GroupLimit = 16
	s.Latent.DecodeFP8 = s.Latent.Decode
	s.Latent.Prefill = s.Prefill
	s.Latent.Products = LatentProductSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.5}, TileRows: 64}
	s.Latent.ProductsFP8 = LatentProductSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.5}, TileRows: 64, Convert: 1e6, ConvertMemory: 1}
	s.Latent.Chosen = ChosenSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.5}, TileRows: 64, Slots: 2048, WaveQuantization: true}
	return s
}

// TestLatentReadings: 32 heads read latents twice, the second time half from the L2; 16 heads, and more than the kernel for few heads
// takes, read them once.
func TestLatentReadings(t *testing.T) {
	s := latentGPU(t)
	h := Heads{KV: 1, Dim: 576, Value: 512, Latent: true, ElementBits: 16}
	batch := UniformBatch(64, 4096)
	kv := 64 * 4096 * 576 * 2.0
	for heads, again := range map[int]float64{1: 0, 16: 0, 17: 0.5, 32: 0.5, 33: 0, 128: 0} {
		h.Query = heads
		c := s.DecodeAttentionCost(batch, h)
		want := (c.Bytes + again*kv) / (s.Latent.Decode.Memory * float64(s.MemoryBandwidth))
		if math.Abs(c.Memory/want-1) > 1e-12 {
			t.Errorf("%d heads: %v s of memory, want %v", heads, c.Memory, want)
		}
	}
	h.Query, h.KVBits, h.KVFloat = 64, 8, true
	narrow := s.DecodeAttentionCost(batch, h)
	h.KVBits, h.KVFloat = 0, false
	if whole := s.DecodeAttentionCost(batch, h); math.Abs(narrow.Compute/whole.Compute*float64(s.Peak8)/float64(s.Peak16)-1) > 1e-12 || narrow.Executed != whole.Executed/2 {
		t.Errorf("FP8 computes %v s, %v operations; 16 bits %v s, %v", narrow.Compute, narrow.Executed, whole.Compute, whole.Executed)
	}
	s.Suite = SuitePyTorch
	if s.latentDecode(&h) != nil || s.latentPrefill(&h) != nil {
		t.Error("PyTorch has kernels of servers")
	}
}

// TestAbsorbedByHand: a product of 132 heads fills the SMs of an H200 once; its tiles have 64 rows.
func TestAbsorbedByHand(t *testing.T) {
	s := latentGPU(t)
	c := s.AbsorbedCost(132, 10, 128, 512, 16)
	compute := 2 * 64 * 128 * 512 * 132 / (0.5 * float64(s.Peak16))
	memory := 132 * (10*512 + 512*128 + 10*128) * 2 / (0.5 * float64(s.MemoryBandwidth))
	if math.Abs(c.Compute/compute-1) > 1e-12 || math.Abs(c.Memory/memory-1) > 1e-12 || c.Seconds != max(c.Compute, c.Memory) {
		t.Errorf("%+v, want %v and %v s", c, compute, memory)
	}
	if twice := s.AbsorbedCost(132, 10, 256, 512, 16); math.Abs(twice.Compute/compute-2) > 1e-12 {
		t.Errorf("256 columns compute %v s, want %v", twice.Compute, 2*compute)
	}
	convert := 1e-6 + 132*10*512*3/float64(s.MemoryBandwidth)
	if c := s.AbsorbedCost(132, 10, 128, 512, 8); math.Abs(c.Overhead/convert-1) > 1e-12 {
		t.Errorf("FP8 converts in %v s, want %v", c.Overhead, convert)
	}
}

// TestChosenByHand: 133 tokens are two waves, each with tiles of 64 heads over 2,048 rows, chosen or not.
func TestChosenByHand(t *testing.T) {
	s := latentGPU(t)
	h := Heads{Query: 16, KV: 1, Dim: 576, Value: 512, Latent: true, ElementBits: 16}
	c := s.ChosenCost(133, 133*100, 100, h)
	compute := 2 * 2 * 1088 * 64 * 2048 * 132 / (0.5 * float64(s.Peak16))
	memory := (133*100*576*2 + 133*16*1088*2) / (0.5 * float64(s.MemoryBandwidth))
	if math.Abs(c.Compute/compute-1) > 1e-12 || math.Abs(c.Memory/memory-1) > 1e-12 {
		t.Errorf("%+v, want %v and %v s", c, compute, memory)
	}
}

// TestAbsorbedTypes: an FP8 checkpoint uses the fit's FP8 products. One that keeps projections in 16 bits, or a fit without these, uses
// 16-bit products.
func TestAbsorbedTypes(t *testing.T) {
	s, m := latentGPU(t), latentModel(8)
	bits := func() int { return NewModelCost(s, m).absorbedBits() }
	if got := bits(); got != 16 {
		t.Errorf("16 bits: products of %d", got)
	}
	m.WeightBits, m.ActivationBits = 8, 8
	if got := bits(); got != 8 {
		t.Errorf("FP8: products of %d bits", got)
	}
	c := NewModelCost(s, m)
	if got, want := c.AbsorbKeys(10), c.waits(s.work(s.AbsorbedCost(c.latent.query, 10, c.latent.rank, c.latent.nope, 8)).scaled(c.scale.products)); got != want {
		t.Errorf("FP8 products take %+v, want %+v", got, want)
	}
	m.KeptAttention = 0.5
	if got := bits(); got != 16 {
		t.Errorf("half of the projections kept in 16 bits: products of %d", got)
	}
	m.KeptAttention, s.Latent.ProductsFP8 = 0, LatentProductSpec{}
	if got := bits(); got != 16 {
		t.Errorf("a fit without FP8 products: of %d bits", got)
	}
	if s.Suite = SuitePyTorch; bits() != 0 || NewModelCost(s, m).choosesLatents() {
		t.Error("PyTorch has kernels of servers")
	}
}

// TestAbsorbedKept: cached products are the same when requested again, each for its own tokens and sizes, for decode steps and long
// prompts.
func TestAbsorbedKept(t *testing.T) {
	s, m := latentGPU(t), latentModel(8)
	c := NewModelCost(s, m)
	c.Verify(2)
	c.latent.value *= 2
	for range 2 {
		for _, requests := range []int{700, 3, 4, 2048, 2049, 9000} {
			n := 2 * requests
			keys := c.waits(s.work(s.AbsorbedCost(c.latent.query, n, c.latent.rank, c.latent.nope, 16)).scaled(c.scale.products))
			values := c.waits(s.work(s.AbsorbedCost(c.latent.query, n, c.latent.value, c.latent.rank, 16)).scaled(c.scale.products))
			if got := c.AbsorbKeys(requests); got != keys {
				t.Errorf("keys of %d requests: %+v, want %+v", requests, got, keys)
			}
			if got := c.AbsorbValues(requests); got != values || keys == values {
				t.Errorf("values of %d requests: %+v, want %+v", requests, got, values)
			}
		}
	}
	if n := len(c.latent.kept[0]); n > mostKept+1 {
		t.Errorf("%d products are kept", n)
	}
}

// TestLatentModel: a model's layers use the latent kernels if the fit has them.
func TestLatentModel(t *testing.T) {
	s := latentGPU(t)
	c := NewModelCost(s, latentModel(8))
	h := c.kinds[0].heads
	if got, want := c.DecodeBatchCost(DecodeBatch{Requests: 3, Tokens: 600, Longest: 200, Page: 1}).Seconds, s.ChosenCost(3, 600, 200, h).Seconds; got != want {
		t.Errorf("chosen rows take %v s, want %v", got, want)
	}
	expanded := c.PrefillAttention(300, 200)
	s.Latent.Absorbed = true
	c = NewModelCost(s, latentModel(8))
	want := c.prefills(s.PrefillAttentionCost(1, 300, 200, h)).Plus(c.absorb(300))
	if got := c.PrefillAttention(300, 200); got != want || got == expanded {
		t.Errorf("an absorbed prompt takes %+v, want %+v; expanded %+v", got, want, expanded)
	}
}

// TestExpandsFrom: beside absorbed kernels, prompts without finished tokens and with enough of them take expanded keys and values, and the
// kernel of other models.
func TestExpandsFrom(t *testing.T) {
	s := latentGPU(t)
	s.Latent.Absorbed, s.Latent.ExpandsFrom = true, 400
	plain := *s
	plain.Latent.Prefill, plain.Latent.PrefillFP8 = PrefillSpec{}, PrefillSpec{}
	c := NewModelCost(s, latentModel(8))
	l := c.latent
	for _, x := range []struct {
		requests, finished int
		expanded           bool
	}{{1, 0, true}, {1, 1, false}, {1, 399, false}, {1, 400, true}, {2, 0, true}, {2, 199, false}, {2, 200, true}} {
		h, made := c.kinds[0].heads, c.absorb(300*x.requests)
		costs := s
		if x.expanded {
			h, costs = l.prompts(16), &plain
			made = c.waits(c.mixed(x.requests*(300+x.finished), l.query*(l.nope+l.value), l.rank, c.projections, c.keptAttention))
		}
		want := c.prefills(costs.PrefillAttentionCost(x.requests, 300, x.finished, h)).Plus(made)
		a := c.Attention()
		if got := a.Prompts(x.requests, 300, x.finished, 0); got != want {
			t.Errorf("%+v: %+v, want %+v", x, got, want)
		}
		if got := c.PrefillAttention(300, x.finished); x.requests == 1 && got != want {
			t.Errorf("%+v alone: %+v, want %+v", x, got, want)
		}
	}
}
