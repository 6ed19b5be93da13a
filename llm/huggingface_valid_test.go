package llm

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/schema"
)

// TestKeysOf: for each key of [model], the keys of config.json that may give it, in families with different names.
func TestKeysOf(t *testing.T) {
	r := &reader{family: &family{layers: "L", hidden: "H", heads: "A", ffn: "F", kvHeads: "K", headDim: "D", positions: "P", experts: "E", active: "T", dense: "W", vocab: "V"}}
	want := map[string]string{
		"hidden": "H", "heads": "A", "kv_heads": "num_global_key_value_heads K A", "head_dim": "global_head_dim D qk_rope_head_dim A",
		"window_kv_heads": "swa_num_key_value_heads K A", "window_head_dim": "swa_head_dim D A", "ffn_hidden": "F H", "experts": "E L", "active_experts": "T L",
		"dense_ffn_hidden":  "W",
		"shared_ffn_hidden": "shared_expert_intermediate_size moe_shared_expert_intermediate_size shared_intermediate_size share_expert_dim n_shared_experts num_shared_experts num_shared_expert moe_num_shared_experts F",
		"vocab":             "V", "max_positions": "P L", "context": "max_position_embeddings n_positions n_ctx seq_length max_sequence_length max_seq_length max_seq_len seq_len",
		"window": "sliding_window attention_chunk_size", "layer_pattern": "layer_types hybrid_layer_pattern sliding_window_pattern global_attn_every_n_layers sliding_window L",
		"latent_dim": "kv_lora_rank", "query_rank": "q_lora_rank", "nope_dim": "qk_nope_head_dim", "value_dim": "v_head_dim",
		"index_top_k": "index_topk", "index_heads": "index_n_heads", "index_dim": "index_head_dim",
	}
	var keys []string
	for _, k := range schema.Of[Model]().Keys {
		keys = append(keys, k.Name)
		expected := "L" // no single key of the file gives it
		if w := want[k.Name]; w != "" {
			expected = w
		}
		if got := r.keysOf(k.Name); !reflect.DeepEqual(got, strings.Fields(expected)) {
			t.Errorf("%s: %v, want %s", k.Name, got, expected)
		}
	}
	for key := range want {
		if !slices.Contains(keys, key) {
			t.Errorf("no key %s of [model]", key)
		}
	}
	r.family = &family{layers: "L"}
	for key, expected := range map[string]string{"dense_ffn_hidden": "intermediate_size", "vocab": "vocab_size"} {
		if got := r.keysOf(key); !slices.Equal(got, []string{expected}) {
			t.Errorf("%s of a family without a key: %v", key, got)
		}
	}
}
