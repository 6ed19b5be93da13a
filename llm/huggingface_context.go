package llm

import (
	"math"
	"slices"
)

// contextKeys give the number of a model's positions. If a file has several, the smallest counts, but ownContext goes first: Cohere's files
// understate the model's positions.
var contextKeys = []string{"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_sequence_length", "max_seq_length", "max_seq_len", "seq_len"}

const ownContext = "model_max_length"

// context returns the longest request of a model in tokens, as vLLM derives it (_get_and_verify_max_len). It is the number of positions,
// times the factor of rotary scaling; for YaRN, of the positions before scaling. The types llama3, longrope and su, and Gemma 3, include
// scaling in their positions. 0: the file does not say.
func (r *reader) context() int {
	n := 0
	for _, key := range contextKeys {
		if v := r.wholeOr(key, 0); v > 0 && (n == 0 || v < n) {
			n = v
		}
	}
	if v := r.wholeOr(ownContext, 0); v > 0 {
		n = v
	}
	scaling, _ := r.keys["rope_scaling"].(map[string]any)
	if scaling == nil { // the name in Transformers 5
		scaling, _ = r.keys["rope_parameters"].(map[string]any)
	}
	kind, _ := scaling["rope_type"].(string)
	if kind == "" {
		kind, _ = scaling["type"].(string)
	}
	factor, scaled := scaling["factor"].(float64)
	if !scaled || slices.Contains([]string{"", "default", "llama3", "longrope", "su"}, kind) || slices.Contains([]string{"gemma3", "gemma3_text"}, r.kind) {
		return n
	}
	if original, given := scaling["original_max_position_embeddings"].(float64); kind == "yarn" && given {
		n = int(original)
	}
	if tokens := math.Round(float64(n) * factor); tokens >= 0 && tokens <= 1<<30 {
		return int(tokens)
	}
	return n
}
