package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestDecodingOverAndOver: what decoding takes depends on the batch alone, not on what a
// model's costs were asked for before.
func TestDecodingOverAndOver(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	m := loadModel(t, "llama-3-8b")
	rapid.Check(t, func(t *rapid.T) {
		c := NewModelCost(&s, m)
		for range 30 {
			n := func(name string) int { return rapid.IntRange(1, 2).Draw(t, name) }
			b := DecodeBatch{Requests: 2 * n("requests"), Tokens: int64(9000 * n("tokens")), Longest: 4500 * n("longest"), KVHeads: 4 * n("heads"), Page: 16 * (n("page") - 1), Weights: n("weights") == 2}
			a, fresh := c.Attention(), NewModelCost(&s, m).Attention()
			got, want := a.Decoding(b), fresh.Decoding(b)
			if got != want || a.Total(Work{Seconds: 1}, got, 9) != fresh.Total(Work{Seconds: 1}, want, 9) {
				t.Fatalf("%+v: %+v, for costs that were asked for nothing else %+v", b, got, want)
			}
		}
	})
}

// TestMixedIteration: an iteration of a batch that decodes and prefills has both kernels and the copies between them; one that does either has
// its kernel alone.
func TestMixedIteration(t *testing.T) {
	c := NewModelCost(loadPreset(t, "h200-sxm"), loadModel(t, "llama-3-8b"))
	a := c.Attention()
	x := Shape{Decode: UniformBatch(64, 4096), Prefills: 2, Chunk: 512, Finished: 100}
	got, want := c.IterationParts(x), a.Total(a.Prompts(2, 512, 100, 0), a.Decoding(x.Decode), 64+1024)
	apart := got[DecodeAttention].Plus(got[PrefillAttention]).Seconds
	if joined := c.joined(64 + 1024).Seconds; math.Abs(apart/float64(c.model.Layers)+joined-want.Seconds) > 1e-12 || joined <= 0 {
		t.Errorf("attention takes %v s, a layer %v s and %v s of copies", apart, want.Seconds, joined)
	}
	if alone := c.IterationParts(Shape{Decode: x.Decode}); alone[DecodeAttention].Seconds == 0 || alone[PrefillAttention] != (Work{}) {
		t.Errorf("a batch that decodes: %+v", alone)
	}
	if alone := c.IterationParts(Shape{Prefills: 2, Chunk: 512}); alone[PrefillAttention].Seconds == 0 || alone[DecodeAttention] != (Work{}) {
		t.Errorf("a batch that prefills: %+v", alone)
	}
}
