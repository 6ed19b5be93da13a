package gpu

import "github.com/l3sim/l3sim/llm"

// latent is a GPU's share of latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1): the products of its query heads
// before and after attention. One token's latent and rotated key are key and value of all heads. A decode step attends to them directly
// (absorbed): each head's query is multiplied by the half of its matrix that would expand keys, and its output by the half that would
// expand values. A prompt first expands keys and values of all its tokens, including earlier finished ones, as in vLLM and TensorRT-LLM.
type latent struct {
	query           int       // number of heads
	rank, queryRank int       // of latents, and between the two products for queries; 0: one product
	nope, value     int       // elements of a head's key that are not rotated, and of its value
	rope            int       // elements of a key that are rotated
	kept            [2][]Work // cache of headProducts, by number of tokens
	anew            bool      // do not use the cache
}

const mostKept = 1 << 12 // largest number of tokens in the cache: more than a decode step has

// newLatent returns one GPU's share with the given number of query heads; nil for a model without latents.
func newLatent(m *llm.Model, query int) *latent {
	if m.LatentDim == 0 {
		return nil
	}
	return &latent{query: query, rank: m.LatentDim, queryRank: m.QueryRank, nope: m.NopeDim, value: m.ValueDim, rope: m.RopeDim()}
}

// queries returns the number of elements of all queries of a token.
func (l *latent) queries() int { return l.query * (l.nope + l.rope) }

// prompts returns the heads of prompts, whose keys and values have the width of activations.
func (l *latent) prompts(elementBits int) Heads {
	return Heads{Query: l.query, KV: l.query, Dim: l.nope + l.rope, Value: l.value, ElementBits: elementBits, Expanded: true}
}

// latentQKV returns the products that make tokens' queries and latents, and the norms between two of them. The projections down to the
// ranks are one product, which every GPU computes in full.
func (c *ModelCost) latentQKV(tokens int) (products, norms Work) {
	l, hidden := c.latent, c.model.Hidden
	product := func(n, k int) Work { return c.mixed(tokens, n, k, c.projections, c.keptAttention) }
	index, norms := c.indexProducts(tokens)
	norms = norms.Plus(c.small(c.spec.small().norm(false, tokens, l.rank, c.bits)))
	if l.queryRank == 0 {
		return product(l.queries()+l.rank+l.rope, hidden).Plus(index), norms
	}
	norms = norms.Plus(c.small(c.spec.small().norm(false, tokens, l.queryRank, c.bits)))
	return product(l.queryRank+l.rank+l.rope, hidden).Plus(product(l.queries(), l.queryRank)).Plus(index), norms
}

// absorb returns the two batched products around a decode step of tokens.
func (c *ModelCost) absorb(tokens int) Work {
	if c.latent == nil || tokens <= 0 {
		return Work{}
	}
	return c.waits(c.headProducts(absorbsKeys, tokens).Plus(c.headProducts(absorbsValues, tokens)))
}

// AbsorbKeys returns the batched product before a decode step whose attention another device computes: each head's query by nope × rank,
// for the given number of requests. AbsorbValues returns the product after that step: each head's output by rank × value. Both are empty
// without latents.
func (c *ModelCost) AbsorbKeys(requests int) Work {
	if c.latent != nil && requests > 0 {
		return c.waits(c.headProducts(absorbsKeys, requests*c.verified))
	}
	return Work{}
}

// AbsorbValues is the counterpart of AbsorbKeys.
func (c *ModelCost) AbsorbValues(requests int) Work {
	if c.latent != nil && requests > 0 {
		return c.waits(c.headProducts(absorbsValues, requests*c.verified))
	}
	return Work{}
}

// The two batched products of latents, one for each head.
const (
	absorbsKeys   = iota // query by nope × rank
	absorbsValues        // output by rank × value
)

// headProducts returns one of the two batched products of tokens. Results for few tokens, as in decode steps, are cached.
func (c *ModelCost) headProducts(of, tokens int) Work {
	if tokens > mostKept || c.latent.anew {
		return c.costHeadProducts(of, tokens)
	}
	kept := &c.latent.kept[of]
	if more := tokens + 1 - len(*kept); more > 0 {
		*kept = append(*kept, make([]Work, more)...)
	}
	w := &(*kept)[tokens]
	if w.Seconds == 0 {
		*w = c.costHeadProducts(of, tokens)
	}
	return *w
}

