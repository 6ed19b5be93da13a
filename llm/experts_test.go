package llm

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// mixtral returns the shape of Mixtral-8x7B
// (https://huggingface.co/mistralai/Mixtral-8x7B-v0.1).
func mixtral() *Model {
	return &Model{Name: "mixtral", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFNHidden: 14336, GatedFFN: true,
		Experts: 8, ActiveExperts: 2, Vocab: 32000, ElementBits: 16, TensorParallel: 2}
}

// TestMixtral: 46.7 billion parameters, of which a token uses 12.9 (Jiang et al. 2024, https://arxiv.org/abs/2401.04088, section 2.1 and
// table 1).
func TestMixtral(t *testing.T) {
	m := mixtral()
	norms := int64(65 * 4096)
	if got := m.parameterCount() + norms; got != 46_702_792_704 {
		t.Errorf("%d parameters, the checkpoint has 46702792704", got)
	}
	active := float64(m.Layers)*float64(m.ActiveLayerWeightBytes())/2 + float64(m.embeddingParameters())
	if math.Abs(active/1e9-12.9) > 0.05 {
		t.Errorf("a token needs %.2f billion parameters, want 12.9", active/1e9)
	}
	if got := m.LayerWeightBytes() - m.ActiveLayerWeightBytes(); got != 6*3*4096*14336*2 {
		t.Errorf("the six experts that a token does not take have %d bytes", got)
	}
	if got := m.RouterParameters(); got != 8*4096 {
		t.Errorf("a router of %d parameters, want 32768", got)
	}
	// The residual stream and its copy on two GPUs; gate, up and outputs of two experts on both GPUs.
	if got, want := m.ActivationBytes(10), units.Bytes(10*2*(2*2*4096+2*2*14336+2*2*4096)); got != want {
		t.Errorf("activations of %d bytes, want %d", got, want)
	}
}

// TestDenseNeedsAll: a token of a dense model reads all weights, and so does one that is routed to all experts.
func TestDenseNeedsAll(t *testing.T) {
	all := mixtral()
	all.ActiveExperts = 8
	for _, m := range []*Model{gpt(2, 8, 1024, 1), all} {
		if got, want := m.ActiveLayerWeightBytes(), m.LayerWeightBytes(); got != want {
			t.Errorf("%d experts: a token needs %d of %d bytes", m.Experts, got, want)
		}
	}
	if got := gpt(2, 8, 1024, 1).ExpertShares(); got != nil {
		t.Errorf("experts of a dense model: %v", got)
	}
}

// TestExpertShares: the shares of tokens add up to the experts that a token takes. Each share is at most 1 and falls with the rank by the
// skew, except for experts that every token takes.
func TestExpertShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixtral()
		m.Experts = rapid.IntRange(1, 300).Draw(t, "experts")
		m.ActiveExperts = rapid.IntRange(1, m.Experts).Draw(t, "active")
		m.ExpertSkew = rapid.SampledFrom([]float64{0, 0.25, 1, 2, 4}).Draw(t, "skew")
		experts, sum, before := 0, 0.0, 1.0
		for _, s := range m.ExpertShares() {
			if s.Share <= 0 || s.Share > before {
				t.Fatalf("a share of %v behind one of %v", s.Share, before)
			}
			rank := float64(experts + 1)
			if want := math.Pow(rank/(rank-1), -m.ExpertSkew); before < 1 && math.Abs(s.Share/before/want-1) > 1e-6 {
				t.Fatalf("rank %v: %v of the one before, want %v", rank, s.Share/before, want)
			}
			before = s.Share
			experts += s.Experts
			sum += float64(s.Experts) * s.Share
		}
		if experts != m.Experts || math.Abs(sum-float64(m.ActiveExperts)) > 1e-9*sum {
			t.Fatalf("%d experts with shares of %v, want %d, %d", experts, sum, m.Experts, m.ActiveExperts)
		}
	})
}
