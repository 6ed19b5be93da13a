package gpu

import "github.com/l3sim/l3sim/llm"

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
	layer := c.qkvParts(tokens).plus(c.projection(tokens)).plus(c.ffnParts(tokens))
	layers, windowed := layer.times(c.model.Layers), c.model.WindowedLayers()
	layers = layers.plus(c.attend(x, false).times(c.model.Layers - windowed))
	if windowed > 0 {
		layers = layers.plus(c.attend(x, true).times(windowed))
	}
	return c.embedding(tokens).plus(layers).plus(c.head(x.Decode.Requests + x.Prefills))
}

// attend returns attention of a layer, of one with a window or of another. With a window, contexts of the batch count as equal: as long
// as the window where they are longer in the mean; with one that is cut into chunks as long as the mean.
func (c *ModelCost) attend(x Shape, windowed bool) (p Parts) {
	a, tokens := c.Attention(), x.Decode.Requests+x.Prefills*x.Chunk
	pieces := [3]llm.Piece{{Count: 1, Tokens: x.Chunk, Behind: x.Finished}}
	if window := c.model.Window; windowed {
		pieces = c.model.PromptPieces(x.Chunk, x.Finished)
		if n := int64(x.Decode.Requests); c.model.WindowChunked && n > 0 {
			x.Decode.Longest = c.model.WindowTokens(int((x.Decode.Tokens+n-1)/n), 1)
			x.Decode.Tokens = n * int64(x.Decode.Longest)
		}
		x.Decode.Longest = min(x.Decode.Longest, window)
		x.Decode.Tokens = min(x.Decode.Tokens, int64(x.Decode.Requests)*int64(window))
	}
	var prefill Work
	for _, piece := range pieces {
		if piece.Count*piece.Tokens > 0 {
			prefill = prefill.Plus(a.Prompts(x.Prefills*piece.Count, piece.Tokens, piece.Behind, 0))
		}
	}
	decode := a.Decoding(x.Decode)
	if prefill.Seconds > 0 && decode.Seconds > 0 && !c.spec.joinsDecode() {
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
