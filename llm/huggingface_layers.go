package llm

import (
	"fmt"
	"slices"
	"strings"
)

// windows reads which layers have a window. One as long as the positions is none: Phi-3's of 128 Ki tokens.
func (r *reader) windows(m *Model, fullEvery int) {
	const window = "sliding_window"
	if r.keys[window] == nil || !r.flag("use_sliding_window", !strings.HasPrefix(r.kind, "qwen")) {
		return
	}
	w := Windows{Window: r.wholeOr(window, 0), FullEvery: fullEvery}
	order := r.order(m.Layers)
	if w.setOrder(order); order == "" {
		for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern"} {
			w.FullEvery = r.wholeOr(key, w.FullEvery)
		}
	}
	if w.FullEvery == 1 || w.Window >= r.wholeOr("max_position_embeddings", w.Window+1) {
		return
	}
	m.Windows = w
}

// windowNote says how many layers have which window.
func (m *Model) windowNote() string {
	kind := "a window"
	if m.WindowChunked {
		kind = "chunks"
	}
	return fmt.Sprintf("%d of %d layers are read with %s of %d tokens", m.WindowedLayers(), m.Layers, kind, m.Window)
}

const chunkKey = "attention_chunk_size"

// chunked says that layers of a file attend within chunks of the context: Llama 4's, or what a list calls so.
func chunked(keys map[string]any, kind string) bool {
	types, _ := keys["layer_types"].([]any)
	return kind == "llama4" || kind == "llama4_text" || slices.Contains(types, any("chunked_attention"))
}

// chunks reads which layers attend within chunks; where no list says so, all but each fourth one do: Llama 4's with rotary positions.
func (r *reader) chunks(m *Model) {
	const rotary = "no_rope_layers"
	if v, given := r.keys[chunkKey]; given && isNone(v, nil) {
		return
	}
	w := Windows{Window: r.wholeOr(chunkKey, 8192), FullEvery: r.wholeOr("no_rope_layer_interval", 4), WindowChunked: true}
	if types, ok := r.keys["layer_types"].([]any); ok {
		w.setOrder(r.listed("layer_types", types, m.Layers, "full_attention", "chunked_attention"))
	} else if list, _ := r.keys[rotary].([]any); len(list) > 0 {
		w.setOrder(r.listed(rotary, list, m.Layers, 0.0, 1.0))
	}
	if w.FullEvery != 1 && w.Window < r.wholeOr("max_position_embeddings", w.Window+1) {
		m.Windows = w
	}
}

// order returns a letter for each layer, as Windows.WindowPattern has them, or "" where a file does not list them.
func (r *reader) order(layers int) string {
	if types, ok := r.keys["layer_types"].([]any); ok {
		return r.listed("layer_types", types, layers, "full_attention", "sliding_attention")
	}
	if kinds, ok := r.keys["hybrid_layer_pattern"].([]any); ok { // MiMo-V2's
		return r.listed("hybrid_layer_pattern", kinds, layers, 0.0, 1.0)
	}
	for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern"} { // EXAONE 4's: LLLG
		if letters, _ := r.keys[key].(string); letters != "" && strings.Trim(letters, "GL") == "" {
			return strings.Repeat(letters, layers/len(letters)+1)[:layers]
		}
	}
	if first, given := r.keys["max_window_layers"]; given && first != nil && strings.HasPrefix(r.kind, "qwen") { // windows from this layer on
		n := min(r.count("max_window_layers", 0), layers)
		return strings.Repeat("G", n) + strings.Repeat("L", layers-n)
	}
	return ""
}

// listed is order of a list that has the value full or windowed for each layer.
func (r *reader) listed(key string, list []any, layers int, full, windowed any) string {
	for _, v := range list {
		if v != full && v != windowed {
			r.fail(key, fmt.Sprintf("%s or %s for each layer, not %s", written(full), written(windowed), written(v)))
		}
	}
	if len(list) != layers {
		r.fail(key, fmt.Sprintf("%s = %d entries, not %d", r.family.layers, layers, len(list)))
	}
	var order strings.Builder
	for _, v := range list {
		order.WriteByte(map[bool]byte{true: 'G', false: 'L'}[v == full])
	}
	return order.String()
}

// setOrder sets which layers have the window: by groups of which the last one has none, or else by the shortest pattern that gives the
// order.
func (w *Windows) setOrder(order string) {
	if order == "" {
		return
	}
	border := make([]int, len(order)) // of each beginning: how long the longest part is with which it begins and ends (Knuth, Morris and Pratt)
	for i, k := 1, 0; i < len(order); i++ {
		for k > 0 && order[i] != order[k] {
			k = border[k-1]
		}
		if order[i] == order[k] {
			k++
		}
		border[i] = k
	}
	w.FullEvery, w.WindowPattern = strings.Index(order, "G")+1, order[:len(order)-border[len(order)-1]]
	for layer := range len(order) {
		if alike := w.FullEvery > 0 && (layer+1)%w.FullEvery == 0; alike != (order[layer] == 'G') {
			w.FullEvery = 0
			return
		}
	}
	w.WindowPattern = ""
}
