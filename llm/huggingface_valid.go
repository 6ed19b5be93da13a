package llm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// valid refuses a model that breaks a rule of [model], and names the file's key.
func (r *reader) valid(m *Model) {
	if r.bad != nil {
		return
	}
	alone := *m
	alone.TensorParallel = 1
	faults := input.Faults(&alone)
	if len(faults) == 0 {
		return
	}
	bad := faults[0]
	names := r.keysOf(bad.Key)
	key := names[max(0, slices.IndexFunc(names, func(name string) bool { return r.keys[name] != nil }))]
	expected := bad.Expected
	if written(r.keys[key]) != bad.Value {
		expected = fmt.Sprintf("another: this makes %s = %s, which should be %s", bad.Key, bad.Value, expected)
	}
	r.fail(key, expected)
}

// keysOf returns the file's keys from which a key of [model] may come, the most likely first.
func (r *reader) keysOf(key string) []string {
	f := r.family
	switch key {
	case "hidden":
		return []string{f.hidden}
	case "heads":
		return []string{f.heads}
	case "kv_heads":
		return []string{"num_global_key_value_heads", f.kvHeads, f.heads}
	case "head_dim":
		return []string{"global_head_dim", f.headDim, "qk_rope_head_dim", f.heads}
	case "window_kv_heads":
		return []string{"swa_num_key_value_heads", f.kvHeads, f.heads}
	case "window_head_dim":
		return []string{"swa_head_dim", f.headDim, f.heads}
	case "ffn_hidden":
		return []string{f.ffn, f.hidden}
	case "experts":
		return []string{f.experts, f.layers}
	case "active_experts":
		return []string{f.active, f.layers}
	case "dense_ffn_hidden":
		return []string{cmp.Or(f.dense, "intermediate_size")}
	case "shared_ffn_hidden":
		return slices.Concat(sharedWidthKeys, sharedKeys, []string{f.ffn})
	case "vocab":
		return []string{cmp.Or(f.vocab, "vocab_size")}
	case "max_positions":
		return []string{f.positions, f.layers}
	case "context":
		return contextKeys
	case "window":
		return []string{windowKey, chunkKey}
	case "layer_pattern":
		return []string{"layer_types", "hybrid_layer_pattern", "sliding_window_pattern", "global_attn_every_n_layers", windowKey, f.layers}
	}
	if name := map[string]string{"latent_dim": rankKey, "query_rank": "q_lora_rank", "nope_dim": "qk_nope_head_dim", "value_dim": "v_head_dim",
		"index_top_k": topKKey, "index_heads": "index_n_heads", "index_dim": "index_head_dim"}[key]; name != "" {
		return []string{name}
	}
	return []string{f.layers}
}
