package gpu

// Shape is one iteration of a GPU-only system: a batch of decoding requests, and equal
// prefills with finished tokens before each. Every request emits one token.
type Shape struct {
	Decode                    DecodeBatch
	Prefills, Chunk, Finished int
}

// Iteration returns what an iteration takes over all layers.
func (c *ModelCost) Iteration(x Shape) Work { return c.IterationParts(x).Total() }

// IterationParts is Iteration by groups of kernels.
func (c *ModelCost) IterationParts(x Shape) Parts {
	tokens := x.Decode.Requests + x.Prefills*x.Chunk
	layer := c.qkvParts(tokens).plus(c.projection(tokens)).plus(c.feedForward(tokens)).plus(c.attend(x))
	return c.embedding(tokens).plus(layer.times(c.model.Layers)).plus(c.head(x.Decode.Requests + x.Prefills))
}

func (c *ModelCost) attend(x Shape) (p Parts) {
	a, tokens := c.Attention(), x.Decode.Requests+x.Prefills*x.Chunk
	prefill, decode := a.Prompts(x.Prefills, x.Chunk, x.Finished, 0), a.Decoding(x.Decode)
	if prefill.Seconds > 0 && decode.Seconds > 0 {
		p[SmallKernels] = c.joined(tokens)
	}
	p[PrefillAttention], p[DecodeAttention] = prefill, decode
	return p
}

// StaticBatch returns the seconds of serving a batch of equal requests at once on one
// replica, as throughput benchmarks do, and the joules of each GPU: one prefill of all
// prompts, which emits the first token of each, and a decode step for each further one.
func (c *ModelCost) StaticBatch(batch, in, out int) (prefill, decode, joules float64) {
	prefill, joules = c.spec.Sustained(c.Iteration(Shape{Prefills: batch, Chunk: in}))
	for step := 1; step < out; step++ {
		seconds, more := c.spec.Sustained(c.Iteration(Shape{Decode: UniformBatch(batch, in+step)}))
		decode += seconds
		joules += more
	}
	return prefill, decode, joules
}
