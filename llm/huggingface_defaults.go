package llm

import (
	"fmt"
	"slices"
	"strings"
)

// leftOut are Transformers' defaults for keys that a file leaves out, by the type of the text decoder: its configuration classes
// LlamaConfig, MistralConfig, Qwen2Config, GemmaConfig and Gemma2Config. Multimodal models give only the decoder's keys that differ from
// these (LLaVA 1.5, Pixtral, PaliGemma 2).
var leftOut = map[string]map[string]any{
	"llama":   llamaSizes(32000, 11008, nil, 2048),
	"mistral": llamaSizes(32000, 14336, 8.0, 131072), // also a window of 4,096, which no later model has
	"qwen2":   llamaSizes(151936, 22016, 32.0, 32768),
	"gemma": {"vocab_size": 256000.0, "hidden_size": 3072.0, "intermediate_size": 24576.0, "num_hidden_layers": 28.0, "num_attention_heads": 16.0, "num_key_value_heads": 16.0,
		"head_dim": 256.0, "max_position_embeddings": 8192.0},
	"gemma2": {"vocab_size": 256000.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 26.0, "num_attention_heads": 8.0, "num_key_value_heads": 4.0,
		"head_dim": 256.0, "max_position_embeddings": 8192.0, "sliding_window": 4096.0},
}

// llamaSizes are the defaults of a model with 32 layers of 4,096 elements and 32 heads, such as Llama 7B.
func llamaSizes(vocab, ffn float64, kvHeads any, positions float64) map[string]any {
	all := map[string]any{"vocab_size": vocab, "hidden_size": 4096.0, "intermediate_size": ffn, "num_hidden_layers": 32.0, "num_attention_heads": 32.0, "max_position_embeddings": positions}
	if kvHeads != nil {
		all["num_key_value_heads"] = kvHeads
	}
	return all
}

// fillIn adds the keys that a text decoder's file leaves out, and returns a note about them, "" if there are none. A null value is not left
// out.
func fillIn(keys map[string]any, kind string) (note string) {
	var filled []string
	for key, value := range leftOut[kind] {
		if _, given := keys[key]; !given {
			keys[key] = value
			filled = append(filled, fmt.Sprintf("%s = %s", key, written(value)))
		}
	}
	if len(filled) == 0 {
		return ""
	}
	slices.Sort(filled)
	return fmt.Sprintf("the file leaves out %s: these are the defaults of Transformers for %s", strings.Join(filled, ", "), kind)
}

// otherNames are alternative names of keys, by type.
var otherNames = map[string]map[string]string{
	"bloom": {"n_embed": "hidden_size", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"},
	"gptj":  {"hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"},
}

// rename changes alternative names of keys to those that their family reads.
func rename(keys map[string]any, kind string) {
	for other, name := range otherNames[kind] {
		if keys[name] == nil && keys[other] != nil {
			keys[name] = keys[other]
		}
	}
	if kind != "gpt_neo" {
		return
	}
	// GPT-Neo gives windows under other keys: "attention_types": [[["global", "local"], 16]], or a name for each layer.
	var names []any
	if names, _ = keys["attention_layers"].([]any); len(names) == 0 {
		types, _ := keys["attention_types"].([]any)
		for _, t := range types {
			pair, _ := t.([]any)
			if len(pair) != 2 {
				return
			}
			group, _ := pair[0].([]any)
			times, _ := pair[1].(float64)
			for n := 0.0; n < times && len(names) < mostLayers; n++ {
				names = append(names, group...)
			}
		}
	}
	layers := make([]any, len(names))
	for i, n := range names {
		layers[i] = map[any]any{"global": "full_attention", "local": "sliding_attention"}[n]
	}
	if len(layers) > 0 && keys["layer_types"] == nil {
		keys["layer_types"], keys["sliding_window"] = layers, keys["window_size"]
	}
}
