package gpu

// Iteration returns the seconds of one iteration of a GPU-only system over all
// layers: a batch of decoding requests, or of equal prefills, or both.
// Prefilling requests have chunk tokens each, all of their prompts; every
// request emits one token.
func (c *ModelCost) Iteration(decode DecodeBatch, prefills, chunk int) float64 {
	tokens := decode.Requests + prefills*chunk
	layer := c.QKV(tokens) + c.spec.PrefillAttentionCost(prefills, chunk, 0, c.heads).Seconds +
		c.DecodeBatch(decode) + c.ProjectionFFN(tokens)
	return c.Embedding(tokens) + float64(float64(c.model.Layers)*layer) + c.LMHead(decode.Requests+prefills)
}

// StaticBatch returns the seconds of serving a batch of equal requests at once
// on one replica, as throughput benchmarks do: one prefill of all prompts,
// which emits the first token of each, and a decode step for each further one.
func (c *ModelCost) StaticBatch(batch, in, out int) (prefill, decode float64) {
	prefill = c.Iteration(DecodeBatch{}, batch, in)
	for step := 1; step < out; step++ {
		decode += c.Iteration(UniformBatch(batch, in+step), 0, 0)
	}
	return prefill, decode
}
