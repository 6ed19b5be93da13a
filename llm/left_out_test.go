package llm

import (
	"strings"
	"testing"
)

// TestAllLeftOut: a file that leaves out all keys with defaults gets those of Transformers' configuration classes.
func TestAllLeftOut(t *testing.T) {
	for kind, want := range map[string]string{
		"llama":   "hidden_size = 4096, intermediate_size = 11008, max_position_embeddings = 2048, num_attention_heads = 32, num_hidden_layers = 32, vocab_size = 32000",
		"mistral": "hidden_size = 4096, intermediate_size = 14336, max_position_embeddings = 131072, num_attention_heads = 32, num_hidden_layers = 32, num_key_value_heads = 8, vocab_size = 32000",
		"qwen2":   "hidden_size = 4096, intermediate_size = 22016, max_position_embeddings = 32768, num_attention_heads = 32, num_hidden_layers = 32, num_key_value_heads = 32, vocab_size = 151936",
		"gemma":   "head_dim = 256, hidden_size = 3072, intermediate_size = 24576, max_position_embeddings = 8192, num_attention_heads = 16, num_hidden_layers = 28, num_key_value_heads = 16, vocab_size = 256000",
		"gemma2":  "head_dim = 256, hidden_size = 2304, intermediate_size = 9216, max_position_embeddings = 8192, num_attention_heads = 8, num_hidden_layers = 26, num_key_value_heads = 4, sliding_window = 4096, vocab_size = 256000",
	} {
		if got := fillIn(map[string]any{}, kind); got != "the file leaves out "+want+": these are the defaults of Transformers for "+kind {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// TestHeadsOfFiles: KV heads and their width in files that describe them more than once.
func TestHeadsOfFiles(t *testing.T) {
	const falcon = `{"model_type": "falcon", "hidden_size": 4096, "num_attention_heads": 64, "num_hidden_layers": 4, "vocab_size": 65024, "num_kv_heads": 8`
	const mistral = `{"model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 4, "vocab_size": 32000, "intermediate_size": 14336, "num_key_value_heads": 8, "head_dim": 128`
	for _, c := range []struct {
		text                      string
		kv, dim, windowKV, window int
	}{
		{falcon + `}`, 1, 64, 0, 0}, {falcon + `, "multi_query": true}`, 1, 64, 0, 0}, {falcon + `, "multi_query": false}`, 64, 64, 0, 0},
		{falcon + `, "new_decoder_architecture": true}`, 8, 64, 0, 0}, {falcon + `, "new_decoder_architecture": true, "multi_query": false}`, 8, 64, 0, 0},
		{mistral + `}`, 8, 128, 0, 0},
		{mistral + `, "sliding_window": 1024, "swa_num_key_value_heads": 4, "swa_head_dim": 64}`, 4, 64, 0, 0}, // all layers
	} {
		m, err := FromHuggingFace([]byte(c.text))
		if err != nil || m.KVHeads != c.kv || m.HeadDim != c.dim || m.WindowKVHeads != c.windowKV || m.WindowHeadDim != c.window {
			t.Errorf("%s: %+v, %v", c.text, m, err)
		}
	}
	if _, err := FromHuggingFace([]byte(strings.Replace(mistral, `"num_key_value_heads": 8`, `"num_key_value_heads": [8, 8, 4, 8]`, 1) + `}`)); err == nil || !strings.Contains(err.Error(), "the same for all layers, not 8 and 4: layers that differ in it are not modelled") {
		t.Errorf("layers that differ: %v", err)
	}
}
