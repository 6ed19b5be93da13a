package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// indexedModel is latentModel with DeepSeek V3.2's indexer, in all of three layers or in those of a pattern.
func indexedModel(gpus int, pattern string) *llm.Model {
	m := latentModel(gpus)
	m.LayerKinds = llm.LayerKinds{LayerPattern: pattern, Indexer: llm.Indexer{IndexHeads: 64, IndexDim: 128, IndexTopK: 2048}}
	return m
}

// TestIndexScoresByHand: a step of ten requests of 65,536 tokens reads 132 bytes and writes a 4-byte score for each token, with queries of
// 64 x 128 bytes. 2 · 64 · 128 operations for each token are 124 for each byte of a key.
func TestIndexScoresByHand(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	x := llm.Indexing{Requests: 10, Queries: 1, Keys: 655_360, Longest: 65_536, Pairs: 655_360, Keep: 2048}
	c := s.IndexScoreCost(x, 64, 128, 132)
	if want := 655_360.0*(132+4) + 10*64*128; c.Bytes != want {
		t.Errorf("%g bytes, want %g", c.Bytes, want)
	}
	if want := 2.0 * 64 * 128 * 655_360; c.FLOPs != want || c.Executed != want/2 || c.Latency != 0 {
		t.Errorf("%g operations, %g of 16 bits executed, a latency of %g; want %g, %g, none", c.FLOPs, c.Executed, c.Latency, want, want/2)
	}
	if memory, compute := c.Bytes/(s.PageSparse.Memory*float64(s.MemoryBandwidth)), 2*64*128*655_360/(s.PageSparse.Compute*float64(s.Peak8)); s.PageSparse.Memory == 1 || !near(c.Memory, memory) || !near(c.Compute, compute) {
		t.Errorf("%g s of memory, %g of operations, want %g and %g", c.Memory, c.Compute, memory, compute)
	}
	if got := s.IndexScoreCost(x, 32, 128, 132); got.Executed != c.Executed || got.FLOPs != c.FLOPs/2 {
		t.Errorf("32 heads: %g executed, want the tile of 64 rows, %g", got.Executed, c.Executed)
	}
	// A chunk of 3 tokens has 192 rows in two tiles of 128, and each block passes over all 5,000 keys.
	x = llm.Indexing{Requests: 1, Queries: 3, Keys: 5000, Longest: 5000, Pairs: 14_997, Keep: 2048}
	c = s.IndexScoreCost(x, 64, 128, 132)
	if want := 2.0 * 128 * 256 / 3 * 14_997 / 2; !near(c.Executed, want) {
		t.Errorf("%g executed, want %g", c.Executed, want)
	}
	if want := 2.0 * 128 * 128 * 5000 * float64(s.SMs) / (s.PageSparse.Compute * float64(s.Peak8)); !near(c.Latency, want) {
		t.Errorf("a block takes %g s, want %g", c.Latency, want)
	}
	if s.IndexScoreCost(llm.Indexing{}, 64, 128, 132) != (Cost{}) {
		t.Error("scores of nothing take time")
	}
}

// TestIndexScoresOfDrafts: two queries of a decode step read a request's keys once and distribute them over all blocks; those of a prompt
// each pass over all keys.
func TestIndexScoresOfDrafts(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	x := llm.Indexing{Requests: 1, Queries: 2, Keys: 100_000, Longest: 100_000, Pairs: 2 * 100_000, Keep: 2048, Step: true}
	one := llm.Indexing{Requests: 1, Queries: 1, Keys: 100_000, Longest: 100_000, Pairs: 100_000, Keep: 2048, Step: true}
	a, b := s.IndexScoreCost(x, 64, 128, 132), s.IndexScoreCost(one, 64, 128, 132)
	if a.Latency != 0 || a.Bytes-b.Bytes != 4*100_000+64*128 || a.FLOPs != 2*b.FLOPs || a.Seconds >= 2*b.Seconds {
		t.Errorf("two queries of a step take %+v, one %+v", a, b)
	}
	x.Step = false
	if prompt := s.IndexScoreCost(x, 64, 128, 132); prompt.Latency == 0 || prompt.Bytes != a.Bytes {
		t.Errorf("two queries of a prompt take %+v", prompt)
	}
}

