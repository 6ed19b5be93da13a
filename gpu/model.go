package gpu

import (
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// ModelCost costs the operations of one layer of a model on one of the GPUs of
// a tensor-parallel replica (Megatron-LM's split: heads and feed-forward
// columns over the GPUs, an all-reduce after the projection and one after the
// feed-forward; Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053). All
// methods return seconds, are pure, and do not allocate.
type ModelCost struct {
	spec  *Spec
	model *llm.Model
	gpus  int   // of the replica
	heads Heads // on each GPU
	bits  int
	// Widths on each GPU.
	qkv, attention, ffn, vocab int
	experts                    []llm.ExpertShare // nil for a dense model
}

// NewModelCost returns the costs of model m, split over m.TensorParallel GPUs
// of the given kind. Both specifications must be valid and stay unchanged.
func NewModelCost(s *Spec, m *llm.Model) *ModelCost {
	t := m.TensorParallel
	return &ModelCost{
		spec: s, model: m, gpus: t, bits: m.ElementBits,
		heads:     Heads{Query: m.Heads / t, KV: m.KVHeads / t, Dim: m.HeadDim, ElementBits: m.ElementBits},
		qkv:       m.QKVWidth() / t,
		attention: m.Heads / t * m.HeadDim,
		ffn:       ceilDiv(m.FFNHidden, t),
		vocab:     ceilDiv(m.Vocab, t),
		experts:   m.ExpertShares(),
	}
}

// QKV returns the time of the norm and of QKV generation for a batch of tokens.
func (c *ModelCost) QKV(tokens int) float64 {
	return c.spec.Norm(tokens, c.model.Hidden, c.bits).Seconds + c.spec.gemm(tokens, c.qkv, c.model.Hidden, c.bits)
}

// PrefillAttention returns the time of attention of a chunk of one request's
// prompt over itself and the finished tokens before it.
func (c *ModelCost) PrefillAttention(chunk, finished int) float64 {
	return c.spec.prefillAttention(chunk, finished, c.heads)
}

// PrefillBatch adds up the attention of the chunks of one sub-batch on the GPUs,
// in their order. The zero value is not ready: see ModelCost.Prefills.
type PrefillBatch struct {
	cost    *ModelCost
	free    int     // SMs without a block in the last wave; AttAcc's model only
	longest float64 // block of that wave
}

// Prefills returns an empty batch.
func (c *ModelCost) Prefills() PrefillBatch { return PrefillBatch{cost: c} }

// Add returns the time that a chunk adds. Chunks of different requests share no
// data and run one after another; in AttAcc's model they are one kernel, whose
// waves of thread blocks they share.
func (b *PrefillBatch) Add(chunk, finished int) float64 {
	c := b.cost
	if c.spec.Prefill.Model != AttentionAttAcc || chunk <= 0 {
		return c.PrefillAttention(chunk, finished)
	}
	block := c.spec.attAccBlock(&c.spec.Prefill.Efficiency, float64(chunk), float64(finished+chunk), c.heads)
	seconds, added := block.Compute+block.Memory, 0.0
	for left := c.heads.Query; left > 0; {
		if b.free == 0 {
			b.free, b.longest = c.spec.SMs, 0
		}
		if seconds > b.longest { // the wave waits for it
			added += seconds - b.longest
			b.longest = seconds
		}
		placed := min(left, b.free)
		left -= placed
		b.free -= placed
	}
	return added
}

// DecodeBatch returns the time of attention of a batch of decoding requests, each over
// its own context (its new token included).
func (c *ModelCost) DecodeBatch(b DecodeBatch) float64 { return c.spec.decodeAttention(b, c.of(b)) }

// DecodeBatchCost is DecodeBatch with its parts.
func (c *ModelCost) DecodeBatchCost(b DecodeBatch) Cost {
	return c.spec.DecodeAttentionCost(b, c.of(b))
}

// of returns the heads of a batch on each GPU.
func (c *ModelCost) of(b DecodeBatch) Heads {
	h := c.heads
	if b.KVHeads > 0 {
		h.KV = ceilDiv(b.KVHeads, c.gpus)
		h.Query = h.KV * c.heads.group()
	}
	return h
}

// Projection returns the time of the output projection, its all-reduce and the
// residual addition.
func (c *ModelCost) Projection(tokens int) float64 {
	hidden := c.model.Hidden
	return c.spec.gemm(tokens, hidden, c.attention, c.bits) + c.allReduce(tokens) +
		c.spec.residual(tokens, hidden, c.bits).Seconds
}

// FFN returns the time of the norm, the feed-forward network or the experts, the
// all-reduce and the residual addition.
func (c *ModelCost) FFN(tokens int) float64 {
	hidden := c.model.Hidden
	t := c.spec.Norm(tokens, hidden, c.bits).Seconds
	if c.experts != nil {
		t += c.mixture(tokens)
	} else { // the up and gate matrices of a gated network are one product, as serving systems run them
		t += c.spec.gemm(tokens, c.up(), hidden, c.bits)
		t += c.spec.Activation(tokens, c.ffn, c.model.GatedFFN, c.bits).Seconds
		t += c.spec.gemm(tokens, hidden, c.ffn, c.bits)
	}
	return t + c.allReduce(tokens) + c.spec.residual(tokens, hidden, c.bits).Seconds
}

// up returns the width on each GPU of what the first product of a network makes.
func (c *ModelCost) up() int { return (c.model.FFNMatrices() - 1) * c.ffn }

// ProjectionFFN returns Projection plus FFN: what follows attention in a layer.
func (c *ModelCost) ProjectionFFN(tokens int) float64 { return c.Projection(tokens) + c.FFN(tokens) }

// Embedding returns the time of the embedding of a batch of tokens. Each GPU
// looks up the part of the vocabulary that it holds, and an all-reduce joins.
func (c *ModelCost) Embedding(tokens int) float64 {
	return c.spec.embeddingLookup(tokens, c.model.Hidden, c.bits).Seconds + c.allReduce(tokens)
}

// LMHead returns the time of the final norm and of the logits of the tokens
// that emit one. Each GPU picks the best of its part of the vocabulary, and an
// all-reduce of index and value (8 bytes a token) decides.
func (c *ModelCost) LMHead(emitting int) float64 {
	if emitting <= 0 {
		return 0
	}
	return c.spec.Norm(emitting, c.model.Hidden, c.bits).Seconds +
		c.spec.gemm(emitting, c.vocab, c.model.Hidden, c.bits) +
		c.spec.allReduce(c.gpus, units.Bytes(8*emitting))
}

// allReduce returns the time of summing the hidden states of tokens over the
// replica's GPUs.
func (c *ModelCost) allReduce(tokens int) float64 {
	return c.spec.allReduce(c.gpus, units.Bytes(elementBytes(float64(tokens)*float64(c.model.Hidden), c.bits)))
}
