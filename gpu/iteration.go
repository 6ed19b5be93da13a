package gpu

import "github.com/l3sim/l3sim/llm"

// Shape is one iteration of a GPU-only system: a batch of decoding requests and equal prefills, each after finished tokens. Every request
// emits one token.
type Shape struct {
	Decode                    DecodeBatch
	Prefills, Chunk, Finished int
}

// Iteration returns the work of an iteration over all layers.
func (c *ModelCost) Iteration(x Shape) Work { return c.IterationParts(x).Total() }

// IterationParts is Iteration by groups of kernels.
func (c *ModelCost) IterationParts(x Shape) Parts {
	tokens := x.Decode.Requests + x.Prefills*x.Chunk
	layer := c.qkvParts(tokens).plus(c.projection(tokens)).plus(c.ffnParts(tokens))
	layers := layer.times(c.model.Layers)
	for _, kind := range []byte{llm.Global, llm.Local, llm.Chunk, llm.Indexed, llm.Shared} {
		if n := c.model.CountLayers(string(rune(kind))); n > 0 {
			layers = layers.plus(c.attend(x, kind).times(n))
		}
	}
	return c.embedding(tokens).plus(layers).plus(c.head(x.Decode.Requests + x.Prefills))
}

// AttentionModule returns the seconds of a layer's attention with all its matrix products, as the attention modules of servers measure it:
// without the norm before it and the all-reduce after it.
func (c *ModelCost) AttentionModule(x Shape, kind byte) float64 {
	tokens := x.Decode.Requests + x.Prefills*x.Chunk
	p := c.qkvParts(tokens).plus(c.attend(x, kind))
	p[ProjectionProduct] = c.projection(tokens)[ProjectionProduct]
	return p.Total().Seconds - c.waits(c.norm(c.own(tokens))).Seconds
}

// attend returns attention of a layer of a kind. With a window, all contexts of the batch count as equal: the mean context, at most the
// window. With chunks or an indexer, they count as the mean.
func (c *ModelCost) attend(x Shape, kind byte) (p Parts) {
	a, tokens := c.Attention(), x.Decode.Requests+x.Prefills*x.Chunk
	pieces := [3]llm.Piece{{Count: 1, Tokens: x.Chunk, Behind: x.Finished}}
	windowed := kind == llm.Local || kind == llm.Chunk
	x.Decode.Windowed = windowed
	var prefill, scores Work // scores: of the decode batch, including the choice
	switch kind {
	case llm.Local, llm.Chunk:
		pieces = c.model.PromptPieces(x.Chunk, x.Finished)
		if n := int64(x.Decode.Requests); c.model.Chunked() && n > 0 {
			x.Decode.Longest = c.model.WindowTokens(int((x.Decode.Tokens+n-1)/n), 1)
			x.Decode.Tokens = n * int64(x.Decode.Longest)
		}
		x.Decode.Longest = min(x.Decode.Longest, c.model.Window)
		x.Decode.Tokens = min(x.Decode.Tokens, int64(x.Decode.Requests)*int64(c.model.Window))
	case llm.Indexed, llm.Shared:
		if n := x.Decode.Requests; n > 0 && x.Decode.Tokens > int64(n)*int64(c.model.IndexTopK) {
			scores = c.Index(llm.Indexing{Requests: n, Queries: 1, Keys: x.Decode.Tokens, Longest: x.Decode.Longest, Pairs: x.Decode.Tokens, Keep: c.model.IndexTopK, Step: true})
			x.Decode = UniformBatch(n, c.model.IndexTopK)
			x.Decode.Page = 1
		}
		if kind == llm.Shared {
			scores = Work{}
		}
		if chosen, of := c.model.Indexer.Prompt(x.Chunk, x.Finished); chosen.Rows > 0 {
			kernels := 1 // for all prompts
			if n := x.Prefills; c.data {
				kernels = n
			} else {
				chosen.Tokens, chosen.Rows = n*chosen.Tokens, int64(n)*chosen.Rows
				of.Requests, of.Keys, of.Pairs = n*of.Requests, int64(n)*of.Keys, int64(n)*of.Pairs
			}
			prefill = c.Chosen(chosen)
			if kind == llm.Indexed {
				prefill = prefill.Plus(c.Index(of))
			}
			prefill, pieces = prefill.Times(kernels), [3]llm.Piece{}
		}
	}
	for _, piece := range pieces {
		if piece.Count*piece.Tokens > 0 {
			prefill = prefill.Plus(a.PromptsOf(x.Prefills*piece.Count, piece.Tokens, piece.Behind, 0, windowed))
		}
	}
	decode := a.Decoding(x.Decode)
	if prefill.Seconds > 0 && decode.Seconds > 0 && !c.spec.joinsDecode() {
		p[SmallKernels] = c.joined(tokens)
	}
	p[PrefillAttention], p[DecodeAttention] = prefill, decode.Plus(scores)
	return p
}

// StaticBatch returns the seconds of serving a batch of equal requests at once on one replica, as throughput benchmarks do, and the joules
// of each GPU. It is one prefill of all prompts, which emits the first token of each, and a decode step for each further token.
func (c *ModelCost) StaticBatch(batch, in, out int) (prefill, decode, joules float64) {
	prefill, joules = c.spec.Sustained(c.Iteration(Shape{Prefills: batch, Chunk: in}))
	for step := 1; step < out; step++ {
		seconds, more := c.spec.Sustained(c.Iteration(Shape{Decode: UniformBatch(batch, in+step)}))
		decode += seconds
		joules += more
	}
	return prefill, decode, joules
}
