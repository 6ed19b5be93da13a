package llm

import (
	"github.com/l3sim/l3sim/input"
)

// Latent is multi-head latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1). A layer stores one vector of each
// token for all heads: a latent of latent_dim elements, then a rotated key of head_dim - latent_dim. The whole vector is the key, and the
// latent alone is the value. The model thus has one KV head, which every GPU of a replica holds whole. A decode step attends to the latents
// directly: the matrices that would expand them to keys and values are folded into query and output. A prompt first expands keys and values
// for each head. The zero value is attention without latents.
type Latent struct {
	LatentDim int `toml:"latent_dim,optional"` // elements of a token's latent (kv_lora_rank); 0: keys and values are stored as they are
	// QueryRank is the width of the vector between the two products that make the queries (q_lora_rank); 0: one product makes them.
	QueryRank int `toml:"query_rank,optional"`
	NopeDim   int `toml:"nope_dim,optional"` // elements of a head's query and key without rotary position, in prompts (qk_nope_head_dim)
	// ValueDim is the number of elements of a head's value (v_head_dim), in prompts if the model has latents; 0: head_dim.
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

// RopeDim returns the number of rotated elements of a key.
func (m *Model) RopeDim() int { return m.HeadDim - m.LatentDim }

// latentMatrix is a matrix of latent attention.
type latentMatrix struct {
	leaves     []string // names in checkpoints and servers
	parameters int64
	replicated bool // every GPU of a replica holds it whole
}

// latentMatrices returns a layer's matrices for a number of query heads: down to the ranks, up to the heads, and the output.
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

// latentParameters returns the parameters of QKV generation and projection for a number of query heads, with a number of copies of the
// replicated matrices.
func (m *Model) latentParameters(query, copies int) (n int64) {
	for _, x := range m.latentMatrices(query) {
		if x.replicated {
			x.parameters *= int64(copies)
		}
		n += x.parameters
	}
	return n
}

// latentActivations returns the activations of one token, in elements over the GPUs of a replica, for a number of query heads. The larger
// of two counts: a decode step, whose queries and outputs are as wide as latents, and a prompt, whose keys, values, queries and outputs
// have the heads' widths.
func (m *Model) latentActivations(query int) int64 {
	decode, prompt := m.HeadDim+m.LatentDim, 2*(m.NopeDim+m.RopeDim()+m.ValueDim)
	return int64(query)*int64(max(decode, prompt)) + int64(m.TensorParallel)*int64(m.HeadDim+m.QueryRank)
}
