package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// TestChosenSteps: a decode step over chosen rows takes the kernel of whole contexts, each verified token over 2,048 rows of its own, however
// long the context and the union of choices are. FP8 rows without a kernel are widened. Without kernels for steps, that of prompts is taken.
func TestChosenSteps(t *testing.T) {
	s, m := latentGPU(t), indexedModel(8, "")
	c := NewModelCost(s, m)
	h := c.kinds[0].heads
	union := DecodeBatch{Requests: 5, Tokens: 5 * 5000, Longest: 5000, Page: 1}
	want := s.DecodeAttentionCost(UniformBatch(5, 2048), h).Seconds
	if got := c.DecodeBatchCost(union).Seconds; got != want {
		t.Errorf("a step takes %g s, want %g", got, want)
	}
	c = NewModelCost(s, m)
	c.Verify(3)
	if got, want := c.DecodeBatchCost(union).Seconds, s.DecodeAttentionCost(UniformBatch(15, 2048), h).Seconds; got != want {
		t.Errorf("a step that verifies 3 tokens takes %g s, want %g", got, want)
	}
	short := DecodeBatch{Requests: 5, Tokens: 4 * 2048, Longest: 4000, Page: 1} // fewer rows than 5 × 2,048
	if got, want := c.DecodeBatchCost(short).Seconds, s.DecodeAttentionCost(DecodeBatch{Requests: 15, Tokens: 3 * 4 * 2048, Longest: 2048}, h).Seconds; got != want {
		t.Errorf("short contexts take %g s, want %g", got, want)
	}
	narrow := *m
	narrow.KVFormat = llm.FP8
	s.Latent.DecodeFP8 = LatentDecodeSpec{}
	if got := NewModelCost(s, &narrow).DecodeBatchCost(union).Seconds; got != want {
		t.Errorf("widened rows take %g s, want %g", got, want)
	}
	s.Latent.Decode = LatentDecodeSpec{}
	if got, want := NewModelCost(s, m).DecodeBatchCost(union).Seconds, s.ChosenCost(5, 5*2048, 2048, h).Seconds; got != want {
		t.Errorf("the kernel of prompts takes %g s, want %g", got, want)
	}
	s.Latent.Chosen = ChosenSpec{}
	if got, want := NewModelCost(s, m).DecodeBatchCost(union).Seconds, s.PageAttentionCost(union, 1, h).Seconds; got != want {
		t.Errorf("page-sparse kernels take %g s, want %g", got, want)
	}
}

// TestChosenPrompts: prompts over FP8 latents take the kernel of decode steps, each token a request of its rows, where the fit has one; others
// take that of chosen rows. Several prompts share a kernel.
func TestChosenPrompts(t *testing.T) {
	s, m := latentGPU(t), indexedModel(8, "")
	s.Index = indexGPU().Index
	rows := llm.Chosen{Tokens: 100, Rows: 100 * 2048, Longest: 2048}
	c := NewModelCost(s, m)
	h := c.kinds[0].heads
	if got, want := c.Chosen(rows), c.prefills(s.ChosenCost(100, 100*2048, 2048, h)).Plus(c.absorb(100)); got != want {
		t.Errorf("rows of 16 bits take %+v, want %+v", got, want)
	}
	narrow := *m
	narrow.KVFormat = llm.FP8
	n := NewModelCost(s, &narrow)
	h = n.kinds[0].heads
	if got, want := n.Chosen(rows), n.prefills(s.DecodeAttentionCost(UniformBatch(100, 2048), h)).Plus(n.absorb(100)); got != want || !h.KVFloat {
		t.Errorf("FP8 rows take %+v, want %+v", got, want)
	}
	one, of := m.Indexer.Prompt(64, 9000)
	four := llm.Chosen{Tokens: 4 * one.Tokens, Rows: 4 * one.Rows, Longest: one.Longest}
	of.Requests, of.Keys, of.Pairs = 4*of.Requests, 4*of.Keys, 4*of.Pairs
	got := c.AttentionModule(Shape{Prefills: 4, Chunk: 64, Finished: 9000}, llm.Indexed) - c.AttentionModule(Shape{Prefills: 4, Chunk: 64, Finished: 9000}, llm.Shared)
	if want := c.Index(of).Seconds; !near(got, want) {
		t.Errorf("scores of four prompts take %g s, want %g", got, want)
	}
	if got, want := c.attend(Shape{Prefills: 4, Chunk: 64, Finished: 9000}, llm.Shared)[PrefillAttention].Seconds, c.Chosen(four).Seconds; !near(got, want) {
		t.Errorf("four prompts take %g s, want %g", got, want)
	}
}

