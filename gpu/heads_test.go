package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// TestHeadsOfWindows: layers with a window may have other heads. In a model where two of three layers have one, the products around
// attention take the mean of both kinds, and attention takes as long as in a model where all layers have those heads.
func TestHeadsOfWindows(t *testing.T) {
	spec, base := loadPreset(t, "h200-sxm"), *loadModel(t, "llama-3-8b")
	base.Layers, base.TensorParallel = 3, 2
	global, local, mixed := base, base, base
	global.ValueDim, mixed.ValueDim, local.ValueDim = 96, 96, 96
	local.KVHeads, local.HeadDim = 4, 64
	mixed.LayerKinds = llm.LayerKinds{Window: 1 << 20, LayerPattern: "LLG", WindowKVHeads: 4, WindowHeadDim: 64}
	g, l, m := NewModelCost(spec, &global), NewModelCost(spec, &local), NewModelCost(spec, &mixed)
	mean := func(global, local float64) float64 { return global/3 + 2*local/3 }
	for _, n := range []int{1, 700} {
		if got, want := m.QKV(n).Seconds, mean(g.QKV(n).Seconds, l.QKV(n).Seconds); !near(got, want) {
			t.Errorf("%d tokens: QKV takes %g s, want %g", n, got, want)
		}
		if got, want := m.Projection(n).Seconds, mean(g.Projection(n).Seconds, l.Projection(n).Seconds); !near(got, want) {
			t.Errorf("%d tokens: the projection takes %g s, want %g", n, got, want)
		}
	}
	b := UniformBatch(9, 3000)
	if m.DecodeBatch(b) != g.DecodeBatch(b) {
		t.Error("heads without a window are not the model's own")
	}
	windowed := b
	windowed.Windowed = true
	if got, want := m.DecodeBatch(windowed), l.DecodeBatch(b); got != want {
		t.Errorf("heads of a window take %+v, want %+v", got, want)
	}
	a, c := m.Attention(), l.Attention()
	if got, want := a.PromptsOf(1, 500, 100, 0, true), c.Prompts(1, 500, 100, 0); got != want {
		t.Errorf("a prompt of heads of a window takes %+v, want %+v", got, want)
	}
	x := Shape{Decode: b, Prefills: 1, Chunk: 300}
	if got, want := m.IterationParts(x), g.IterationParts(x)[DecodeAttention].Seconds/3+2*l.IterationParts(x)[DecodeAttention].Seconds/3; !near(got[DecodeAttention].Seconds, want) {
		t.Errorf("attention of a step takes %g s, want %g", got[DecodeAttention].Seconds, want)
	}
	// Keys of 128 and values of 96 elements: 16 query heads of a GPU, 4 KV heads.
	if cost := g.DecodeBatchCost(b); cost.FLOPs != 2*(128+96)*16*27000 || cost.Bytes != 27000*4*(128+96)*2+9*16*(128+96)*2 {
		t.Errorf("%g operations, %g bytes", cost.FLOPs, cost.Bytes)
	}
}
