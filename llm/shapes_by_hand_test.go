package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestStoredByHand: the vectors that a layer of each kind stores of a token.
func TestStoredByHand(t *testing.T) {
	m := grouped(1)
	want := []Vector{{"key", 4, 8, 16, 0}, {"value", 4, 8, 16, 0}}
	if got := m.Stored(Global); !slices.Equal(got, want) || got[0].Bytes() != 64 {
		t.Errorf("got %+v", got)
	}
	v3 := publishedModel(t, "deepseek-ai/DeepSeek-V3.2")
	if got := v3.Stored(Indexed); len(got) != 2 || got[0] != (Vector{"latent", 1, 576, 16, 0}) || got[1].Name != "index" || got[1].Bytes() != 132 || v3.IndexBytes() != 132 {
		t.Errorf("got %+v, index %d", got, v3.IndexBytes())
	}
	if got := v3.Stored(Global); len(got) != 1 || got[0].Name != "latent" {
		t.Errorf("without an indexer: %+v", got)
	}
	// PIM units also store values beside latents: 512 elements of 16 bits, or for fp8_ds_mla of one byte with four scales of 4 bytes.
	if m.ValueCopyBytes() != 0 || v3.ValueCopyBytes() != 1024 {
		t.Errorf("copies of values: %d, %d", m.ValueCopyBytes(), v3.ValueCopyBytes())
	}
	v3.KVFormat = FP8Latent
	if got := v3.ValueCopyBytes(); got != 512+16 {
		t.Errorf("a copy of an FP8 latent has %d bytes, want 528", got)
	}
	if got := strings.Join(KVFormats(), ","); got != "fp16,bf16,fp8,int8,int4" {
		t.Errorf("formats %s", got)
	}
}

// TestDataParallelByHand: with data-parallel attention each GPU has all heads; with expert parallelism each expert is whole on one GPU.
func TestDataParallelByHand(t *testing.T) {
	m := grouped(4)
	if query, kv := m.ShardHeads(); query != 7 || kv != 1 || m.expertShards() != 4 || m.SkewedBytes(280) != 280 || m.KVReplicas() != 1 {
		t.Errorf("by heads: %d query and %d KV heads, experts over %d", query, kv, m.expertShards())
	}
	eight := grouped(8) // 4 query heads on the busiest GPU: 32 instead of 28
	if eight.SkewedBytes(280) != 320 || eight.KVReplicas() != 2 {
		t.Errorf("eight GPUs: %d bytes, %d replicas", eight.SkewedBytes(280), eight.KVReplicas())
	}
	m.AttentionParallel = DataAttention
	if query, kv := m.ShardHeads(); query != 28 || kv != 4 || m.SkewedBytes(280) != 280 || m.KVReplicas() != 1 {
		t.Errorf("by requests: %d query and %d KV heads, %d bytes, %d replicas", query, kv, m.SkewedBytes(280), m.KVReplicas())
	}
	// For one token: the stream and its copy on four GPUs, and q, k, v and the output of 8 elements: 28·8 + 4·8 + 4·8 + 28·8. The network
	// has 2·96 on all GPUs; its intermediate and output are smaller than attention's.
	if got, want := int64(m.ActivationBytes(3)), int64(3*2*(2*64*4+max(512, 2*96+64*4))); got != want {
		t.Errorf("activations %d, want %d", got, want)
	}
	whole := m
	whole.ExpertParallel = true
	if !whole.WholeNetworks() || m.WholeNetworks() || whole.expertShards() != 1 {
		t.Errorf("experts over %d GPUs", whole.expertShards())
	}
	if stream := int64(m.ActivationBytes(1) - whole.ActivationBytes(1)); stream != 2*2*64*3 {
		t.Errorf("a token on one GPU of four saves %d bytes, want %d", stream, 2*2*64*3)
	}
}

// TestChannelScales: with scales by channel, a group of tokens shares the scales of keys.
func TestChannelScales(t *testing.T) {
	m := grouped(1)
	if m.KeyGroup() != 0 || m.KVScaleBytes() != 0 {
		t.Errorf("16 bits: group %d, %d bytes", m.KeyGroup(), m.KVScaleBytes())
	}
	m.KVBits = 4
	if m.KeyGroup() != 0 || m.KVScaleBytes() != 4 {
		t.Errorf("4 bits: group %d, %d bytes", m.KeyGroup(), m.KVScaleBytes())
	}
	m.KVScales = ChannelScales
	if m.KeyGroup() != KeyGroup || KeyGroup == 0 {
		t.Errorf("by channel: group %d", m.KeyGroup())
	}
	m.KVScales = TensorScales
	if m.KeyGroup() != 0 || m.KVScaleBytes() != 0 {
		t.Errorf("by tensor: group %d, %d bytes", m.KeyGroup(), m.KVScaleBytes())
	}
}

// TestWindowNotes: the notes about layers with a window or chunks.
func TestWindowNotes(t *testing.T) {
	m := grouped(1)
	m.Layers, m.Window, m.LayerPattern = 6, 512, "LLG"
	if got := m.windowNote(); got != "4 of 6 layers are read with a window of 512 tokens" {
		t.Errorf("got %s", got)
	}
	m.LayerPattern = "CCG"
	if got := m.windowNote(); got != "4 of 6 layers are read with chunks of 512 tokens" {
		t.Errorf("got %s", got)
	}
}

// TestRefusedKeys: an impossible value is refused by the file's own key, whatever key of [model] it sets.
func TestRefusedKeys(t *testing.T) {
	base := map[string]any{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96,
		"vocab_size": 10, "max_position_embeddings": 512, "head_dim": 16, "torch_dtype": "bfloat16"}
	for _, c := range []struct {
		key   string
		value any
	}{
		{"hidden_size", 1 << 30}, {"num_attention_heads", 1 << 30}, {"intermediate_size", 1 << 40}, {"vocab_size", 1 << 40}, {"max_position_embeddings", -4},
		{"num_key_value_heads", 3}, {"head_dim", 1 << 20}, {"num_hidden_layers", 1 << 30},
	} {
		keys := map[string]any{}
		for k, v := range base {
			keys[k] = v
		}
		keys[c.key] = c.value
		text, err := json.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromHuggingFace(text); err == nil || !strings.HasPrefix(err.Error(), c.key+" = ") || !strings.Contains(err.Error(), fmt.Sprint(c.value)) {
			t.Errorf("%s = %v: %v", c.key, c.value, err)
		}
	}
}
