package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// TestAttentionBits: with 8-bit weights and 16-bit attention, the products around attention cost as much as in 16 bits, and the
// feed-forward network as much as in 8. Scales of blocks are also read.
func TestAttentionBits(t *testing.T) {
	s := measuredA100(t)
	cost := func(set func(*llm.Model)) *ModelCost {
		m := &llm.Model{Layers: 2, Hidden: 8192, Heads: 64, KVHeads: 8, HeadDim: 128, FFNHidden: 28672, GatedFFN: true, Vocab: 1000, ElementBits: 16, TensorParallel: 1}
		set(m)
		return NewModelCost(s, m)
	}
	wide, narrow := cost(func(*llm.Model) {}), cost(func(m *llm.Model) { m.WeightBits = 8 })
	mixed := cost(func(m *llm.Model) { m.WeightBits, m.AttentionBits = 8, 16 })
	if mixed.QKV(8) != wide.QKV(8) || mixed.QKV(8) == narrow.QKV(8) {
		t.Error("attention of 16 bits does not take the time of 16 bits")
	}
	if mixed.FFN(8) != narrow.FFN(8) {
		t.Error("the feed-forward network does not take the time of 8 bits")
	}
	for _, c := range []struct {
		of   func(*ModelCost) Work
		kept func(*llm.Model) *float64
	}{
		{func(c *ModelCost) Work { return c.QKV(8) }, func(m *llm.Model) *float64 { return &m.KeptAttention }},
		{func(c *ModelCost) Work { return c.Projection(8) }, func(m *llm.Model) *float64 { return &m.KeptAttention }},
		{func(c *ModelCost) Work { return c.FFN(8) }, func(m *llm.Model) *float64 { return &m.KeptNetwork }},
	} {
		for _, share := range []float64{0, 0.25, 1} { // share of the layers with 16 bits: the mean layer takes that share of the difference more
			kept := c.of(cost(func(m *llm.Model) { m.WeightBits, *c.kept(m) = 8, share }))
			few, all := c.of(narrow), c.of(wide)
			want := float64((1-share)*few.Seconds) + float64(share*all.Seconds)
			joules := float64((1-share)*few.Dynamic) + float64(share*all.Dynamic)
			if math.Abs(kept.Seconds/want-1) > 1e-12 || math.Abs(kept.Dynamic/joules-1) > 1e-12 {
				t.Errorf("with a share of %v in 16 bits: %v, want %v s and %v J", share, kept, want, joules)
			}
		}
	}
	scaled := cost(func(m *llm.Model) { m.WeightBits, m.WeightBlock = 8, 16 })
	if scaled.FFN(8).Seconds <= narrow.FFN(8).Seconds || scaled.QKV(8).Seconds <= narrow.QKV(8).Seconds {
		t.Error("scales take no time")
	}
}
