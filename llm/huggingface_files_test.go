package llm

import (
	"strings"
	"testing"
)

// TestOtherFiles: if the user gives another file of a checkpoint in place of config.json, the error says what that file is.
func TestOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"weight_map": {}, "metadata": {}}`:                               "this is the index of a checkpoint's weights, not the config.json of a model; expected one of",
		`{"tokenizer_class": "X", "temperature": 1}`:                       "this is the configuration of a tokeniser, not",
		`{"peft_type": "LORA", "base_model_name_or_path": "meta-llama/x"}`: "this is the configuration of an adapter (LoRA), whose base_model_name_or_path is the model, not",
		`{"dim": 4096, "n_layers": 32, "n_heads": 32}`:                     "this is params.json of Meta's or Mistral's own form, not",
		`{"temperature": 0.6}`:                                             "this is the configuration of generation, not",
		`{"model_type": "odd", "n_layers": 3}`:                             `expected one of bloom`,
		`{}`:                                                               `expected one of bloom`,
	} {
		_, err := FromHuggingFace([]byte(text))
		if err == nil || !strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(err.Error(), `model_type = "": `), `model_type = "odd": `), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestWindowsInAnyFamily: layers that a list marks as windowed have the window even in a family without windows, as vLLM reads Llama's.
func TestWindowsInAnyFamily(t *testing.T) {
	types := `, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]`
	m, err := FromHuggingFace([]byte(shape("llama", 64, 8, 4, 4, 2, 99, types)))
	if err != nil || m.Window != 16 || m.WindowedLayers() != 2 {
		t.Errorf("got %+v, %v", m, err)
	}
	m, err = FromHuggingFace([]byte(shape("llama", 64, 8, 4, 4, 2, 99, `, "sliding_window": 16`))) // which the llama family ignores
	if err != nil || m.Window != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestExpansion: MPT's feed-forward width is expansion_ratio times the hidden size, by default 4 times.
func TestExpansion(t *testing.T) {
	for text, want := range map[string]int{``: 256, `, "expansion_ratio": 2`: 128, `, "expansion_ratio": null`: 256, `, "expansion_ratio": 2, "ffn_config": {"ffn_hidden_size": 96}`: 96} {
		m, err := FromHuggingFace([]byte(`{"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 99` + text + `}`))
		if err != nil || m.FFNHidden != want {
			t.Errorf("%s: %+v, %v, want a width of %d", text, m, err, want)
		}
	}
}

// TestBesideNull: a file of quantisation beside config.json that is null quantises nothing.
func TestBesideNull(t *testing.T) {
	for _, f := range BesideFiles {
		if m, quantised, _, err := FromCheckpoint([]byte(shape("llama", 64, 8, 4, 4, 2, 99, "")), f.Name, []byte("null")); err != nil || m.WeightBits != 0 || quantised != "" {
			t.Errorf("%s: %+v, %q, %v", f.Name, m, quantised, err)
		}
	}
}