// TestAlwaysChosen: a server without another kernel takes that of chosen rows for short contexts, too, but only for models with an indexer.
func TestAlwaysChosen(t *testing.T) {
	s := latentGPU(t)
	s.Index.Always = true
	c := NewModelCost(s, indexedModel(8, ""))
	h := c.kinds[0].heads
	if got, want := c.DecodeBatchCost(UniformBatch(7, 300)).Seconds, s.ChosenCost(7, 2100, 300, h).Seconds; got != want {
		t.Errorf("a step takes %g s, want %g", got, want)
	}
	// 10 tokens after 20: 21 + 22 + ... + 30 rows.
	want := c.prefills(s.ChosenCost(10, 255, 30, h)).Plus(c.absorb(10))
	if got := c.PrefillAttention(10, 20); got != want {
		t.Errorf("a prompt takes %+v, want %+v", got, want)
	}
	a := c.Attention()
	if got := a.Prompts(1, 10, 20, 0); got != want {
		t.Errorf("a prompt takes %+v, want %+v", got, want)
	}
	if got := c.IterationParts(Shape{Prefills: 1, Chunk: 10, Finished: 20})[DecodeAttention].Seconds; got != 0 {
		t.Errorf("no request decodes in %g s", got)
	}
	plain, dense := NewModelCost(s, latentModel(8)), *s
	dense.Index.Always = false
	if got, want := plain.PrefillAttention(10, 20), NewModelCost(&dense, latentModel(8)).PrefillAttention(10, 20); got != want {
		t.Errorf("a model without an indexer takes %+v, want %+v", got, want)
	}
	narrow := indexedModel(8, "")
	narrow.KVFormat = llm.FP8
	n := NewModelCost(s, narrow)
	if got, want := n.PrefillAttention(10, 20), n.prefills(s.ChosenCost(10, 255, 30, n.kinds[0].heads)).Plus(n.absorb(10)); got != want {
		t.Errorf("FP8 rows take %+v, want %+v", got, want)
	}
	s.Latent.Chosen = ChosenSpec{}
	c = NewModelCost(s, indexedModel(8, ""))
	if got, want := c.DecodeBatchCost(UniformBatch(7, 300)).Seconds, s.DecodeAttentionCost(UniformBatch(7, 300), h).Seconds; got != want {
		t.Errorf("the kernel of steps takes %g s, want %g", got, want)
	}
	if got, want := c.PrefillAttention(10, 20), c.prefills(s.DecodeAttentionCost(DecodeBatch{Requests: 10, Tokens: 255, Longest: 30}, h)).Plus(c.absorb(10)); got != want {
		t.Errorf("the kernel of steps takes %+v, want %+v", got, want)
	}
}

// TestWidenedWeights: kv_b of FP8 blocks is multiplied in 16 bits, that of other FP8 weights is not. The product of an indexer's keys and
// weights takes 16 bits whatever the others do.
func TestWidenedWeights(t *testing.T) {
	s, m := latentGPU(t), indexedModel(8, "III")
	m.WeightBits, m.ActivationBits, m.WeightBlock = 8, 8, FP8Block
	s.Latent.WidensBlocks = true
	if got := NewModelCost(s, m).absorbedBits(); got != 16 {
		t.Errorf("blocks: products of %d bits", got)
	}
	m.WeightBlock = 0
	if got := NewModelCost(s, m).absorbedBits(); got != 8 {
		t.Errorf("one scale: products of %d bits", got)
	}
	wider := *s
	wider.Latent.ProductsFP8 = s.Latent.Products
	wider.Latent.ProductsFP8.Widens = true
	wider.Latent.ProductsFP8.ConvertMemory = 1
	if got, want := wider.AbsorbedCost(8, 100, 512, 128, 8), s.AbsorbedCost(8, 100, 512, 128, 16); got != want {
		t.Errorf("widened on loading: %+v, want %+v", got, want)
	}
	c := NewModelCost(s, m)
	narrow, _ := c.indexProducts(4096)
	s.Index.WideKeys = true
	c = NewModelCost(s, m)
	wide, _ := c.indexProducts(4096)
	if got, want := wide.Seconds-narrow.Seconds, c.product(4096, 192, 7168, c.uniform).Seconds-c.product(4096, 192, 7168, c.projections).Seconds; !near(got, want) || want == 0 {
		t.Errorf("16 bits add %g s, want %g", got, want)
	}
}

