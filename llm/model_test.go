package llm

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// gpt returns a model of the L3 paper's Table 3: multi-head attention, head dimension 128, feed-forward width of four times the hidden
// size.
func gpt(layers, heads, hidden, tp int) *Model {
	return &Model{
		Name: "test", Layers: layers, Hidden: hidden, Heads: heads, KVHeads: heads, HeadDim: 128,
		FFNHidden: 4 * hidden, Vocab: 50272, TiedEmbedding: true, MaxPositions: 2048, ElementBits: 16, TensorParallel: tp,
	}
}

func TestPaperModels(t *testing.T) {
	for _, c := range []struct {
		name     string
		m        *Model
		billions float64
		kvBytes  units.Bytes
	}{
		{"OPT-66B", gpt(64, 72, 9216, 2), 66, 2_359_296},
		{"GPT-89B", gpt(48, 96, 12288, 4), 88, 2_359_296},
		{"GPT-175B", gpt(96, 96, 12288, 8), 175, 4_718_592},
	} {
		if got := float64(c.m.parameterCount()) / 1e9; math.Abs(got-c.billions) > 0.01*c.billions {
			t.Errorf("%s: %.1f billion parameters, want %.0f within 1%%", c.name, got, c.billions)
		}
		if got := c.m.KVBytesPerToken(); got != c.kvBytes {
			t.Errorf("%s: %d KV bytes a token, want %d", c.name, got, c.kvBytes)
		}
		if errs := input.Faults(c.m); len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs[0])
		}
	}
}

// TestPaperAnchor checks a count of the L3 paper (section 1): 2.28 requests of
// GPT-175B at 8k tokens fill the 80 GB of one A100.
func TestPaperAnchor(t *testing.T) {
	got := float64(80*units.GiB) / float64(8000*gpt(96, 96, 12288, 8).KVBytesPerToken())
	if math.Abs(got-2.28) > 0.005 {
		t.Errorf("%.3f requests, want 2.28", got)
	}
}

func TestGroupedQueryShapes(t *testing.T) {
	m := gpt(80, 64, 8192, 4)
	m.KVHeads, m.FFNHidden, m.GatedFFN, m.TiedEmbedding, m.MaxPositions = 8, 28672, true, false, 0
	m.Vocab = 128256
	if got := float64(m.parameterCount()) / 1e9; math.Abs(got-70.6) > 0.3 {
		t.Errorf("Llama-3-70B: %.2f billion parameters, want 70.6", got)
	}
	if m.QueryGroup() != 8 || m.QKVWidth() != 10240 {
		t.Errorf("group %d, QKV width %d, want 8, 10240", m.QueryGroup(), m.QKVWidth())
	}
}

func TestValidate(t *testing.T) {
	for key, change := range map[string]func(*Model){
		"layers":           func(m *Model) { m.Layers = 0 },
		"hidden":           func(m *Model) { m.Hidden = 0 },
		"heads":            func(m *Model) { m.Heads = 0 },
		"ffn_hidden":       func(m *Model) { m.FFNHidden = 0 },
		"vocab":            func(m *Model) { m.Vocab = 0 },
		"head_dim":         func(m *Model) { m.HeadDim = 513 },
		"head_dim ":        func(m *Model) { m.HeadDim = 7 },
		"max_positions":    func(m *Model) { m.MaxPositions = -1 },
		"kv_heads":         func(m *Model) { m.KVHeads = 7 },
		"kv_heads ":        func(m *Model) { m.KVHeads = 0 },
		"tensor_parallel":  func(m *Model) { m.TensorParallel = 5 },
		"tensor_parallel ": func(m *Model) { m.TensorParallel = 0 },
		"element_bits":     func(m *Model) { m.ElementBits = 12 },
		"experts":          func(m *Model) { m.Experts, m.ActiveExperts = 4097, 1 },
		"experts ":         func(m *Model) { m.Experts = -1 },
		"active_experts":   func(m *Model) { m.Experts, m.ActiveExperts = 8, 9 },
		"active_experts ":  func(m *Model) { m.Experts, m.ActiveExperts = 8, 0 },
		"active_experts  ": func(m *Model) { m.ActiveExperts = -1 },
		"expert_skew":      func(m *Model) { m.ExpertSkew = -0.1 },
		"expert_skew ":     func(m *Model) { m.ExpertSkew = math.NaN() },
	} {
		m := gpt(64, 72, 9216, 2)
		change(m)
		errs := input.Faults(m)
		if len(errs) != 1 || errs[0].Key != strings.TrimSpace(key) {
			t.Errorf("%s: got %v", key, errs)
		}
	}
	m := gpt(64, 72, 9216, 2)
	m.KVHeads, m.HeadDim, m.MaxPositions = 8, 512, 1<<30
	if errs := input.Faults(m); len(errs) > 0 {
		t.Errorf("the largest: %v", errs[0])
	}
	m.Layers, m.FFNHidden, m.MaxPositions = 1<<24, 1<<22, 0
	want := "layers = 16777216: expected a model of at most 2^56 parameters: with layers = 16777216, hidden = 9216, heads = 72, head_dim = 512, ffn_hidden = 4194304, vocab = 50272, experts = 0 it has "
	if errs := input.Faults(m); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
		t.Errorf("got  %v\nwant %s", errs, want)
	}
}

