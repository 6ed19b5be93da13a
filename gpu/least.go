package gpu

// LeastPerToken returns seconds that a layer takes at least for each token of a chunk of a prompt, of any length, after so many finished
// ones: its products and the attention of Prompts. A scheduler excludes long chunks by it without the cost of each.
func (c *ModelCost) LeastPerToken(finished, kvHeads int, windowed bool) float64 {
	t := c.leastProducts()
	if h := c.some(kvHeads, windowed); !c.promptsUnbounded(&h) {
		t += float64(measured{c.spec}.leastPerToken(finished, h) * c.scale.prefill)
	}
	return t
}

// promptsUnbounded says that no bound of Prompts is known for these heads.
func (c *ModelCost) promptsUnbounded(h *Heads) bool {
	return c.data || c.latent != nil || c.spec.prefillOf(h).Model == AttAcc
}

// leastProducts returns seconds of a layer's products for a token at the full rate of their kernels, without experts.
func (c *ModelCost) leastProducts() float64 {
	if c.data || c.latent != nil {
		return 0
	}
	hidden := c.model.Hidden
	width := c.kinds[0].qkv + c.kinds[0].attention
	if c.windowed > 0 {
		width = min(width, c.kinds[1].qkv+c.kinds[1].attention)
	}
	t := c.leastProduct(hidden*width, c.projections)
	if inner := c.FFNWidth(); inner > 0 {
		t += c.leastProduct(hidden*(c.up(inner)+inner), c.networks)
	}
	return float64(t * c.scale.products * (1 - rounding))
}

// leastProduct returns the seconds of one row of products with so many weights, and 0 if the fit has kernels of their type.
func (c *ModelCost) leastProduct(weights int, w widths) float64 {
	if t, _ := c.spec.typed(w); t != nil {
		return 0
	}
	return 2 * float64(weights) / (c.spec.MatMul.Compute * c.spec.peak(w.rate()))
}

// leastPerToken returns seconds of prefill for each token of a chunk, of any length: every kernel computes, for each query row, at least the
// scores of the finished tokens.
func (s measured) leastPerToken(finished int, h Heads) float64 {
	rate := s.peak(h.ElementBits)
	pair := min(s.tileKey(s.prefillOf(&h), 1, h)/float64(s.SMs), h.pairFLOPs()/(s.decodeOf(&h).Compute*rate))
	if s.Suite == SuiteServer && s.Extend.MaxSplits > 1 {
		pair = min(pair, h.pairFLOPs()/(s.Extend.Compute*rate))
	}
	return float64(float64(h.Query)*float64(finished)) * pair * (1 - rounding)
}
