package llm

import (
	"cmp"
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// Keys of the number of experts, of the number that a token takes, and of an expert's width, in different families.
var (
	expertsKeys = []string{"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"}
	activeKeys  = []string{"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k", "num_selected_experts"}
	widthKeys   = []string{"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size"}
)

// expertsKey returns the key with a model's number of experts, or "" for a dense model, which includes one expert.
func expertsKey(keys map[string]any) string {
	for _, key := range expertsKeys {
		if v := keys[key]; !isNone(v, 1.0) {
			return key
		}
	}
	return ""
}

// otherExperts is the error for a file with experts whose family has no key, or another key, for them; nil for other files.
func (f *family) otherExperts(keys map[string]any) *input.Error {
	key := expertsKey(keys)
	if key == "" || key == f.experts || f.experts != "" && !isNone(keys[f.experts], 1.0) {
		return nil
	}
	expected := "none: models of this model_type are dense"
	if f.experts != "" {
		expected = "the experts of this model_type in the key " + f.experts
	}
	return &input.Error{Key: key, Value: written(keys[key]), Expected: expected}
}

// Keys of shared experts in different families: their number, each as wide as the others, or their total width.
var (
	sharedKeys      = []string{"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"}
	sharedWidthKeys = []string{"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"}
)

// besideKey says that each layer has a dense network in addition to the experts (Gemma 4).
const besideKey = "enable_moe_block"

// beside reads the other parts of a mixture of experts: shared experts, and layers without experts.
func (r *reader) beside(m *Model) {
	if m.ActiveExperts > m.Experts {
		r.fail(r.family.active, fmt.Sprintf("at most %s = %d", r.family.experts, m.Experts))
	}
	r.groups(m)
	if key := firstOf(r.keys, sharedWidthKeys); !isNone(r.keys[key], nil) {
		m.SharedFFN = r.whole(key)
	} else if key := firstOf(r.keys, sharedKeys); !isNone(r.keys[key], nil) {
		m.SharedFFN = r.whole(key) * m.FFNHidden
	}
	if r.family.shared {
		m.SharedFFN = m.FFNHidden
	}
	if r.flag(besideKey, false) {
		m.SharedFFN += r.whole("intermediate_size")
	}
	for layer := range m.Layers {
		if r.bad == nil && r.denseLayer(layer, m.Layers) {
			m.DenseLayers++
		}
	}
	if r.bad != nil || m.DenseLayers == 0 {
		return
	}
	m.DenseFFN = r.whole(cmp.Or(r.family.dense, "intermediate_size"))
	if m.DenseLayers == m.Layers {
		r.fail(r.family.experts, "a layer with experts: by the other keys all are dense")
	}
}

// groups refuses groups that do not divide the number of experts (DeepSeek V2 and V3: a router chooses groups first). Costs do not depend
// on groups.
func (r *reader) groups(m *Model) {
	const all, chosen = "n_group", "topk_group"
	groups := r.count(all, 1)
	if m.Experts%groups != 0 {
		r.fail(all, fmt.Sprintf("a divisor of %s = %d", r.family.experts, m.Experts))
	} else if r.count(chosen, 1) > groups {
		r.fail(chosen, fmt.Sprintf("at most %s = %d", all, groups))
	}
}

// denseLayer reports whether a layer has a dense network in place of experts.
func (r *reader) denseLayer(layer, layers int) bool {
	for _, key := range []string{"first_k_dense_replace", "num_dense_layers", "n_dense_layers", "moe_layer_start_index"} {
		if layer < r.count(key, 0) {
			return true
		}
	}
	// Every n-th layer has experts: the last of n in Qwen's models and Llama 4, the first in DeepSeek's. n = 0 is an error, as in
	// Transformers.
	if with, _ := r.keys["moe_layers"].([]any); len(with) > 0 { // Llama 4's, replaces the next key
		return !r.lists("moe_layers", with, layer, layers)
	}
	for _, key := range []string{"decoder_sparse_step", "interleave_moe_layer_step"} {
		if n := r.wholeOr(key, 1); n > 0 && (layer+1)%n != 0 {
			return true
		}
	}
	for _, key := range []string{"mlp_only_layers", "moe_layer_freq", "mlp_layer_types"} {
		switch v := r.keys[key].(type) {
		case []any:
			if key != "mlp_only_layers" && len(v) != layers {
				r.fail(key, fmt.Sprintf("%d entries, one for each layer, not %d", layers, len(v)))
			} else if r.listedDense(key, v, layer, layers) {
				return true
			}
		case float64:
			if n := r.whole(key); n > 0 && layer%n != 0 {
				return true
			}
		case string, bool, map[string]any:
			r.fail(key, "a list")
		}
	}
	return false
}

// listedDense reports whether a list marks a layer as dense: a list of dense layers, or of one word for each layer.
func (r *reader) listedDense(key string, list []any, layer, layers int) bool {
	if key == "mlp_only_layers" {
		return r.lists(key, list, layer, layers)
	}
	switch list[layer] {
	case 0.0, "dense":
		return true
	case 1.0, "sparse":
	default:
		r.fail(key, fmt.Sprintf(`0 or 1, or "dense" or "sparse", for each layer, not %s`, written(list[layer])))
	}
	return false
}

// lists reports whether a list of some of the layers contains a layer.
func (r *reader) lists(key string, list []any, layer, layers int) bool {
	for _, v := range list {
		if n, ok := v.(float64); !ok || n < 0 || n != float64(int(n)) {
			r.fail(key, "whole numbers, from 0 on")
		} else if int(n) >= layers {
			r.fail(key, fmt.Sprintf("layers from 0 to %d, not %d", layers-1, int(n)))
		} else if int(n) == layer {
			return true
		}
	}
	return false
}

// count reads a whole number that may be 0. If it is absent, null or wrong, the default is returned.
func (r *reader) count(key string, otherwise int) int {
	if v := r.keys[key]; v == nil || v == 0.0 {
		return otherwise
	}
	return cmp.Or(r.whole(key), otherwise)
}