// TestParametersWithoutOverflow: the size check of the largest models counts like Parameters and accepts up to 2^56. parameterCount returns
// all parameters.
func (m *Model) parameterCount() int64 {
	return int64(m.Layers)*m.LayerParameters() + m.embeddingParameters()
}

func TestParametersWithoutOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, high int) int { return rapid.IntRange(1, high).Draw(t, name) }
		m := gpt(n("layers", 200), 1, n("hidden", 20000), 1)
		m.KVHeads, m.HeadDim, m.FFNHidden = n("kv", 64), n("dim", 512), n("ffn", 80000)
		m.Vocab, m.MaxPositions, m.TiedEmbedding = n("vocab", 200000), n("positions", 100000), false
		m.Heads = m.KVHeads * n("group", 16)
		m.GatedFFN, m.Experts = rapid.Bool().Draw(t, "gated"), n("experts", 257)-1
		if got, want := m.parameters(), float64(m.parameterCount()); got != want {
			t.Fatalf("%v parameters, want %v", got, want)
		}
	})
	large := gpt(1<<20, 96, 12288, 8)
	if errs := input.Faults(large); len(errs) > 0 {
		t.Errorf("2^20 layers: %v", errs[0])
	}
	for key, change := range map[string]func(*Model){
		"layers":        func(m *Model) { m.Layers, m.FFNHidden = 1<<24, 1<<20 },
		"hidden":        func(m *Model) { m.Hidden, m.Layers = 1<<24, 1<<20 },
		"heads":         func(m *Model) { m.Heads, m.KVHeads, m.Layers = 1<<24, 1<<24, 1<<20 },
		"ffn_hidden":    func(m *Model) { m.FFNHidden, m.Layers = 1<<24, 1<<22 },
		"vocab":         func(m *Model) { m.Vocab, m.Layers, m.Hidden = 1<<24, 1<<23, 1<<23 },
		"max_positions": func(m *Model) { m.MaxPositions = 1<<30 + 1 },
	} {
		m := gpt(96, 96, 12288, 8)
		change(m)
		if errs := input.Faults(m); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: %v", key, errs)
		}
	}
}

// TestActivations: two copies of the residual stream on each of 8 GPUs, and either q, k, v and the output of attention, or the
// intermediates of the feed-forward network, spread over all GPUs.
func TestActivations(t *testing.T) {
	m := gpt(96, 96, 12288, 8)
	m.FFNHidden = 10
	if got, want := m.ActivationBytes(3), units.Bytes(3*2*(2*12288*8+4*12288)); got != want {
		t.Errorf("attention: %d bytes, want %d", got, want)
	}
	m.FFNHidden = 50000
	if got, want := m.ActivationBytes(3), units.Bytes(3*2*(2*12288*8+50000)); got != want {
		t.Errorf("feed-forward: %d bytes, want %d", got, want)
	}
	m.GatedFFN, m.ElementBits = true, 8
	if got, want := m.ActivationBytes(3), units.Bytes(3*(2*12288*8+2*50000)); got != want {
		t.Errorf("gated, 8 bits: %d bytes, want %d", got, want)
	}
	m.Hidden, m.FFNHidden, m.Heads, m.KVHeads, m.ElementBits, m.TensorParallel = 4, 8, 1, 1, 16, 1 // 512 tokens of q, k, v and output: 1040 B
	if got, want := m.ActivationBytes(1<<50), units.Bytes(1040<<50); got != mostActivations || want < mostActivations {
		t.Errorf("%d bytes, at most %d", got, int64(mostActivations))
	}
	if got, want := m.ActivationBytes(1<<49), units.Bytes(1040<<49); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if got := m.ActivationBytes(math.MaxInt64); got != mostActivations {
		t.Errorf("of more tokens than there are: %d bytes", got)
	}
}

// TestBytes: bytes of a token and of a layer, by hand.
func TestBytes(t *testing.T) {
	m := gpt(2, 8, 1024, 1)
	m.KVHeads, m.HeadDim, m.FFNHidden, m.Vocab, m.MaxPositions = 2, 64, 3000, 1000, 50
	layer := int64(1024*(8+4)*64 + 8*64*1024 + 2*1024*3000)
	for _, c := range []struct {
		name      string
		got, want int64
	}{
		{"layer", m.LayerParameters(), layer},
		{"tied embedding", m.embeddingParameters(), 1050 * 1024},
		{"model", m.parameterCount(), 2*layer + 1050*1024},
		{"weights", int64(m.WeightBytes()), 2 * (2*layer + 1050*1024)},
		{"weights of a layer", int64(m.LayerWeightBytes()), 2 * layer},
		{"KV of a layer", int64(m.KVBytesPerTokenLayer()), 2 * 2 * 2 * 64},
		{"KV", int64(m.KVBytesPerToken()), 2 * 2 * 2 * 2 * 64},
		{"q, k and v", int64(m.QKVBytesPerTokenLayer()), 2 * 12 * 64},
		{"attention", int64(m.AttentionBytesPerTokenLayer()), 2 * 8 * 64},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	m.TiedEmbedding = false
	if got, want := m.embeddingParameters(), int64(2050*1024); got != want {
		t.Errorf("embedding and LM head: %d, want %d", got, want)
	}
}
