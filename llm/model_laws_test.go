package llm

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// drawMixture returns a valid mixture-of-experts model of any shape, with the kinds of layers in any order.
func drawMixture(t *rapid.T) (m Model, order []byte) {
	m = Model{Name: "drawn", Layers: rapid.IntRange(1, 12).Draw(t, "layers"), Hidden: 64 * rapid.IntRange(1, 20).Draw(t, "hidden"), KVHeads: rapid.IntRange(1, 4).Draw(t, "KV heads"),
		HeadDim: 16 * rapid.IntRange(1, 8).Draw(t, "head dim"), FFNHidden: rapid.IntRange(1, 500).Draw(t, "width"), GatedFFN: rapid.Bool().Draw(t, "gated"),
		Vocab: rapid.IntRange(1, 1000).Draw(t, "vocabulary"), ElementBits: 16, TensorParallel: 1, Context: 100_000}
	m.Heads = m.KVHeads * rapid.IntRange(1, 4).Draw(t, "group")
	m.Experts = rapid.IntRange(2, 20).Draw(t, "experts")
	m.ActiveExperts = rapid.IntRange(1, m.Experts).Draw(t, "active")
	if m.DenseLayers = rapid.IntRange(0, m.Layers-1).Draw(t, "dense layers"); m.DenseLayers > 0 {
		m.DenseFFN = rapid.IntRange(1, 500).Draw(t, "dense width")
	}
	order = rapid.SliceOfN(rapid.SampledFrom([]byte{Local, Global}), m.Layers, m.Layers).Draw(t, "order")
	if m.LayerPattern = string(order); slices.Contains(order, Local) {
		m.Window = rapid.IntRange(1, 300).Draw(t, "window")
	}
	if faults := input.Faults(&m); len(faults) > 0 {
		t.Fatal(faults)
	}
	return m, order
}

// TestOneMoreSharedExpert: a further shared expert adds its matrices to every layer with experts, for the active parameters, too, and
// changes nothing else.
func TestOneMoreSharedExpert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := drawMixture(t)
		more := m
		more.SharedFFN += m.FFNHidden
		matrices := int64(2)
		if m.GatedFFN {
			matrices = 3
		}
		expert := matrices * int64(m.Hidden) * int64(m.FFNHidden) * int64(m.Layers-m.DenseLayers)
		if got := more.Parameters() - m.Parameters(); got != expert {
			t.Errorf("%+v: %d parameters, want %d", m, got, expert)
		}
		if got := more.ActiveParameters() - m.ActiveParameters(); got != expert {
			t.Errorf("%+v: %d parameters of a token, want %d", m, got, expert)
		}
		if got := more.WeightBytes() - m.WeightBytes(); got != units.Bytes(2*expert) || more.KVBytes(1000) != m.KVBytes(1000) {
			t.Errorf("%+v: %d bytes of weights, want %d", m, got, 2*expert)
		}
	})
}

// TestOrderOfLayers: the order of a model's layers changes neither its weights nor what it stores: a window's tokens in some layers, all
// tokens in the others.
func TestOrderOfLayers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, order := drawMixture(t)
		other := m
		other.LayerPattern = string(rapid.Permutation(order).Draw(t, "other order"))
		tokens := rapid.IntRange(1, 1000).Draw(t, "tokens")
		if other.Parameters() != m.Parameters() || other.WeightBytes() != m.WeightBytes() || other.KVBytes(tokens) != m.KVBytes(tokens) {
			t.Errorf("%+v and with layers %s: %d and %d bytes of %d tokens", m, other.LayerPattern, m.KVBytes(tokens), other.KVBytes(tokens), tokens)
		}
		want := 0
		for _, kind := range order {
			if kind == Local {
				want += min(tokens, m.Window)
			} else {
				want += tokens
			}
		}
		if got := m.KVBytes(tokens); got != units.Bytes(want*2*m.KVHeads*m.HeadDim*2) {
			t.Errorf("%+v: %d tokens store %d bytes, want %d tokens of layers", m, tokens, got, want)
		}
	})
}