// Anew disables the cache of latents' products. Costs are the same.
func (c *ModelCost) Anew() {
	if c.latent != nil {
		c.latent.anew = true
	}
}

// costHeadProducts computes headProducts. If the fit has no such kernels, it uses a grouped product with matrices of the width of
// activations.
func (c *ModelCost) costHeadProducts(of, tokens int) Work {
	n, k := c.latent.rank, c.latent.nope
	if of == absorbsValues {
		n, k = c.latent.value, c.latent.rank
	}
	if bits := c.absorbedBits(); bits > 0 {
		return c.spec.work(c.spec.AbsorbedCost(c.latent.query, tokens, n, k, bits)).scaled(c.scale.products)
	}
	load := expertLoad{Pairs: tokens * c.latent.query, Touched: float64(c.latent.query)}
	return c.spec.work(c.spec.groupedCost(load, load.Pairs, n, k, c.uniform)).scaled(c.scale.products)
}

// absorbedBits returns the width of factors in the fit's kernels for batched products, 0 if it has none: FP8 if all projections of the
// checkpoint are FP8, else the width of activations. Frameworks without FP8 kernels widen the matrices to the latter on loading.
func (c *ModelCost) absorbedBits() int {
	switch l, w := &c.spec.Latent, c.projections; {
	case c.spec.Suite != SuiteServer:
		return 0
	case w.In == 8 && w.Weights == 8 && c.keptAttention == 0 && l.ProductsFP8.Compute > 0 && !(l.WidensBlocks && w.Block == FP8Block):
		return 8
	case l.Products.Compute > 0:
		return c.bits
	}
	return 0
}

// StoreValuesApart makes decode attention over latents cost what processing units take that store each latent again as a value
// (llm.Model.ValueCopyBytes), and read key and value for queries query heads at once. In contrast, the GPUs' kernel reads a latent once for
// all heads. Other models are unchanged.
func (c *ModelCost) StoreValuesApart(queries int) {
	if c.latent == nil {
		return
	}
	for i := range c.kinds {
		h := &c.kinds[i].heads
		h.Latent, h.Query, h.kv = false, h.KV*min(queries, h.group()), h.kvBytes()+float64(c.model.ValueCopyBytes())
	}
}

// choosesLatents reports whether the fit has kernels of attention over chosen rows of latents.
func (c *ModelCost) choosesLatents() bool {
	return c.latent != nil && c.spec.Suite == SuiteServer && c.spec.Latent.Chosen.Compute > 0
}

// alwaysChosen reports whether attention over chosen rows is the server's only one for the model.
func (c *ModelCost) alwaysChosen() bool {
	return c.spec.Index.Always && c.latent != nil && c.model.IndexTopK > 0 && c.spec.Suite == SuiteServer
}

// wholePrompts returns the rows of prompts whose tokens attend to all tokens before them.
func wholePrompts(requests, chunk, finished int) llm.Chosen {
	n := int64(requests) * int64(chunk)
	return llm.Chosen{Tokens: requests * chunk, Longest: chunk + finished, Rows: n*int64(finished) + n*int64(chunk+1)/2}
}

// absorbsPrompts reports whether prompts with that many finished tokens together attend to latents directly. SGLang expands the keys of
// prompts without finished tokens, where that is the least work, and of those with 8,192 and more, chunk by chunk
// (_handle_attention_backend).
func (c *ModelCost) absorbsPrompts(finished int) bool {
	l := &c.spec.Latent
	return l.Absorbed && (l.ExpandsFrom == 0 || finished > 0 && finished < l.ExpandsFrom)
}

// promptHeads returns the heads of prompts with that many finished tokens together.
func (c *ModelCost) promptHeads(finished int) Heads {
	if c.latent != nil && c.absorbsPrompts(finished) {
		return c.kinds[0].heads
	}
	return c.kinds[0].prompts
}

// expand returns the product that expands keys and values of prompts' tokens, including tokens before a chunk. If prompts attend to latents
// directly, it returns the tokens' absorbed products instead.
func (c *ModelCost) expand(tokens, finished int) Work {
	l := c.latent
	if tokens += finished; l == nil || tokens <= 0 {
		return Work{}
	}
	if c.absorbsPrompts(finished) {
		return c.absorb(tokens - finished)
	}
	return c.waits(c.mixed(tokens, l.query*(l.nope+l.value), l.rank, c.projections, c.keptAttention))
}