// TestIndexProductsByHand: for the mean of three layers, of which one or all have an indexer, each GPU computes queries of 64 x 128 from
// the vector of 1,536, and a key of 128 with 64 weights from the hidden state.
func TestIndexProductsByHand(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	for pattern, share := range map[string]float64{"": 1, "GIS": 1.0 / 3, "IIS": 2.0 / 3} {
		c, plain := NewModelCost(s, indexedModel(8, pattern)), NewModelCost(s, latentModel(8))
		for _, n := range []int{1, 500} {
			norm := c.small(s.small().norm(false, n, 128, 16)).Seconds + c.small(s.small().copies(1, float64(n)*2*132)).Seconds
			want := plain.QKV(n).Seconds + share*(s.gemmTime(n, 64*128, 1536, 16)+s.gemmTime(n, 128+64, 7168, 16)+norm)
			if got := c.QKV(n).Seconds; !near(got, want) {
				t.Errorf("%q, %d tokens: QKV takes %g s, want %g", pattern, n, got, want)
			}
		}
	}
}

// TestTopKBeyondContexts: while no context exceeds the number of choices, attention costs the same as without an indexer. Beyond, a layer
// that shares a choice takes attention over 2,048 rows, and one with an indexer also the scores and the choice.
func TestTopKBeyondContexts(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	c, plain, shared := NewModelCost(s, indexedModel(1, "")), NewModelCost(s, latentModel(1)), NewModelCost(s, indexedModel(1, "ISS"))
	for _, x := range []Shape{{Decode: UniformBatch(16, 2048)}, {Prefills: 2, Chunk: 1024, Finished: 1024}, {Decode: UniformBatch(3, 100), Prefills: 1, Chunk: 5}} {
		got, want := c.IterationParts(x), plain.IterationParts(x)
		if got[DecodeAttention] != want[DecodeAttention] || got[PrefillAttention] != want[PrefillAttention] {
			t.Errorf("%+v: %+v, want %+v", x, got, want)
		}
	}
	rows := UniformBatch(16, 2048)
	rows.Page = 1
	attends := c.DecodeBatch(rows)
	index := c.Index(llm.Indexing{Requests: 16, Queries: 1, Keys: 16 * 3000, Longest: 3000, Pairs: 16 * 3000, Keep: 2048})
	x := Shape{Decode: UniformBatch(16, 3000)}
	if got, want := c.IterationParts(x)[DecodeAttention].Seconds, 3*(attends.Seconds+index.Seconds); !near(got, want) {
		t.Errorf("a step takes %g s, want %g", got, want)
	}
	if got, want := shared.IterationParts(x)[DecodeAttention].Seconds, 3*attends.Seconds+index.Seconds; !near(got, want) {
		t.Errorf("a step of layers that share takes %g s, want %g", got, want)
	}
	chosen, scores := c.model.Indexer.Prompt(500, 3000)
	x = Shape{Prefills: 2, Chunk: 500, Finished: 3000}
	both, of := llm.Chosen{Tokens: 1000, Rows: 2 * chosen.Rows, Longest: 2048}, scores // one kernel for both
	of.Requests, of.Keys, of.Pairs = 2, 2*scores.Keys, 2*scores.Pairs
	if got, want := c.IterationParts(x), 3*(c.Chosen(both).Seconds+c.Index(of).Seconds); !near(got[PrefillAttention].Seconds, want) {
		t.Errorf("chunks take %+v, want %g s", got, want)
	}
	// 500 tokens over 2,048 rows each cost the same as 500 decoding requests, with the absorbed products.
	rows = UniformBatch(500, 2048)
	rows.Page = 1
	if got, want := c.Chosen(chosen).Seconds, c.prefills(s.PageAttentionCost(rows, 1, c.kinds[0].heads)).Plus(c.absorb(500)).Seconds; !near(got, want) {
		t.Errorf("chosen rows take %g s, want %g", got, want)
	}
	if cost := s.PageAttentionCost(rows, 1, c.kinds[0].heads); cost.FLOPs != 2*(576+512)*128*500*2048 || cost.Bytes != 500*2048*(1152+4)+500*128*2*(576+512) {
		t.Errorf("%g operations, %g bytes", cost.FLOPs, cost.Bytes)
	}
}
