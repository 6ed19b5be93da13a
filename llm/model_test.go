package llm

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// gpt returns a model of the L3 paper's Table 3: multi-head attention, head
// dimension 128, feed-forward width 4 D_e.
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
		if got := float64(c.m.Parameters()) / 1e9; math.Abs(got-c.billions) > 0.01*c.billions {
			t.Errorf("%s: %.1f billion parameters, want %.0f within 1%%", c.name, got, c.billions)
		}
		if got := c.m.KVBytesPerToken(); got != c.kvBytes {
			t.Errorf("%s: %d KV bytes a token, want %d", c.name, got, c.kvBytes)
		}
		if errs := c.m.Validate(); len(errs) > 0 {
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
	if got := float64(m.Parameters()) / 1e9; math.Abs(got-70.6) > 0.3 {
		t.Errorf("Llama-3-70B: %.2f billion parameters, want 70.6", got)
	}
	if m.QueryGroup() != 8 || m.QKVWidth() != 10240 {
		t.Errorf("group %d, QKV width %d, want 8, 10240", m.QueryGroup(), m.QKVWidth())
	}
}

func TestValidate(t *testing.T) {
	for key, change := range map[string]func(*Model){
		"layers":          func(m *Model) { m.Layers = 0 },
		"head_dim":        func(m *Model) { m.HeadDim = 1024 },
		"kv_heads":        func(m *Model) { m.KVHeads = 7 },
		"tensor_parallel": func(m *Model) { m.TensorParallel = 5 },
		"element_bits":    func(m *Model) { m.ElementBits = 12 },
	} {
		m := gpt(64, 72, 9216, 2)
		change(m)
		errs := m.Validate()
		if len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: got %v", key, errs)
		}
	}
}
