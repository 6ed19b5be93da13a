package llm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

const stateSpaces = "layers of state spaces or convolutions"

// notModelled are features that Model does not describe, by the keys that reveal them. A model has the feature unless the key is null,
// false, 0, "", [] or the value none; for a list, unless all its elements are.
var notModelled = []struct {
	what string
	none any // another number that means the feature is absent
	keys []string
}{
	{"compressed attention", nil, []string{"compress_ratios"}},
	{"a low-rank output projection", nil, []string{"o_lora_rank"}},
	{"a low-rank projection of queries beside keys and values of heads", nil, []string{"share_q_dim"}},
	{"block-sparse attention", nil, []string{"sparse_attention_config", "blocksparse_block_size"}},
	{"layers of linear attention", nil, []string{"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_attn_config", "full_attention_interval", "lightning_attention", "linear_attention"}},
	{"layers of linear attention", 1.0, []string{"layer_group_size"}},
	{stateSpaces, nil, []string{"ssm_state_size", "mamba_num_heads", "mamba_d_state", "mamba_d_ssm", "mamba_n_heads", "ssm_cfg", "hybrid_override_pattern", "layers_block_type",
		"block_types", "mb_per_layer", "attn_layer_period", "conv_L_cache", "full_attn_idxs"}},
	{"layers with experts in an order of their own", 1.0, []string{"moe_every_n_layers", "expert_interval", "moe_layer_interval"}},
	{"experts that compute nothing", nil, []string{"zero_expert_num"}},
	{"a dense network beside the experts", nil, []string{"parallel_attn_mlp_res"}},
	{"heads that differ between layers", nil, []string{"attention_other_setting"}},
	{"keys and values that layers share", nil, []string{"num_kv_shared_layers", "use_cla"}},
	{"layers that differ in their shape", nil, []string{"block_configs", "num_query_heads", "ffn_multipliers", "altup_num_inputs", "hidden_size_per_layer_input"}},
	{"cross-attention", nil, []string{"cross_attention_layers", "add_cross_attention"}},
	{"an encoder", nil, []string{"is_encoder_decoder", "encoder_layers", "num_encoder_layers", "encoder"}},
}

// ofSomeLayers are keys of the query heads and values of some layers, each with the key of the other layers. The two must agree, since
// Model has one number for all layers.
var ofSomeLayers = [][2]string{{"swa_num_attention_heads", "num_attention_heads"}, {"swa_v_head_dim", "v_head_dim"}}

// refusedTypes are types that Model cannot describe and whose keys do not reveal it.
var refusedTypes = map[string]string{
	"deepseek_v4": "compressed attention", "kimi_linear": "layers of linear attention", "jamba": "layers of state spaces", "rwkv": "recurrent layers",
	"mamba": "layers of state spaces", "mamba2": "layers of state spaces", "falcon_mamba": "layers of state spaces", "recurrent_gemma": "recurrent layers", "minimax": "layers of linear attention",
	"minimax_text_01": "layers of linear attention", "qwen3_next": "layers of linear attention", "lfm2": "layers of convolutions", "bailing_moe_linear": "layers of linear attention", "bailing_hybrid": "layers of linear attention",
}

// encoders are parts of the names of types that are not decoders.
var encoders = []string{"bert", "t5", "bart", "clip", "siglip", "vit", "whisper", "electra", "wav2vec", "pegasus", "marian"}

