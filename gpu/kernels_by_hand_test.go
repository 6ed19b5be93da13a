package gpu

import (
	"math"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// TestAbsorbedColumns: 16 products of 100 tokens by n × 128, in tiles of 64 rows and 128 columns, on 100 SMs of 10 TFLOP/s at half of their
// rate. With 512 columns there are 16·2·4 blocks, 1.28 for each SM; with 64 columns, 32 blocks in one wave.
func TestAbsorbedColumns(t *testing.T) {
	s := &Spec{SMs: 100, Peak16: 1e15, Peak8: 2e15, MemoryBandwidth: 1e12}
	p := &s.Latent.Products
	p.TileRows, p.KRamp, p.Compute, p.Memory, p.Overhead = 64, 100, 0.5, 0.8, 2*units.Microsecond
	for _, c := range []struct {
		n              int
		compute, bytes float64
	}{{512, 1.28 * 2 * 64 * 128 * 228 / 5e12, 2*16*128*(100+512) + 2*16*100*512}, {64, 2 * 64 * 64 * 228 / 5e12, 2*16*128*(100+64) + 2*16*100*64}} {
		got := s.AbsorbedCost(16, 100, c.n, 128, 16)
		if !near(got.Compute, c.compute) || got.Bytes != c.bytes || !near(got.Memory, c.bytes/0.8e12) || !near(got.Overhead, 2e-6) || got.FLOPs != 2*16*100*128*float64(c.n) || !near(got.Executed, got.FLOPs*1.28) {
			t.Errorf("%d columns: %+v, want %v s and %v B", c.n, got, c.compute, c.bytes)
		}
	}
	// Activations are converted first: read in 16 bits and written in 16, at half of the memory's rate.
	p.ConvertMemory, p.Convert = 0.5, 3*units.Microsecond
	const converted = 16 * 100 * 128 * 4
	if got, bytes := s.AbsorbedCost(16, 100, 64, 128, 16), float64(2*16*128*164+2*16*100*64+converted); got.Bytes != bytes || !near(got.Memory, bytes/0.8e12) || !near(got.Overhead, 5e-6+converted/0.5e12) {
		t.Errorf("converted: %+v, want %v B", got, bytes)
	}
}

// TestChosenRows: a token takes the time of its rows in sequence, of at least as many as the kernel has slots.
func TestChosenRows(t *testing.T) {
	s := &Spec{SMs: 100, Peak16: 1e15, Peak8: 2e15, MemoryBandwidth: 1e12}
	p := &s.Latent.Chosen
	p.TileRows, p.Slots, p.RowTime, p.Compute, p.Memory = 64, 2048, 10*units.Nanosecond, 0.5, 0.8
	for longest, want := range map[int]float64{3000: 30e-6, 2048: 20.48e-6, 100: 20.48e-6} {
		if got := s.ChosenCost(10, 10*int64(longest), longest, Heads{Query: 16, KV: 1, Dim: 576, Value: 512, ElementBits: 16, KVBits: 16, Latent: true}).Latency; !near(got, want) {
			t.Errorf("%d rows: %v s, want %v", longest, got, want)
		}
	}
}

// TestTopKByHand: two prompts of ten tokens, each after two others, with four kept: the first two tokens of each see at most four. The
// other 16 need 4 rounds on 4 SMs, with 136 of the 150 scores; the four short ones need one round.
func TestTopKByHand(t *testing.T) {
	s := &Spec{SMs: 4, MemoryBandwidth: 1e18}
	s.Index.TopK = RankSpec{RowTime: units.Microsecond, ElementTime: 100 * units.Nanosecond, ShortTime: 500 * units.Nanosecond, TieRow: units.Second}
	x := llm.Indexing{Requests: 2, Queries: 10, Longest: 12, Keys: 24, Pairs: 150, Keep: 4}
	if got := s.IndexTopKCost(x, false); !near(got.Latency, 4*(1e-6+136./16*1e-7)+0.5e-6) {
		t.Errorf("%+v", got)
	}
	if got := s.IndexTopKCost(x, true); !near(got.Latency, 4*(1+1e-6+136./16*1e-7)+0.5e-6) {
		t.Errorf("all alike: %+v", got)
	}
	x.Step = true // all 20 tokens rank all their scores
	if got := s.IndexTopKCost(x, false); !near(got.Latency, 5*(1e-6+150./20*1e-7)) {
		t.Errorf("of a step: %+v", got)
	}
	// Simulations assume distinct scores.
	tied, m := *loadPreset(t, "h200-sxm"), latentModel(8)
	m.IndexTopK, m.IndexHeads, m.IndexDim, m.LayerPattern = 2048, 64, 128, "I"
	tied.Index.TopK = RankSpec{RowTime: units.Microsecond}
	clear := tied
	tied.Index.TopK.TieRow = units.Second
	of := llm.Indexing{Requests: 4, Queries: 1, Keys: 40000, Longest: 10000, Pairs: 40000, Keep: 2048, Step: true}
	if a, b := NewModelCost(&tied, m).Index(of), NewModelCost(&clear, m).Index(of); a != b || a == (Work{}) {
		t.Errorf("with ties %+v, without %+v", a, b)
	}
}

// TestValuesApart: units that read a latent for 16 query heads at once, and its value separately, count 16 of the 128 heads as their
// queries.
func TestValuesApart(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	for queries, want := range map[int]int{16: 16, 128: 128, 500: 128} {
		m := latentModel(1)
		c := NewModelCost(s, m)
		before := c.kinds[0].heads
		c.StoreValuesApart(queries)
		h := c.kinds[0].heads
		if h.Latent || h.Query != want || h.kvBytes() != before.kvBytes()+1024 { // 512 elements of 16 bits
			t.Errorf("%d at once: %+v", queries, h)
		}
	}
	plain := loadModel(t, "llama-3-8b")
	c, same := NewModelCost(s, plain), NewModelCost(s, plain)
	if c.StoreValuesApart(4); c.kinds != same.kinds {
		t.Errorf("a model without latents: %+v", c.kinds)
	}
}

// TestOwnBatchByHand: of nine requests on eight GPUs, one GPU has two, with an eighth of the tokens, rounded up, or the longest context.
func TestOwnBatchByHand(t *testing.T) {
	c := NewModelCost(loadPreset(t, "h200-sxm"), parallelModel(8, llm.Parallel{AttentionParallel: "data"}))
	for _, x := range []struct{ tokens, longest, want int }{{801, 90, 101}, {800, 90, 100}, {807, 90, 101}, {801, 300, 300}} {
		if got := c.ownBatch(DecodeBatch{Requests: 9, Tokens: int64(x.tokens), Longest: x.longest}); got.Requests != 2 || got.Tokens != int64(x.want) || got.Longest != x.longest {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// TestLayersAreParts: a batch without attention is the embedding, QKV, and projection and network, each as computed separately.
func TestLayersAreParts(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	for _, m := range []*llm.Model{loadModel(t, "llama-3-8b"), loadModel(t, "mixtral-8x7b"), latentModel(8)} {
		c := NewModelCost(s, m)
		e, q, rest, _ := c.Layers(100)
		if want := c.ProjectionFFN(100); e != c.Embedding(100) || q != c.QKV(100) || !near(rest.Seconds, want.Seconds) || !near(rest.Dynamic, want.Dynamic) {
			t.Errorf("%s: %+v, %+v, %+v", m.Name, e, q, rest)
		}
	}
}

// TestKernelTimesSum: the times by kind add up to the iteration, whatever collectives the fit has. The experts' time is the mixture's,
// times the layers with experts.
func TestKernelTimesSum(t *testing.T) {
	x := Shape{Decode: UniformBatch(30, 4000), Prefills: 2, Chunk: 500, Finished: 100}
	for _, p := range []llm.Parallel{{}, {ExpertParallel: true}, {AttentionParallel: "data"}, {AttentionParallel: "data", ExpertParallel: true}} {
		for fit := range 3 {
			s := *loadPreset(t, "h200-sxm")
			if fit > 0 {
				s.Collectives.AllGather, s.Collectives.ReduceScatter = ringOf(1), ringOf(2)
			}
			if fit > 1 {
				s.Collectives.AllToAll = ringOf(3)
			}
			m := parallelModel(8, p)
			m.DenseLayers, m.DenseFFN = 1, 18432
			c := NewModelCost(&s, m)
			total, sum := 0.0, 0.0
			for _, part := range c.IterationParts(x) {
				total += part.Seconds
			}
			for _, k := range c.KernelTimes(x) {
				sum += k.Seconds
			}
			if math.Abs(sum/total-1) > 1e-9 {
				t.Errorf("%+v, fit %d: kinds take %v s, the iteration %v", p, fit, sum, total)
			}
		}
	}
	s, m := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	m.DenseLayers, m.DenseFFN = 5, 9000
	c := NewModelCost(s, &m)
	i := 0
	if c.feedForwards[0].experts == nil {
		i = 1
	}
	want := 27 * c.waits(c.mixture(&c.feedForwards[i], 30+2*500)).Seconds
	for _, k := range c.KernelTimes(x) {
		if k.Kind == expertKind(c.grouped) && !near(k.Seconds, want) {
			t.Errorf("experts of 27 of 32 layers: %v s, want %v", k.Seconds, want)
		}
	}
}

// TestMoreRanges: both ends of the ranges in sections that most GPUs leave out.
func TestMoreRanges(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	for v, ok := range map[float64]bool{0.001: true, 10: true, 0: false, 10.001: false} {
		p := *s
		fillNumbers(reflect.ValueOf(&p.FP8).Elem())
		p.FP8.ConvertMemory = v
		if (len(input.Faults(&p)) == 0) != ok {
			t.Errorf("convert_memory_efficiency = %v: %v", v, input.Faults(&p))
		}
	}
	for text, ok := range map[string]bool{"1 [0.01, 100] assumption": true, "1 [0.009, 100] assumption": false, "1 [0.01, 100.1] assumption": false} {
		for i, key := range []string{"products", "prefill_attention", "decode_attention", "all_reduce", "small_kernels"} {
			one := energy.Constant("1 [0.9, 1.1] assumption")
			scale := ScaleSpec{Products: one, Prefill: one, Decode: one, AllReduce: one, SmallKernels: one}
			*[]*energy.Constant{&scale.Products, &scale.Prefill, &scale.Decode, &scale.AllReduce, &scale.SmallKernels}[i] = energy.Constant(text)
			if faults := input.Faults(&scale); (len(faults) == 0) != ok || !ok && faults[0].Key != key {
				t.Errorf("%s = %s: %v", key, text, faults)
			}
		}
	}
	for text, ok := range map[string]bool{"1024x64": true, "1025x64": false, "64x1024": true, "64x1025": false, "0x64": false, "1x1": true, "64x64/16": true, "64x64/17": false, "64x64/0": false,
		"64x64 <= 1073741824": true, "64x64 <= 1073741825": false, "64x64 <= 0": false, "64x64 <= 1": true, "64": false, "64x": false, "ax64": false} {
		if tile, got := parseTile(text); got != ok {
			t.Errorf("%s: %+v, %t", text, tile, got)
		}
	}
	if tile, _ := parseTile("32x128/2 <= 64"); tile.m != 32 || tile.n != 128 || tile.cluster != 2 || tile.most != 64 {
		t.Errorf("%+v", tile)
	}
}