// TestChosenTiles: a token's heads are in blocks of a tile each, which share the SMs: on 132 of them, 66 tokens of 128 heads take a wave of
// tiles of 64, like 132 tokens of 64 heads or of one; 67 tokens take two. FP8 rows reach their share of the rate.
func TestChosenTiles(t *testing.T) {
	s := &Spec{SMs: 132, Peak16: 1e15, MemoryBandwidth: 1e15}
	s.Latent.Chosen = ChosenSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 1}, TileRows: 64, Slots: 2048, RowTime: 1, WaveQuantization: true, WidenedShare: 0.5}
	tile := 2 * 64 * 2048 * (576 + 512) / (0.5e15 / 132)
	for _, c := range []struct {
		tokens, heads int
		widened       bool
		want          float64
	}{{66, 128, false, tile}, {132, 64, false, tile}, {132, 1, false, tile}, {67, 128, false, 2 * tile}, {133, 64, false, 2 * tile}, {1, 65, false, tile}, {66, 128, true, 2 * tile}} {
		h := Heads{Query: c.heads, KV: 1, Dim: 576, Value: 512, ElementBits: 16, Latent: true, widened: c.widened}
		rows := int64(c.tokens) * 2048
		got := s.ChosenCost(c.tokens, rows, 2048, h)
		if want := map[bool]float64{false: 2048e-12, true: 4096e-12}[c.widened]; !near(got.Compute, c.want) || !near(got.Latency, want) {
			t.Errorf("%+v: %g and %g s, want %g and %g", c, got.Compute, got.Latency, c.want, want)
		}
	}
	s.Latent.Chosen.Cluster = 2 // 66 tokens of 64 heads take a wave of pairs of half a tile each, 67 two
	for tokens, want := range map[int]float64{1: tile / 2, 66: tile / 2, 67: tile, 133: 1.5 * tile} {
		if got := s.ChosenCost(tokens, int64(tokens)*2048, 2048, Heads{Query: 64, KV: 1, Dim: 576, Value: 512, ElementBits: 16, Latent: true}); !near(got.Compute, want) {
			t.Errorf("pairs, %d tokens: %g s, want %g", tokens, got.Compute, want)
		}
	}
	if h := s.ofRows(Heads{Latent: true, KVFloat: true, KVBits: 8, ElementBits: 16}); !h.widened {
		t.Error("FP8 rows are not widened")
	}
	if h := s.ofRows(Heads{Latent: true, ElementBits: 16}); h.widened {
		t.Error("rows of 16 bits are widened")
	}
}

// TestPromptsReadOnce: a second reading of latents for more heads hits the L2 in prompts, whose tokens read the same rows, and not in steps.
func TestPromptsReadOnce(t *testing.T) {
	s := latentGPU(t)
	s.Latent.Decode.GroupLimit, s.Latent.Decode.WideGroup, s.Latent.Decode.AgainShare, s.Latent.Chosen = 16, 0, 1, ChosenSpec{}
	c := NewModelCost(s, indexedModel(4, ""))
	h := c.kinds[0].heads
	prompt := h
	prompt.prompt = true
	if step, once := s.DecodeAttentionCost(UniformBatch(100, 2048), h), s.DecodeAttentionCost(UniformBatch(100, 2048), prompt); h.Query != 32 || step.Memory < 1.9*once.Memory {
		t.Errorf("%d heads take %g s of memory in steps, %g in prompts", h.Query, step.Memory, once.Memory)
	}
	if got, want := c.Chosen(llm.Chosen{Tokens: 100, Rows: 100 * 2048, Longest: 2048}), c.prefills(s.DecodeAttentionCost(UniformBatch(100, 2048), prompt)).Plus(c.absorb(100)); got != want {
		t.Errorf("a prompt takes %+v, want %+v", got, want)
	}
}

// TestIndexersSmallKernels: layers with an indexer have its small kernels, for contexts of any length.
func TestIndexersSmallKernels(t *testing.T) {
	s := latentGPU(t)
	with := *s
	with.Index.SmallOverhead, with.Index.SmallTime = 20*units.Microsecond, 30*units.Nanosecond
	for _, x := range []struct {
		layers string
		share  float64
	}{{"III", 1}, {"ISS", 1. / 3}, {"SSS", 0}} {
		m := indexedModel(8, x.layers)
		for _, shape := range []Shape{{Decode: UniformBatch(10, 100)}, {Decode: UniformBatch(10, 10_000)}, {Prefills: 2, Chunk: 5}} {
			got := NewModelCost(&with, m).AttentionModule(shape, llm.Indexed) - NewModelCost(s, m).AttentionModule(shape, llm.Indexed)
			if want := x.share * (20e-6 + 10*30e-9); !near(got, want) && math.Abs(got-want) > 1e-15 {
				t.Errorf("%s, %+v: %g s, want %g", x.layers, shape, got, want)
			}
		}
	}
	if got, _ := NewModelCost(&with, indexedModel(8, "III")).indexProducts(0); got != (Work{}) {
		t.Errorf("no tokens: %+v", got)
	}
}
