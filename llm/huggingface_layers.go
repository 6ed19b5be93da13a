package llm

import (
	"fmt"
	"slices"
	"strings"
)

const windowKey = "sliding_window"

// windows reads which layers have a window. A window as long as the positions counts as none (Phi-3 with 128 Ki tokens).
func (r *reader) windows(m *Model, everyLast int) {
	types := r.list("layer_types")
	if window, given := r.keys[windowKey]; window == nil {
		if !given && slices.Contains(types, any("sliding_attention")) {
			r.whole(windowKey)
		}
		return
	} else if !r.flag("use_sliding_window", !strings.HasPrefix(r.kind, "qwen")) {
		return
	}
	order := r.order(m.Layers)
	if order == "" {
		for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"} { // the last one: AFMoE's
			everyLast = r.wholeOr(key, everyLast)
		}
		order = lastGlobal(m.Layers, everyLast, Local)
	}
	m.setWindows(r.wholeOr(windowKey, 0), order, r.wholeOr("max_position_embeddings", 0))
}

// windowNote describes the windows: how many layers have which.
func (m *Model) windowNote() string {
	kind := "a window"
	if m.Chunked() {
		kind = "chunks"
	}
	return fmt.Sprintf("%d of %d layers are read with %s of %d tokens", m.WindowedLayers(), m.Layers, kind, m.Window)
}

// gateNote says what is left out of AFMoE: each layer multiplies the output of attention by a gate, which a matrix of its own makes.
func (m *Model) gateNote() string {
	gates := int64(m.Layers) * int64(m.Hidden) * int64(m.Heads*m.HeadDim)
	return fmt.Sprintf("the gates on the output of attention are left out: %.2f billion parameters beside %.2f", float64(gates)/1e9, float64(m.Parameters())/1e9)
}

const chunkKey = "attention_chunk_size"

// chunked reports whether layers of a file attend within chunks of the context: Llama 4, or a list with such layers.
func chunked(keys map[string]any, kind string) bool {
	types, _ := keys["layer_types"].([]any)
	return kind == "llama4" || kind == "llama4_text" || slices.Contains(types, any("chunked_attention"))
}

// chunks reads which layers attend within chunks. By default all but each fourth layer do (Llama 4's layers with rotary positions).
func (r *reader) chunks(m *Model) {
	const rotary = "no_rope_layers"
	if v, given := r.keys[chunkKey]; given && isNone(v, nil) {
		return
	}
	order := lastGlobal(m.Layers, r.wholeOr("no_rope_layer_interval", 4), Chunk)
	if types := r.list("layer_types"); types != nil {
		order = r.listed("layer_types", types, m.Layers, map[any]byte{"full_attention": Global, "chunked_attention": Chunk})
	} else if list, _ := r.keys[rotary].([]any); len(list) > 0 {
		order = r.listed(rotary, list, m.Layers, map[any]byte{0.0: Global, 1.0: Chunk})
	}
	m.setWindows(r.wholeOr(chunkKey, 8192), order, r.wholeOr("max_position_embeddings", 0))
}

// order returns a letter for each layer, as in LayerKinds.LayerPattern, or "" if the file does not list the layers.
func (r *reader) order(layers int) string {
	if types := r.list("layer_types"); types != nil {
		return r.listed("layer_types", types, layers, map[any]byte{"full_attention": Global, "sliding_attention": Local})
	}
	if kinds := r.list("hybrid_layer_pattern"); kinds != nil { // MiMo-V2's
		return r.listed("hybrid_layer_pattern", kinds, layers, map[any]byte{0.0: Global, 1.0: Local})
	}
	for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern"} { // EXAONE 4's: LLLG
		if letters, _ := r.keys[key].(string); letters != "" && strings.Trim(letters, "GL") == "" {
			return strings.Repeat(letters, layers/len(letters)+1)[:layers]
		}
	}
	if first, given := r.keys["max_window_layers"]; given && first != nil && strings.HasPrefix(r.kind, "qwen") { // layers from this one on have windows
		n := min(r.count("max_window_layers", 0), layers)
		return strings.Repeat("G", n) + strings.Repeat("L", layers-n)
	}
	return ""
}