// refused returns the error for a model with a feature that Model does not describe, or nil.
func refused(keys map[string]any, kind string) *input.Error {
	refuse := func(key, what string) *input.Error {
		return &input.Error{Key: key, Value: written(keys[key]), Expected: without(what)}
	}
	if what := refusedTypes[kind]; what != "" {
		return &input.Error{Key: "model_type", Value: fmt.Sprintf("%q", kind), Expected: without(what)}
	}
	for _, k := range ofSomeLayers {
		if v, others := keys[k[0]], keys[k[1]]; !isNone(v, nil) && !reflect.DeepEqual(v, others) {
			expected := "none"
			if others != nil {
				expected = k[1] + " = " + written(others)
			}
			return &input.Error{Key: k[0], Value: written(v), Expected: expected + ": heads that differ between layers are not modelled"}
		}
	}
	attention := allAttention(keys)
	for _, f := range notModelled {
		for _, key := range f.keys {
			if v := keys[key]; !isNone(v, f.none) && !(attention && f.what == stateSpaces) {
				return refuse(key, f.what)
			}
		}
	}
	if !attention {
		for _, key := range slices.Sorted(maps.Keys(keys)) { // PLaMo 2's mamba_d_conv, and others'
			if strings.Contains(key, "mamba") && !isNone(keys[key], nil) {
				return refuse(key, stateSpaces)
			}
		}
	}
	if types, _ := keys["attn_type_list"].([]any); slices.Contains(types, any(0.0)) { // MiniMax-Text-01's; 1 is attention
		return refuse("attn_type_list", "layers of linear attention")
	}
	if types, _ := keys["layer_types"].([]any); types != nil {
		for _, t := range types {
			if name, _ := t.(string); strings.Contains(name, "linear") || strings.Contains(name, "conv") || strings.Contains(name, "mamba") || strings.Contains(name, "recurrent") {
				return refuse("layer_types", "layers of "+strings.ReplaceAll(name, "_", " "))
			} else if !strings.Contains(name, "attention") {
				return &input.Error{Key: "layer_types", Value: written(t), Expected: `"full_attention" or "sliding_attention" for each layer`}
			}
		}
	}
	architecture := fmt.Sprint(keys["architectures"])
	if !strings.Contains(architecture, "ForCausalLM") && slices.ContainsFunc(encoders, func(part string) bool { return strings.Contains(kind, part) }) {
		return &input.Error{Key: "model_type", Value: fmt.Sprintf("%q", kind), Expected: "a decoder: encoders are not modelled"}
	}
	return nil
}

// allAttention reports whether a file lists its layers and all have attention, even if it has keys of state spaces (Granite 4.0 Micro).
func allAttention(keys map[string]any) bool {
	types, _ := keys["layer_types"].([]any)
	return len(types) > 0 && !slices.ContainsFunc(types, func(t any) bool {
		return !slices.Contains([]any{"attention", "full_attention", "sliding_attention"}, t)
	})
}

// without describes the file that was expected. A singular feature "is" not modelled, plural ones "are".
func without(what string) string {
	verb := "are"
	if strings.HasPrefix(what, "a ") || strings.HasPrefix(what, "an ") || !strings.HasPrefix(what, "layers") && strings.Contains(what, "attention") {
		verb = "is"
	}
	return "a model without " + what + ", which " + verb + " not modelled"
}

