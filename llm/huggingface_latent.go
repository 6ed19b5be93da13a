package llm

// latentKeys say how wide the parts of latent attention are.
var latentKeys = []string{"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}

// latent reads latent attention, where the file has it (DeepSeek V2 and V3, Kimi K2).
func (r *reader) latent(m *Model) {
	const rank = "kv_lora_rank"
	if isNone(r.keys[rank], nil) {
		return
	}
	m.LatentDim, m.QueryRank = r.whole(rank), r.count("q_lora_rank", 0)
	m.NopeDim, m.ValueDim = r.whole("qk_nope_head_dim"), r.whole("v_head_dim")
	m.KVHeads, m.HeadDim = 1, m.LatentDim+r.whole("qk_rope_head_dim")
}
