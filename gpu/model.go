package gpu

import (
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// ModelCost costs the operations of one layer of a model on one GPU of a tensor-parallel replica (Megatron-LM's split: heads and
// feed-forward columns are divided over the GPUs, KV heads are replicated if they are fewer than GPUs, and an all-reduce follows the
// projection and the feed-forward; Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053). All methods return sustained work and do not
// allocate. They cache the latest decode batches, so a ModelCost is not safe for concurrent use.
type ModelCost struct {
	spec  *Spec
	model *llm.Model
	gpus  int // of the replica
	bits  int
	scale factors
	// products is the width of routers, networks of dense networks and shared experts, projections of the products before and after
	// attention, grouped of the experts, and uniform of the LM head and of weights that keep the model's own width.
	products, networks, projections, grouped, uniform widths
	keptAttention, keptNetwork                        float64    // shares of weights that keep the model's own width
	vocab                                             int        // columns on each GPU
	kinds                                             [2]headsOf // layers without and with a window
	windowed                                          float64    // share of layers with the heads kinds[1]; 0: all layers are alike
	feedForwards                                      []feedForward
	latent                                            *latent // nil: keys and values are stored directly
	data                                              bool    // attention is data-parallel
	indexers                                          float64 // share of layers with an indexer
	verified                                          int     // tokens verified in a decode step

	decoded [8]decodeAhead // cache for the latest batches
	// The latest argument of Select, and its result.
	selection Selection
	selecting Work
}

// headsOf is the attention shape of a kind of layers on each GPU.
type headsOf struct {
	heads, prompts Heads // of decode steps, and of prompts
	qkv, attention int   // output width of the product before attention, and input width of the one after
}

// newHeads returns the heads of layers with or without a window.
func newHeads(m *llm.Model, windowed bool) (of headsOf) {
	h := m.HeadsOf(windowed)
	query, kv := m.ShardOf(h.KV)
	of.heads = Heads{
		Query: query, KV: kv, Dim: h.Dim, ElementBits: m.ElementBits,
		KVBits: m.KVElementBits(), KVScaleBytes: m.KVScaleBytes(), KVFloat: m.KVFloat(),
	}
	if h.Value != h.Dim {
		of.heads.Value = h.Value
	}
	of.prompts, of.qkv, of.attention = of.heads, (query+kv)*h.Dim+kv*h.Value, query*h.Value
	if l := newLatent(m, query); l != nil {
		of.heads.Latent, of.prompts = true, l.prompts(m.ElementBits)
		of.qkv, of.attention = l.queries(), query*l.value
	}
	of.heads.kv, of.prompts.kv = of.heads.kvBytes(), of.prompts.kvBytes()
	return of
}

// of returns the heads of layers with or without a window.
func (c *ModelCost) of(windowed bool) *headsOf {
	if windowed && c.windowed > 0 {
		return &c.kinds[1]
	}
	return &c.kinds[0]
}

// NewModelCost returns the costs of model m, split over m.TensorParallel GPUs of the given kind. Both specifications must be valid and must
// not change.
func NewModelCost(s *Spec, m *llm.Model) *ModelCost {
	t := m.TensorParallel
	query, _ := m.ShardHeads()
	in, weights := m.ProductBits()
	expert, block := m.ExpertBitsOf()
	_, _, denseBlock := m.DenseProductBits()
	attentionIn, attention, attentionBlock := m.AttentionProductBits()
	c := &ModelCost{
		spec: s, model: m, gpus: t, bits: m.ElementBits, scale: s.Scale.factors(),
		products: widths{In: in, Weights: weights, Out: m.ElementBits}, uniform: uniform(m.ElementBits),
		networks:      widths{In: in, Weights: weights, Out: m.ElementBits, Block: denseBlock},
		projections:   widths{In: attentionIn, Weights: attention, Out: m.ElementBits, Block: attentionBlock},
		grouped:       s.served(widths{In: in, Weights: expert, Out: m.ElementBits, Block: block}),
		keptAttention: m.KeptAttention, keptNetwork: m.KeptNetwork,
		vocab:        ceilDiv(m.Vocab, t),
		feedForwards: newFeedForwards(m),
		latent:       newLatent(m, query),
		kinds:        [2]headsOf{newHeads(m, false), newHeads(m, true)},
		data:         m.DataParallel(),
		indexers:     float64(m.CountLayers("I")) / float64(m.Layers),
		verified:     1,
	}
	if c.latent != nil && !s.Latent.Absorbed && s.Latent.PrefillFP8.Compute > 0 {
		c.kinds[0].prompts.KVFloat, c.kinds[1].prompts.KVFloat = m.KVFloat(), m.KVFloat()
	}
	if m.HeadsDiffer() {
		c.windowed = float64(m.WindowedLayers()) / float64(m.Layers)
	}
	return c
}

// Verify makes each decode step verify the given number of tokens of a request: the kernels read keys and values once for all of them, as
// for a group's query heads. The causal mask among these tokens saves no work.
func (c *ModelCost) Verify(tokens int) { c.verified = tokens }

// decoding returns the heads of a batch in a decode step.
func (c *ModelCost) decoding(b *DecodeBatch) Heads {
	h := c.some(b.KVHeads, b.Windowed)
	h.Query *= c.verified
	return h
}

// QKV returns the norm, the QKV product, and the copies of new keys and values into the cache, for a batch of tokens.
func (c *ModelCost) QKV(tokens int) Work { return c.qkvParts(tokens).Total() }

// qkvParts returns norm and residual, the product that makes Q, K and V, and the copies of K and V into the cache.
func (c *ModelCost) qkvParts(tokens int) Parts { return c.meanOf(tokens, (*ModelCost).qkvOf) }

// meanOf returns parts of the mean layer, if layers with a window have other heads.
func (c *ModelCost) meanOf(tokens int, parts func(c *ModelCost, tokens int, of *headsOf) Parts) Parts {
	p := parts(c, tokens, &c.kinds[0])
	if c.windowed == 0 {
		return p
	}
	q := parts(c, tokens, &c.kinds[1])
	for i := range p {
		p[i] = p[i].mean(q[i], c.windowed)
	}
	return p
}

func (c *ModelCost) qkvOf(tokens int, of *headsOf) (p Parts) {
	tokens = c.own(tokens)
	small := c.norm(tokens).Plus(c.small(c.appended(tokens, &of.heads)))
	if c.latent != nil {
		products, norms := c.latentQKV(tokens)
		p[QKVProduct], p[SmallKernels] = c.waits(products), c.waits(small.Plus(norms))
		return p
	}
	p[QKVProduct] = c.waits(c.mixed(tokens, of.qkv, c.model.Hidden, c.projections, c.keptAttention))
	p[SmallKernels] = c.waits(small)
	return p
}

// PrefillAttention returns attention of a chunk of one request's prompt over itself and the finished tokens before it.
func (c *ModelCost) PrefillAttention(chunk, finished int) Work {
	if c.alwaysChosen() {
		return c.Chosen(wholePrompts(1, chunk, finished))
	}
	return c.prefills(c.spec.PrefillAttentionCost(1, chunk, finished, c.promptHeads(finished))).Plus(c.expand(chunk, finished))
}

// DecodeBatch returns attention of a batch of decoding requests, each over its own context (including its new token).
func (c *ModelCost) DecodeBatch(b DecodeBatch) Work {
	b = c.ownBatch(b)
	return c.Kernel(c.DecodeBatchCost(b)).Plus(c.absorb(b.Requests * c.verified))
}

// batchCost is DecodeBatchCost without the cache.
func (c *ModelCost) batchCost(b DecodeBatch) (cost Cost) {
	h := c.decoding(&b)
	if each, ok := c.choices(&b); ok {
		h.Query /= c.verified
		if h = c.spec.ofRows(h); c.spec.latentDecode(&h) != nil && !(c.alwaysChosen() && c.choosesLatents()) {
			cost = c.spec.widening(c.spec.DecodeAttentionCost(each, h), &h) // with a page table of single rows, as measured modules do
		} else {
			cost = c.spec.ChosenCost(each.Requests, each.Tokens, each.Longest, h)
		}
	} else if b.Page == 1 && c.choosesLatents() {
		cost = c.spec.ChosenCost(b.Requests, b.Tokens, b.Longest, h)
	} else if b.Page > 0 {
		if b.PerQueryHead {
			h.KV = h.Query / c.verified // all tokens of a head read the union of their choices once
		}
		cost = c.spec.PageAttentionCost(b, b.Page, h)
	} else {
		cost = c.spec.DecodeAttentionCost(b, h)
	}
	if b.Weights {
		cost = c.spec.withWeights(cost, float64(b.Tokens)*float64(h.Query))
	}
	return cost
}

// choices returns the rows that an indexer has chosen for each token of a decode step as a batch of their own, and whether b has such rows
// and the fit kernels of latents for them. Servers' kernels do not join the choices of a request's verified tokens: each attends to its own.
func (c *ModelCost) choices(b *DecodeBatch) (each DecodeBatch, ok bool) {
	k, h := c.model.IndexTopK, c.spec.ofRows(c.kinds[0].heads)
	if k == 0 || min(int64(b.Requests), b.Tokens) <= 0 || b.Page != 1 && !c.alwaysChosen() || !c.choosesLatents() && c.spec.latentDecode(&h) == nil {
		return each, false
	}
	each = DecodeBatch{Requests: b.Requests * c.verified, Longest: min(b.Longest, k), KVHeads: b.KVHeads}
	each.Tokens = min(b.Tokens, int64(b.Requests)*int64(k)) * int64(c.verified)
	return each, true
}

// ofRows returns the heads of attention over chosen rows. If the fit has no kernel for narrow latents, rows are widened on the way, and the
// kernel takes the time of 16 bits (FlashMLA's sparse FP8 kernel).
func (s *Spec) ofRows(h Heads) Heads {
	if h.Latent && h.KVFloat && s.latentDecode(&h) == nil {
		h.KVBits, h.KVScaleBytes, h.KVFloat, h.kv, h.widened = 0, 0, false, 0, true
	}
	return h
}

// some returns, for each GPU, the heads of kvHeads KV heads of layers with or without a window; 0 for all.
func (c *ModelCost) some(kvHeads int, windowed bool) Heads {
	of := c.of(windowed)
	h := of.heads
	if kvHeads > 0 {
		h.KV = ceilDiv(kvHeads, c.gpus)
		h.Query = h.KV * of.heads.group()
	}
	return h
}

// Projection returns the output projection and its all-reduce.
func (c *ModelCost) Projection(tokens int) Work { return c.projection(tokens).Total() }

// projection returns the product after attention and the all-reduce of its result.
func (c *ModelCost) projection(tokens int) Parts { return c.meanOf(tokens, (*ModelCost).projectionOf) }

func (c *ModelCost) projectionOf(tokens int, of *headsOf) (p Parts) {
	if c.data { // the result stays on its request's GPU
		p[ProjectionProduct] = c.waits(c.mixed(c.own(tokens), c.model.Hidden, of.attention, c.projections, c.keptAttention))
		return p
	}
	p[ProjectionProduct] = c.waits(c.mixed(tokens, c.model.Hidden, of.attention, c.projections, c.keptAttention))
	p[AllReduce] = c.allReduce(tokens)
	return p
}

// norm returns a norm of tokens, which also adds the residual.
func (c *ModelCost) norm(tokens int) Work {
	return c.small(c.spec.small().norm(false, tokens, c.model.Hidden, c.bits))
}

func (c *ModelCost) activation(rows, width int) Cost {
	return c.spec.small().activation(false, activationOperands(c.model.GatedFFN), rows, width, c.bits)
}

// appended costs the two kernels that write tokens' keys and values into the cache, with scales if they are narrow.
func (c *ModelCost) appended(tokens int, h *Heads) Cost {
	row := float64(elementBytes(h.stored(), h.ElementBits)) + h.kvBytes() // for one token and head, read and written
	return c.spec.small().copies(2, float64(tokens)*float64(h.KV)*row)
}

// ProjectionFFN returns Projection plus FFN: the rest of a layer after attention.
func (c *ModelCost) ProjectionFFN(tokens int) Work { return c.Projection(tokens).Plus(c.FFN(tokens)) }

// waits adds the wait of GPUs for the slowest one to work.
func (c *ModelCost) waits(w Work) Work {
	if c.gpus > 1 {
		wait := float64(c.spec.Collective.Skew * w.Clocked)
		w.Seconds += wait
	}
	return w
}

// Embedding returns the embedding of a batch of tokens. Each GPU looks up its part of the vocabulary, and an all-reduce combines the
// results.
func (c *ModelCost) Embedding(tokens int) Work { return c.embedding(tokens).Total() }

// embedding returns the look-up of the tokens' rows, which are distributed over the GPUs.
func (c *ModelCost) embedding(tokens int) (p Parts) {
	p[Embedding] = c.small(c.spec.small().lookUp(tokens, c.model.Hidden, c.bits))
	p[AllReduce] = c.allReduce(tokens)
	return p
}

// Layers returns the work of a batch of tokens without attention and the LM head: the embedding; QKV of each layer; and ProjectionFFN of
// each layer. far is the part of all layers beyond the measured range, nil for none.
func (c *ModelCost) Layers(tokens int) (embedding, qkv, rest Work, far *Extrapolated) {
	e, q, p, f := c.embedding(tokens), c.qkvParts(tokens), c.projection(tokens), c.ffnParts(tokens)
	if why := c.layersBeyond(tokens); why != [Groups]string{} {
		far = &Extrapolated{}
		far.add(&e, &why, 1)
		for _, parts := range []*Parts{&q, &p, &f} {
			far.add(parts, &why, c.model.Layers)
		}
	}
	return e.Total(), q.Total(), p.Total().Plus(f.Total()), far
}

// Head is LMHead, with its part beyond the measured range, nil for none.
func (c *ModelCost) Head(emitting int) (w Work, far *Extrapolated) {
	p := c.head(emitting)
	if why := c.headBeyond(emitting); why != [Groups]string{} {
		far = &Extrapolated{}
		far.add(&p, &why, 1)
	}
	return p.Total(), far
}

// LMHead returns the final norm, the logits of the emitting tokens, and the choice of the largest. Each GPU picks the best of its part of
// the vocabulary, and an all-reduce of index and value (8 bytes a token) decides.
func (c *ModelCost) LMHead(emitting int) Work { return c.head(emitting).Total() }

// head returns the last norm, the LM head, and the choice of a token for each emitting request, for which 8 B go over the GPUs' links.
func (c *ModelCost) head(emitting int) (p Parts) {
	if emitting <= 0 {
		return p
	}
	s := c.spec
	p[SmallKernels] = c.norm(emitting)
	p[LMHead] = c.product(emitting, c.vocab, c.model.Hidden, c.uniform).Plus(c.small(s.small().choice(emitting, c.vocab, c.bits)))
	p[AllReduce] = s.work(s.AllReduceCost(c.gpus, units.Bytes(8*emitting))).scaled(c.scale.allReduce)
	return p
}

// allReduce returns the all-reduce of tokens' hidden states over the replica's GPUs.
func (c *ModelCost) allReduce(tokens int) Work {
	return c.spec.work(c.spec.AllReduceCost(c.gpus, c.summed(tokens))).scaled(c.scale.allReduce)
}

// summed returns the bytes of tokens' hidden states.
func (c *ModelCost) summed(tokens int) units.Bytes {
	return units.Bytes(elementBytes(float64(tokens)*float64(c.model.Hidden), c.bits))
}
