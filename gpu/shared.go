package gpu

// Shared is keys and values to which several decoding requests all attend: Tokens for each KV head.
type Shared struct{ Requests, Tokens int }

// SharedAttentionCost returns attention of a decode step over keys and values that groups of requests share, in one layer on one GPU. One
// kernel reads each group's keys and values once, with the query heads of all its requests as rows of its tiles, so that arithmetic may
// bind (Hydragen, Juravsky et al. 2024, https://arxiv.org/abs/2402.05099; FlashInfer's cascade attention, Ye et al., MLSys 2025,
// https://arxiv.org/abs/2501.01005). Its outputs are partial: MergeParts combines them with those over the rest of the context. A group of
// one request costs the same as in DecodeAttentionCost. In AttAcc's model each group has its own waves of blocks.
func (s *Spec) SharedAttentionCost(groups []Shared, h Heads) Cost {
	return s.by(s.decodeOf(&h).Model).shared(groups, h)
}

func (s measured) shared(groups []Shared, h Heads) (c Cost) {
	d := s.decodeOf(&h)
	requests, tokens, attended, most, longest := 0, 0, 0, 0, 0
	for _, g := range groups {
		requests, tokens, attended = requests+g.Requests, tokens+g.Tokens, attended+g.Requests*g.Tokens
		most, longest = max(most, g.Requests), max(longest, g.Tokens)
	}
	if tokens == 0 {
		return c
	}
	pair, items := h.pairFLOPs(), float64(len(groups))*float64(h.KV)
	qBytes, kvBytes := h.decodeBytes(float64(requests), float64(tokens))
	c = Cost{FLOPs: pair * float64(h.Query) * float64(attended), Bytes: kvBytes + qBytes, Overhead: d.Overhead.Seconds()}
	parts, rows := d.parts(s.SMs, items, float64(tokens)/float64(len(groups)), s.blockToken(h), most*h.group())
	padded := 0 // rows of a KV head, summed over the tokens that they attend to
	for _, g := range groups {
		padded += ceilDiv(g.Requests*h.group(), rows) * rows * g.Tokens
	}
	c.Executed = pair * float64(padded) * float64(h.KV)
	if most*h.group() > 1 && h.KV > 1 && requests > 1 {
		c.Overhead += d.GroupOverhead.Seconds()
	}
	s.blocks(&c, items, parts, float64(tokens)/float64(len(groups)), float64(longest), float64(tokens), float64(attended), kvBytes, most*h.group(), h)
	return c.combine(d.Ridge)
}

// SharedCost is SharedAttentionCost for all KV heads of the model, with the queries of all tokens that a step verifies.
func (c *ModelCost) SharedCost(groups []Shared) Cost {
	return c.spec.SharedAttentionCost(groups, c.decoding(&DecodeBatch{}))
}

// Kernel returns the work of a decode-attention kernel by itself.
func (c *ModelCost) Kernel(cost Cost) Work {
	return c.waits(c.spec.work(cost).scaled(c.scale.decode))
}