// list reads a list that may be absent or null.
func (r *reader) list(key string) []any {
	v := r.keys[key]
	list, ok := v.([]any)
	if v != nil && !ok {
		r.fail(key, "a list")
	}
	return list
}

// listed returns the order of layers from a list with one of two values for each layer.
func (r *reader) listed(key string, list []any, layers int, letters map[any]byte) string {
	var order strings.Builder
	for _, v := range list {
		var letter byte
		switch v.(type) {
		case string, float64:
			letter = letters[v]
		}
		if letter == 0 {
			var values []string
			for value := range letters {
				values = append(values, written(value))
			}
			slices.Sort(values)
			r.fail(key, fmt.Sprintf("%s for each layer, not %s", strings.Join(values, " or "), written(v)))
		}
		order.WriteByte(letter)
	}
	if len(list) != layers {
		r.fail(key, fmt.Sprintf("%s = %d entries, not %d", r.family.layers, layers, len(list)))
	}
	return order.String()
}

// lastGlobal returns an order in which the last of every n layers is global and the others are of the given kind; n = 0 makes all layers of
// that kind.
func lastGlobal(layers, n int, kind byte) string {
	order := []byte(strings.Repeat(string(rune(kind)), layers))
	for layer := n - 1; n > 0 && layer < layers; layer += n {
		order[layer] = Global
	}
	return string(order)
}

// setWindows gives layers a window or chunks in an order. It does nothing if the window is as long as the positions, or no layer has it.
func (m *Model) setWindows(window int, order string, positions int) {
	if strings.Trim(order, "G") == "" || positions > 0 && window >= positions {
		return
	}
	m.Window = window
	m.setOrder(order)
}

// setOrder sets the layer kinds to the shortest pattern that repeats to the order. It sets none if all layers have the default kind.
func (k *LayerKinds) setOrder(order string) {
	border := make([]int, len(order)) // for each prefix, the length of the longest proper prefix that is also its suffix (Knuth, Morris and Pratt)
	for i, n := 1, 0; i < len(order); i++ {
		for n > 0 && order[i] != order[n] {
			n = border[n-1]
		}
		if order[i] == order[n] {
			n++
		}
		border[i] = n
	}
	if len(order) == 0 {
		return
	}
	if p := order[:len(order)-border[len(order)-1]]; p != string(rune(k.Kind(0))) {
		k.LayerPattern = p
	}
}

// heads reads the heads of layers with a window, if they differ from those of other layers. Either kind may have its own keys: MiMo-V2's
// swa_ keys are of layers with a window, Gemma 4's global keys of the others.
func (r *reader) heads(m *Model) {
	if m.LatentDim > 0 {
		return
	}
	if m.ValueDim = r.wholeOr("v_head_dim", 0); m.ValueDim == m.HeadDim {
		m.ValueDim = 0
	}
	all := Heads{KV: m.KVHeads, Dim: m.HeadDim}
	local := Heads{KV: r.wholeOr("swa_num_key_value_heads", all.KV), Dim: r.wholeOr("swa_head_dim", all.Dim)}
	global := Heads{KV: r.wholeOr("num_global_key_value_heads", all.KV), Dim: r.wholeOr("global_head_dim", all.Dim)}
	switch m.WindowedLayers() {
	case 0:
		if key := firstOf(r.keys, []string{"swa_num_key_value_heads", "swa_head_dim"}); local != all {
			r.fail(key, "a key that says which layers have a window, whose heads it describes: sliding_window and layer_types")
		}
		m.KVHeads, m.HeadDim = global.KV, global.Dim
	case m.Layers:
		m.KVHeads, m.HeadDim = local.KV, local.Dim
	default:
		m.KVHeads, m.HeadDim = global.KV, global.Dim
		if local.KV != global.KV {
			m.WindowKVHeads = local.KV
		}
		if local.Dim != global.Dim {
			m.WindowHeadDim = local.Dim
		}
	}
}