// isNone reports whether a key's value means that the model lacks the feature. none is a further such number, or nil.
func isNone(v, none any) bool {
	switch v := v.(type) {
	case []any:
		return none != nil && !slices.ContainsFunc(v, func(e any) bool { return e != none }) || len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil || v == false || v == 0.0 || v == "" || v == none
}

// textKeys name the text decoder within a multimodal model.
var textKeys = []string{"text_config", "llm_config", "language_config", "language_model_config", "thinker_config"}

// decoderOf returns the keys and the type of the text decoder. For a multimodal model, keys of the whole model fill in those that the
// decoder lacks.
func decoderOf(keys map[string]any) (text map[string]any, kind string, notes []string) {
	kind, _ = keys["model_type"].(string)
	for _, name := range textKeys {
		within, ok := keys[name].(map[string]any)
		if !ok || keys["is_encoder_decoder"] == true {
			continue
		}
		text = maps.Clone(within)
		for _, key := range []string{quantized, "_name_or_path", "tie_word_embeddings", "vocab_size", "max_position_embeddings"} {
			if text[key] == nil && keys[key] != nil {
				text[key] = keys[key]
			}
		}
		if text["model_type"] == nil {
			text["model_type"] = kind
		}
		decoder, inner, notes := decoderOf(text)
		if len(notes) == 0 {
			notes = append(notes, fmt.Sprintf("of %s the decoder of text alone is read (%s)", nameOf(kind), name))
			if note := fillIn(decoder, inner); note != "" {
				notes = append(notes, note)
			}
		}
		return decoder, inner, notes
	}
	if kind == "gpt_j" || kind == "gpt-j" { // another spelling in some files
		kind = "gptj"
	}
	return keys, kind, nil
}

// likeLlama reports whether keys are Llama's.
func likeLlama(keys map[string]any) bool {
	for _, key := range []string{"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"} {
		if keys[key] == nil {
			return false
		}
	}
	return keys["intermediate_size"] != nil || slices.ContainsFunc(widthKeys, func(key string) bool { return keys[key] != nil })
}

// Types with Llama's keys that differ from it: feed-forward networks with two matrices, and models that share one matrix for embedding and
// LM head by default.
var (
	ungated = []string{"starcoder2", "phi", "persimmon", "nemotron", "arcee", "apertus", "biogpt"}
	tied    = []string{"gemma", "cohere", "cohere2", "starcoder2", "smollm3", "minicpm", "minicpm3"}
)

// llamaLike are further types that are read with Llama's keys. For each, the result has the checkpoint's number of parameters.
var llamaLike = strings.Fields(`apertus arcee baichuan bailing_moe bailing_moe_v2 cohere cohere2 deepseek dots1 ernie4_5 ernie4_5_moe exaone4 exaone_moe gemma gemma4_text
	glm glm4 glm4v_moe_text granite granitemoe granitemoehybrid granitemoeshared hunyuan hunyuan_v1_dense hunyuan_v1_moe internlm2 internlm3 mimo mimo_v2_flash minicpm
	minicpm3 ministral ministral3 nemotron olmo olmo2 olmo3 olmoe phi phi4mm phimoe qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text
	qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text seed_oss smollm3 solar_open stablelm starcoder2 step3p7`)

// known reports whether a type is read with certainty.
func known(kind string) bool { return slices.Contains(llamaLike, kind) }

// asLlama returns a family for an unknown type, from the keys of its file, and a note about it.
func asLlama(keys map[string]any, kind string) (family, string) {
	f := family{layers: "num_hidden_layers", hidden: "hidden_size", heads: "num_attention_heads", ffn: "intermediate_size",
		gated: !slices.Contains(ungated, kind), tied: slices.Contains(tied, kind), windows: true}
	activation, _ := keys["hidden_act"].(string)
	if slices.Contains([]string{"relu2", "xielu"}, activation) && kind != "bitnet" {
		f.gated = false
	}
	f.experts = expertsKey(keys)
	as := "a dense model"
	if f.experts != "" {
		as = "a mixture of experts"
		f.active = firstOf(keys, activeKeys)
		if width := firstOf(keys, widthKeys); keys[width] != nil {
			f.ffn = width
		}
	}
	f.kvHeads = firstOf(keys, []string{"num_key_value_heads", "num_kv_heads", "num_attention_groups"})
	f.headDim = firstOf(keys, []string{"head_dim", "attention_head_dim"})
	if width := "shared_intermediate_size"; kind == "granitemoehybrid" && f.experts == "" && keys[width] != nil {
		f.ffn = width // without experts, a layer has only a network of this width
	}
	matrices := "three"
	if !f.gated {
		matrices = "two"
	}
	return f, fmt.Sprintf("%s is not known and read as llama, by its keys: %s with %s matrices in a feed-forward network", nameOf(kind), as, matrices)
}

// nameOf returns the model_type for messages, or words for a missing one.
func nameOf(kind string) string {
	if kind == "" {
		return "a file without model_type"
	}
	return fmt.Sprintf("model_type %q", kind)
}

// firstOf returns the first of the names that the file has, or else the first name.
func firstOf(keys map[string]any, names []string) string {
	for _, name := range names {
		if keys[name] != nil {
			return name
		}
	}
	return names[0]
}
