package llm

import (
	"fmt"
	"strings"
)

const rankKey = "kv_lora_rank"

// latentKeys give the widths of latent attention's parts.
var latentKeys = []string{rankKey, "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}

// latent reads latent attention, if the file has it (DeepSeek V2 and V3, Kimi K2).
func (r *reader) latent(m *Model) {
	if rank, given := r.keys[rankKey]; isNone(rank, nil) && (given || isNone(r.keys["qk_nope_head_dim"], nil)) {
		return
	}
	m.LatentDim, m.QueryRank = r.whole(rankKey), r.count("q_lora_rank", 0)
	m.NopeDim, m.ValueDim = r.whole("qk_nope_head_dim"), r.whole("v_head_dim")
	m.KVHeads, m.HeadDim = 1, m.LatentDim+r.whole("qk_rope_head_dim")
}

// indexKeys give the widths of the indexer, and the number of tokens that it chooses.
var indexKeys = []string{topKKey, "index_n_heads", "index_head_dim"}

const topKKey = "index_topk"

// indexer reads the indexer of sparse attention, if the file has one (DeepSeek V3.2, GLM-5).
func (r *reader) indexer(m *Model) {
	if key := firstOf(r.keys, indexKeys); isNone(r.keys[key], nil) {
		return
	} else if m.LatentDim == 0 {
		r.fail(key, without("an indexer beside keys and values of heads"))
		return
	}
	m.IndexTopK, m.IndexHeads, m.IndexDim = r.whole(topKKey), r.whole("index_n_heads"), r.whole("index_head_dim")
	m.setOrder(r.indexed(m.Layers))
}

// indexed returns a letter for each layer: it has an indexer, or shares the choice of the last layer that has one. The file gives a list, a
// text, or a period of layers after the first ones (GLM-5.2). It returns "" if all layers have one.
func (r *reader) indexed(layers int) string {
	const list, pattern, freq, offset = "indexer_types", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"
	if types, ok := r.keys[list].([]any); ok {
		return r.checkShared(list, r.listed(list, types, layers, map[any]byte{"full": Indexed, "shared": Shared}))
	}
	if text, _ := r.keys[pattern].(string); text != "" {
		if len(text) != layers || strings.Trim(text, "FS") != "" {
			r.fail(pattern, fmt.Sprintf("a letter F or S for each of %s = %d layers", r.family.layers, layers))
		}
		return r.checkShared(pattern, strings.ReplaceAll(text, "F", string(rune(Indexed))))
	}
	order, every := []byte(strings.Repeat(string(rune(Indexed)), layers)), r.count(freq, 1)
	for layer, first := 0, r.count(offset, 1); layer < layers && r.bad == nil; layer++ {
		if max(layer-first+1, 0)%every != 0 {
			order[layer] = Shared
		}
	}
	return string(order)
}

// checkShared refuses an order whose first layer shares a choice, since no layer before it has made one.
func (r *reader) checkShared(key, order string) string {
	if order != "" && order[0] == Shared {
		r.fail(key, "an indexer in the first layer: there is no choice before it to share")
	}
	return order
}
