package llm

import (
	"fmt"
	"slices"
	"strings"
)

// windows reads which layers have a window. One as long as the positions is none: Phi-3's of 128 Ki tokens.
func (r *reader) windows(m *Model, fullEvery int) {
	const window = "sliding_window"
	qwen := strings.HasPrefix(r.kind, "qwen")
	if r.keys[window] == nil || !r.flag("use_sliding_window", !qwen) {
		return
	}
	w := Windows{Window: r.wholeOr(window, 0), FullEvery: fullEvery}
	types, listed := r.keys["layer_types"].([]any)
	for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern"} {
		if letters, _ := r.keys[key].(string); len(letters) > 1 && strings.Trim(letters[:len(letters)-1], "L") == "" && strings.HasSuffix(letters, "G") {
			w.FullEvery = len(letters) // LLLG, of local and global layers
		} else if !listed {
			w.FullEvery = r.wholeOr(key, w.FullEvery)
		}
	}
	if first, given := r.keys["max_window_layers"].(float64); qwen && !listed && given && int(first) >= m.Layers {
		return
	} else if qwen && !listed && given && first > 0 {
		r.fail("max_window_layers", fmt.Sprintf("0, or num_hidden_layers = %d: windows from a layer on are not modelled", m.Layers))
	}
	if listed {
		w.FullEvery = r.period(types, m.Layers)
	}
	if w.FullEvery == 1 || w.Window >= r.wholeOr("max_position_embeddings", w.Window+1) {
		return
	}
	m.Windows = w
}

// period returns the layers of a group whose last one has no window: 0 where every layer has one, 1 where none has.
func (r *reader) period(types []any, layers int) int {
	const key, full = "layer_types", "full_attention"
	for _, t := range types {
		if t != full && t != "sliding_attention" {
			r.fail(key, fmt.Sprintf("%q or \"sliding_attention\" for each layer, not %s", full, written(t)))
		}
	}
	if len(types) != layers {
		r.fail(key, fmt.Sprintf("num_hidden_layers = %d entries, not %d", layers, len(types)))
	}
	every := slices.Index(types, any(full)) + 1
	for i, t := range types {
		if every > 0 && (t == full) != ((i+1)%every == 0) {
			r.fail(key, fmt.Sprintf("%q for each n-th layer alone: layer %d breaks the order of the first %d", full, i, every))
		}
	}
	return every
}
