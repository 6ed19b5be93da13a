package llm

import (
	"fmt"
	"strings"
)

// windows reads which layers have a window. One as long as the positions is none: Phi-3's of 128 Ki tokens.
func (r *reader) windows(m *Model, fullEvery int) {
	const window = "sliding_window"
	if r.keys[window] == nil || !r.flag("use_sliding_window", !strings.HasPrefix(r.kind, "qwen")) {
		return
	}
	w := Windows{Window: r.wholeOr(window, 0), FullEvery: fullEvery}
	if order := r.order(m.Layers); order != "" {
		w.setOrder(order)
	} else {
		for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern"} {
			w.FullEvery = r.wholeOr(key, w.FullEvery)
		}
	}
	if w.FullEvery == 1 || w.Window >= r.wholeOr("max_position_embeddings", w.Window+1) {
		return
	}
	m.Windows = w
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
