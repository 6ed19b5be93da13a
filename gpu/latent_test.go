package gpu

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/llm"
)

// latentModel is a layer of DeepSeek V3's attention on the given number of GPUs, with a dense network.
func latentModel(gpus int) *llm.Model {
	return &llm.Model{Name: "latent", Layers: 3, Hidden: 7168, Heads: 128, KVHeads: 1, HeadDim: 576, FFNHidden: 18432, GatedFFN: true, Vocab: 129280,
		ElementBits: 16, TensorParallel: gpus, Latent: llm.Latent{LatentDim: 512, QueryRank: 1536, NopeDim: 128, ValueDim: 128}}
}

// TestLatentDecode: one vector of 576 elements is key and value of all heads. There are 2 · (576 + 512) operations for each query head and
// token, 1,152 bytes for each token on every GPU, whatever their number, and queries of 576 and outputs of 512 elements.
func TestLatentDecode(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	for _, gpus := range []int{1, 8} {
		c := NewModelCost(s, latentModel(gpus))
		b := UniformBatch(10, 3000)
		heads, tokens := float64(128/gpus), 30_000.0
		cost := c.DecodeBatchCost(b)
		if want := 2 * (576 + 512) * heads * tokens; cost.FLOPs != want {
			t.Errorf("%d GPUs: %g operations, want %g", gpus, cost.FLOPs, want)
		}
		if want := 1152*tokens + 2*(576+512)*heads*10; cost.Bytes != want {
			t.Errorf("%d GPUs: %g bytes, want %g", gpus, cost.Bytes, want)
		}
	}
}

// TestLatentPromptsOfNarrowKeys: keys and values that prompts expand from latents have the width of activations, however narrow the stored
// latents are. A decode step reads the stored ones: 576 B and a scale of 4 B. A prompt costs the same with either.
func TestLatentPromptsOfNarrowKeys(t *testing.T) {
	m := latentModel(8)
	m.KVBits = 8
	if got, want := newHeads(m, false).prompts, (Heads{Query: 16, KV: 16, Dim: 192, Value: 128, Expanded: true, ElementBits: 16, kv: 2 * 320}); got != want {
		t.Errorf("prompts have %+v, by hand %+v", got, want)
	}
	s := loadPreset(t, "h200-sxm")
	narrow, wide := NewModelCost(s, m), NewModelCost(s, latentModel(8))
	if got, want := narrow.DecodeBatchCost(UniformBatch(10, 3000)).Bytes, (576+4)*30_000.0+2*(576+512)*16*10; got != want {
		t.Errorf("decoding reads %g bytes, by hand %g", got, want)
	}
	a, b := narrow.Attention(), wide.Attention()
	if x, y := a.Prompts(2, 300, 200, 0), b.Prompts(2, 300, 200, 0); x != y {
		t.Errorf("prompts take %+v with latents of 8 bits, %+v of 16", x, y)
	}
}

// TestLatentIsSharedAttention: attention on latents is multi-query attention, except that values are not stored separately.
func TestLatentIsSharedAttention(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	rapid.Check(t, func(t *rapid.T) {
		query, rank, rope := 8*rapid.IntRange(1, 16).Draw(t, "heads"), 8*rapid.IntRange(1, 64).Draw(t, "rank"), 8*rapid.IntRange(0, 16).Draw(t, "rope")
		b := UniformBatch(rapid.IntRange(1, 100).Draw(t, "requests"), rapid.IntRange(1, 20_000).Draw(t, "context"))
		latent := Heads{Query: query, KV: 1, Dim: rank + rope, Value: rank, Latent: true, ElementBits: 16}
		apart := latent
		apart.Latent = false
		x, y := s.DecodeAttentionCost(b, latent), s.DecodeAttentionCost(b, apart)
		if x.FLOPs != y.FLOPs || y.Bytes-x.Bytes != float64(2*rank)*float64(b.Tokens) || x.Seconds > y.Seconds*(1+1e-9) {
			t.Fatalf("latent %+v, apart %+v", x, y)
		}
		plain := Heads{Query: query, KV: 1, Dim: rank, ElementBits: 16}
		named := plain
		named.Value = rank
		if s.DecodeAttentionCost(b, plain) != s.DecodeAttentionCost(b, named) {
			t.Fatal("values as wide as keys cost something else where the width is named")
		}
	})
}

