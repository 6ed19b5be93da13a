package llm

import (
	"math"
	"slices"
)

// contextKeys say how many positions a model has; the smallest counts where a file has several, but ownContext before all: Cohere's files
// have fewer positions than the model takes.
var contextKeys = []string{"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_sequence_length", "max_seq_length", "max_seq_len", "seq_len"}

const ownContext = "model_max_length"

// context returns the tokens of a request that a model takes, as vLLM derives it (_get_and_verify_max_len): its positions; times
// the factor of a scaling of rotary positions, for YaRN of the positions before it. Scalings of the types llama3, longrope and
// su, and Gemma 3's, are in the positions already. 0: the file does not say.
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
	if scaling == nil { // its name in Transformers 5
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
