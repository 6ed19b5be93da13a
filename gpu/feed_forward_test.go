package gpu

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// TestSharedExperts: a network that every token takes costs its products, its activation and one more operand of the sum, whether its
// experts are assigned evenly or not.
func TestSharedExperts(t *testing.T) {
	s, m := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	s.Collective.Skew = 0 // tested separately
	for _, n := range []int{1, 16, 700} {
		without := NewModelCost(s, &m).FFN(n).Seconds
		with := m
		with.SharedFFN = 3000 // 1,500 columns on each of two GPUs
		want := without + s.gemmTime(n, 3000, 4096, 16) + s.gemmTime(n, 4096, 1500, 16) + s.activation(n, 1500, true, 16).Seconds +
			s.Elementwise(4, n, 4096, 16).Seconds - s.Elementwise(3, n, 4096, 16).Seconds
		if got := NewModelCost(s, &with).FFN(n).Seconds; !near(got, want) {
			t.Errorf("%d tokens: %g s, want %g", n, got, want)
		}
	}
}

// TestDenseLayersOfAMixture: a model's layers together cost the sum of each kind's cost times its number of layers.
func TestDenseLayersOfAMixture(t *testing.T) {
	s, mixture := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	mixture.WeightBits, mixture.WeightBlock, mixture.ActivationBits = 8, 16, 8
	dense := mixture
	dense.Experts, dense.ActiveExperts, dense.FFNHidden = 0, 0, 9000
	both := mixture
	both.DenseLayers, both.DenseFFN = 5, 9000
	for _, n := range []int{1, 16, 700} {
		of := func(m *llm.Model) Work { return NewModelCost(s, m).FFN(n) }
		got, d, x := of(&both), of(&dense), of(&mixture)
		for _, v := range [][3]float64{{got.Seconds, d.Seconds, x.Seconds}, {got.Clocked, d.Clocked, x.Clocked}, {got.Dynamic, d.Dynamic, x.Dynamic}} {
			if want := 5*v[1] + 27*v[2]; !near(32*v[0], want) {
				t.Errorf("%d tokens: %g in 32 layers, want %g", n, 32*v[0], want)
			}
		}
	}
	if got := NewModelCost(s, &both).FFNWidth(); got != 0 {
		t.Errorf("%d columns to share with another device", got)
	}
	if got := NewModelCost(s, &dense).FFNWidth(); got != 4500 {
		t.Errorf("%d columns of a dense model", got)
	}
}

// TestFeedForwardBeyond: products wider than the measured ones are reported, also those of dense layers and shared experts.
func TestFeedForwardBeyond(t *testing.T) {
	s, m := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	m.TensorParallel = 1
	far := s.Range().ProductWidth * 2
	for _, c := range []struct {
		change func(m *llm.Model)
		beyond bool
	}{
		{func(*llm.Model) {}, false}, {func(m *llm.Model) { m.SharedFFN = far }, true}, {func(m *llm.Model) { m.DenseLayers, m.DenseFFN = 1, far }, true},
		{func(m *llm.Model) { m.SharedFFN = 1000 }, false},
	} {
		n := m
		n.FFNHidden = 4096
		c.change(&n)
		if got := NewModelCost(s, &n).ffnBeyond(16); strings.Contains(got, "columns or inner elements") != c.beyond {
			t.Errorf("%+v: %q", n.Beside, got)
		}
	}
	// Expert kernels are judged by their own range, instead of the products of one expert.
	s.Experts.Whole = ExpertSpec{Efficiency: s.MatMul.Efficiency, PassMemory: 1}
	s.Measured.ExpertTokens, s.Measured.ExpertWidth, s.Measured.ProductRows = 100, far, 10
	m.FFNHidden = far
	for tokens, want := range map[int]string{100: "", 101: "101 tokens of experts: measured up to 100"} {
		if got := NewModelCost(s, &m).ffnBeyond(tokens); got != want {
			t.Errorf("%d tokens: %q, want %q", tokens, got, want)
		}
	}
	if m.SharedFFN = 64; NewModelCost(s, &m).ffnBeyond(50) == "" {
		t.Error("a shared network has as many rows as were measured")
	}
}