// TestLatentProducts: the products around attention on one of eight GPUs, by hand: down to both ranks at once; up to 16 heads' queries; the
// two halves of a head's matrix around a decode step; keys and values of a prompt and of earlier tokens; the output.
func TestLatentProducts(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	c := NewModelCost(s, latentModel(8))
	small := func(n, width int) float64 { return c.small(c.spec.small().norm(false, n, width, 16)).Seconds }
	for _, n := range []int{1, 64, 1000} {
		appended := c.small(s.small().copies(2, float64(n)*2*1152)).Seconds
		want := s.gemmTime(n, 1536+576, 7168, 16) + s.gemmTime(n, 16*192, 1536, 16) + small(n, 7168) + small(n, 512) + small(n, 1536) + appended
		if got := c.QKV(n).Seconds; !near(got, want) {
			t.Errorf("%d tokens: QKV takes %g s, want %g", n, got, want)
		}
		if got, want := c.Projection(n).Seconds, s.gemmTime(n, 7168, 16*128, 16)+c.allReduce(n).Seconds; !near(got, want) {
			t.Errorf("%d tokens: projection takes %g s, want %g", n, got, want)
		}
		l := expertLoad{Pairs: 16 * n, Touched: 16}
		want = s.groupedCost(l, 16*n, 512, 128, uniform(16)).Seconds + s.groupedCost(l, 16*n, 128, 512, uniform(16)).Seconds
		if got := c.DecodeBatch(UniformBatch(n, 500)).Seconds - c.Kernel(c.DecodeBatchCost(UniformBatch(n, 500))).Seconds; !near(got, want) {
			t.Errorf("%d requests: absorbed products take %g s, want %g", n, got, want)
		}
		heads := Heads{Query: 16, KV: 16, Dim: 192, Value: 128, ElementBits: 16}
		want = s.PrefillAttentionCost(1, n, 700, heads).Seconds + s.gemmTime(n+700, 16*256, 512, 16)
		if got := c.PrefillAttention(n, 700).Seconds; !near(got, want) {
			t.Errorf("%d tokens after 700: %g s, want %g", n, got, want)
		}
		a := c.Attention()
		if got := a.Prompts(1, n, 700, 0).Seconds; !near(got, want) {
			t.Errorf("%d tokens after 700 in a batch: %g s, want %g", n, got, want)
		}
	}
	straight := latentModel(8)
	straight.QueryRank = 0
	d := NewModelCost(s, straight)
	if got, want := d.QKV(5).Seconds, s.gemmTime(5, 16*192+576, 7168, 16)+small(5, 7168)+small(5, 512)+d.small(s.small().copies(2, 5*2*1152)).Seconds; !near(got, want) {
		t.Errorf("one product makes the queries: %g s, want %g", got, want)
	}
	// Two tokens of a request in a step: the kernels have twice the queries and read latents once.
	c.Verify(2)
	if got := c.DecodeBatchCost(UniformBatch(4, 500)); got.FLOPs != 2*2*(576+512)*16*2000 || got.Bytes != 1152*2000+2*2*(576+512)*16*4 {
		t.Errorf("two tokens a request: %+v", got)
	}
	if got, want := c.DecodeBatch(UniformBatch(4, 500)).Seconds-c.Kernel(c.DecodeBatchCost(UniformBatch(4, 500))).Seconds, c.absorb(8).Seconds; !near(got, want) {
		t.Errorf("absorbed products of two tokens a request: %g s, want %g", got, want)
	}
}

// TestLatentPrompt: prompts attend to keys of 192 and values of 128 elements: 2 · 320 operations for each pair, 3.4 times fewer than on
// latents.
func TestLatentPrompt(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	c := NewModelCost(s, latentModel(1))
	cost := s.PrefillAttentionCost(1, 4000, 0, c.kinds[0].prompts)
	if want := 2.0 * 320 * 128 * (4000 * 4001 / 2); cost.FLOPs != want {
		t.Errorf("%g operations, want %g", cost.FLOPs, want)
	}
	if want := 2.0 * 2 * 320 * 128 * 4000; cost.Bytes != want { // queries and outputs, keys and values
		t.Errorf("%g bytes, want %g", cost.Bytes, want)
	}
}
