package llm

import "testing"

// TestContext: the longest context of a model is the one that vLLM derives.
func TestContext(t *testing.T) {
	const shape = `"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 10, "intermediate_size": 100, "head_dim": 16`
	for text, want := range map[string]int{
		`"model_type": "llama"`:                                                        0,
		`"model_type": "llama", "max_position_embeddings": 8192`:                       8192,
		`"model_type": "llama", "max_position_embeddings": 8192, "rope_scaling": null`: 8192,
		`"model_type": "llama", "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}`:  131072,
		`"model_type": "llama", "max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}`:                                                   16384,
		`"model_type": "llama", "max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 2.5}`:                                                  10240,
		`"model_type": "llama", "max_position_embeddings": 4096, "rope_scaling": {"type": "other", "factor": null}`:                                                   4096,
		`"model_type": "qwen2", "max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}`:         131072,
		`"model_type": "qwen3", "max_position_embeddings": 40960, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}`:    131072,
		`"model_type": "qwen3", "max_position_embeddings": 40960, "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}`: 131072,
		`"model_type": "qwen3", "max_position_embeddings": 40960, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000}`:                                 40960,
		`"model_type": "phi3", "max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", "short_factor": [1.0]}`:                                        131072,
		`"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "linear", "factor": 8.0}`:                                      131072,
		`"model_type": "gemma3_text"`:                                                                      131072,
		`"model_type": "opt", "ffn_dim": 256, "max_position_embeddings": 2048`:                             2048,
		`"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 1024, "n_ctx": 512`: 512,
		`"model_type": "gptj", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 2048`:               2048,
		`"model_type": "qwen", "max_position_embeddings": 32768, "seq_length": 8192`:                       8192,
		`"model_type": "qwen", "max_position_embeddings": 8192, "seq_length": 32768`:                       8192,
		`"model_type": "cohere", "max_position_embeddings": 8192, "model_max_length": 131072`:              131072,
		`"model_type": "unheard-of", "max_position_embeddings": 8192, "max_seq_len": 2048`:                 2048,
		`"model_type": "unheard-of", "max_sequence_length": 4096`:                                          4096,
	} {
		if m, err := FromHuggingFace([]byte(`{` + shape + `, ` + text + `}`)); err != nil || m.Context != want {
			t.Errorf("%s: %+v, %v; want a context of %d", text, m, err, want)
		}
	}
}
