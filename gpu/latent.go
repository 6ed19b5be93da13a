package gpu

import "github.com/l3sim/l3sim/llm"

// latent is what a GPU of a replica has of latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1): its query
// heads' products around attention. One token's latent and rotated key are key and value of all heads. A decode step attends to them
// (absorbed: each head's query is multiplied by the half of its matrix that would make keys, its output by the half that would make
// values); a prompt makes keys and values of all its tokens first, those of tokens that were finished before anew, as vLLM and
// TensorRT-LLM do.
type latent struct {
	query           int       // heads
	rank, queryRank int       // of latents, and between the two products that make queries; 0: one product
	nope, value     int       // elements of a head's key that are not rotated, and of its value
	rope            int       // elements of a key that are rotated
	kept            [2][]Work // of headProducts, by tokens
	anew            bool      // nothing is kept
}

const mostKept = 1 << 12 // tokens of a product that is kept: more than a decode step has

// newLatent returns the part of one GPU with so many query heads; nil for a model without latents.
func newLatent(m *llm.Model, query int) *latent {
	if m.LatentDim == 0 {
		return nil
	}
	return &latent{query: query, rank: m.LatentDim, queryRank: m.QueryRank, nope: m.NopeDim, value: m.ValueDim, rope: m.RopeDim()}
}

// queries returns the elements of all queries of a token.
func (l *latent) queries() int { return l.query * (l.nope + l.rope) }

// prompts returns the heads of prompts, whose keys and values have the width of activations.
func (l *latent) prompts(elementBits int) Heads {
	return Heads{Query: l.query, KV: l.query, Dim: l.nope + l.rope, Value: l.value, ElementBits: elementBits, Expanded: true}
}

// latentQKV returns the products that make queries and the latent of tokens, and the norms of what is between two of them. What leads
// down to the ranks is one product, which every GPU does whole.
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

// AbsorbKeys returns the batched product before a decode step of that many requests that another device attends for: each head's query by
// nope × rank. AbsorbValues is the one behind it: each head's output by rank × value. Nothing without latents.
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

// headProducts returns one of the two batched products of tokens. Those of few tokens, as decode steps have, are kept.
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

// Anew has each product of latents computed anew: none is kept. Costs are the same.
func (c *ModelCost) Anew() {
	if c.latent != nil {
		c.latent.anew = true
	}
}

// costHeadProducts computes headProducts. Where the fit has no such kernels, it is a grouped product whose matrices have the width of
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

// absorbedBits returns the width of the factors of batched products that the fit has kernels of, 0 where it has none: FP8 for a checkpoint
// whose projections all are, else the width of activations, to which frameworks without such kernels widen the matrices when they load them.
func (c *ModelCost) absorbedBits() int {
	switch l, w := &c.spec.Latent, c.projections; {
	case c.spec.Suite != SuiteServer:
		return 0
	case w.In == 8 && w.Weights == 8 && c.keptAttention == 0 && l.ProductsFP8.Compute > 0:
		return 8
	case l.Products.Compute > 0:
		return c.bits
	}
	return 0
}

// StoreValuesApart has decode attention over latents cost what units take that store each latent again as a value (llm.Model.ValueCopyBytes) and
// read the key and the value for so many query heads at once. The GPUs' kernel reads a latent once for all of them. Other models stay as they are.
func (c *ModelCost) StoreValuesApart(queries int) {
	if c.latent == nil {
		return
	}
	for i := range c.kinds {
		h := &c.kinds[i].heads
		h.Latent, h.Query, h.kv = false, h.KV*min(queries, h.group()), h.kvBytes()+float64(c.model.ValueCopyBytes())
	}
}

// choosesLatents says that the fit has kernels of attention over chosen rows of latents.
func (c *ModelCost) choosesLatents() bool {
	return c.latent != nil && c.spec.Suite == SuiteServer && c.spec.Latent.Chosen.Compute > 0
}

// expand returns the product that makes the keys and values of prompts' tokens, of those before a chunk, too. Where prompts attend to the
// latents themselves, it returns the absorbed products of the tokens.
func (c *ModelCost) expand(tokens, finished int) Work {
	l := c.latent
	if tokens += finished; l == nil || tokens <= 0 {
		return Work{}
	}
	if c.spec.Latent.Absorbed {
		return c.absorb(tokens - finished)
	}
	return c.waits(c.mixed(tokens, l.query*(l.nope+l.value), l.rank, c.projections, c.keptAttention))
}
