package llm

import (
	"github.com/l3sim/l3sim/input"
)

// Latent is multi-head latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1). A layer stores one vector of a
// token for all heads: a latent of latent_dim elements, which is the value, and behind it a rotated key of head_dim - latent_dim; both
// together are the key. So such a model has one KV head, which every GPU of a replica holds whole. A decode step attends to the latents
// themselves, with the matrices that make keys and values of them multiplied into query and output; a prompt makes keys and values of
// each head first. The zero value is attention without latents.
type Latent struct {
	LatentDim int `toml:"latent_dim,optional"` // elements of a token's latent (kv_lora_rank); 0: keys and values are stored as they are
	// QueryRank is the width of the vector between the two products that make the queries (q_lora_rank); 0: one product makes them.
	QueryRank int `toml:"query_rank,optional"`
	NopeDim   int `toml:"nope_dim,optional"` // elements of one head's query and key that are not rotated, as a prompt has them (qk_nope_head_dim)
	// ValueDim is the elements of one head's value (v_head_dim), with latents as a prompt has it; 0: head_dim.
	ValueDim int `toml:"value_dim,optional"`
}

func (l *Latent) check(c *input.Check, m *Model) {
	const most = 1 << 16
	input.Within(c, "latent_dim", l.LatentDim, 0, most)
	for _, x := range []struct {
		key   string
		value int
		needs bool
	}{{"query_rank", l.QueryRank, false}, {"nope_dim", l.NopeDim, true}, {"value_dim", l.ValueDim, true}} {
		input.Within(c, x.key, x.value, 0, most)
		c.That(x.value == 0 || l.LatentDim > 0 || x.key == "value_dim", x.key, x.value, "0 without %s", input.Key("model.latent_dim"))
		c.That(x.value > 0 || !x.needs || l.LatentDim == 0, x.key, x.value, "at least 1 with %s = %d", input.Key("model.latent_dim"), l.LatentDim)
	}
	c.That(m.KVFormat != FP8Latent || l.LatentDim > 0, "kv_format", m.KVFormat, "another format without %s: it is of latents", input.Key("model.latent_dim"))
	if l.LatentDim == 0 {
		return
	}
	c.That(m.KVHeads == 1, "kv_heads", m.KVHeads, "1 with %s = %d: all heads share a token's latent", input.Key("model.latent_dim"), l.LatentDim)
	c.That(m.HeadDim >= l.LatentDim, "head_dim", m.HeadDim, "at least %s = %d: the latent and the rotated key behind it", input.Key("latent_dim"), l.LatentDim)
	c.That(m.Window == 0, "window", m.Window, "0 with %s = %d", input.Key("model.latent_dim"), l.LatentDim)
}

// RopeDim returns the elements of a key that are rotated.
func (m *Model) RopeDim() int { return m.HeadDim - m.LatentDim }

// latentMatrix is a matrix of latent attention.
type latentMatrix struct {
	leaves     []string // that checkpoints and servers call it
	parameters int64
	replicated bool // every GPU of a replica has it whole
}

// latentMatrices returns the matrices of a layer of so many query heads: down to the ranks, up from these to the heads, and the output's.
func (m *Model) latentMatrices(query int) []latentMatrix {
	hidden, heads := int64(m.Hidden), int64(query)
	key := heads * int64(m.NopeDim+m.RopeDim())
	all := []latentMatrix{
		{[]string{"kv_a_proj_with_mqa", "fused_qkv_a_proj"}, hidden * int64(m.HeadDim), true},
		{[]string{"kv_b_proj"}, int64(m.LatentDim) * heads * int64(m.NopeDim+m.ValueDim), false},
		{[]string{"o_proj"}, heads * int64(m.ValueDim) * hidden, false},
	}
	if m.QueryRank == 0 {
		return append(all, latentMatrix{[]string{"q_proj"}, hidden * key, false})
	}
	return append(all, latentMatrix{[]string{"q_a_proj", "fused_qkv_a_proj"}, hidden * int64(m.QueryRank), true},
		latentMatrix{[]string{"q_b_proj"}, int64(m.QueryRank) * key, false})
}

// latentParameters returns those of QKV generation and projection of that many query heads and copies of what is replicated.
func (m *Model) latentParameters(query, copies int) (n int64) {
	for _, x := range m.latentMatrices(query) {
		if x.replicated {
			x.parameters *= int64(copies)
		}
		n += x.parameters
	}
	return n
}

// latentActivations returns the elements of one token over the GPUs of a replica, of so many query heads: the queries and outputs of a
// decode step are as wide as latents, keys, values, queries and outputs of a prompt as its heads.
func (m *Model) latentActivations(query int) int64 {
	decode, prompt := m.HeadDim+m.LatentDim, 2*(m.NopeDim+m.RopeDim()+m.ValueDim)
	return int64(query)*int64(max(decode, prompt)) + int64(m.TensorParallel)*int64(m.HeadDim+m.QueryRank)
}
