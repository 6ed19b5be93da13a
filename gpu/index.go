package gpu

import (
	"cmp"

	"github.com/l3sim/l3sim/llm"
)

// Indexer kernels on every GPU (DeepGEMM's fp8_mqa_logits): each block has the queries of one or more tokens, all heads of each, and passes
// over the keys.
const (
	indexRows    = 128 // query rows of a block's tile: tokens by index heads
	indexMinRows = 64  // of a tile that one token's heads do not fill (wgmma m64)
	indexBits    = 8   // of queries and keys
)

// IndexScoreCost returns the cost of an indexer's scores in one layer on one GPU, which has all index heads: Σ w · ReLU(q · k), one number
// for each pair. A decode step's contexts are split into parts that fill the GPU; a prompt's blocks pass over all keys visible to them.
func (s *Spec) IndexScoreCost(x llm.Indexing, heads, dim, keyBytes int) Cost {
	if x.Pairs <= 0 {
		return Cost{}
	}
	p := &s.PageSparse
	rows := x.Queries * heads // for each request
	padded := ceilDiv(rows, indexRows) * indexRows
	if rows <= indexMinRows {
		padded = indexMinRows
	}
	rate := p.Compute * s.peak(indexBits)
	pair := 2 * float64(dim) * float64(padded) / float64(x.Queries)
	c := Cost{
		FLOPs: 2 * float64(dim) * float64(heads) * float64(x.Pairs), Executed: pair * float64(x.Pairs) / 2, Overhead: p.Overhead.Seconds(),
		Bytes: float64(float64(x.Keys)*float64(keyBytes)) + float64(scoreBytes*float64(x.Pairs)) + float64(float64(x.Requests)*float64(x.Queries)*float64(heads)*float64(dim)),
	}
	switch {
	case x.Step && s.Index.StepScores.Compute > 0:
		return s.stepScores(c, x, heads, dim)
	case !x.Step && s.Index.Scores.Compute > 0:
		return s.promptScores(c, x, heads, dim)
	}
	c.Compute = pair * float64(x.Pairs) / rate
	c.Memory = c.Bytes / s.pageBandwidth()
	if x.Queries > 1 && !x.Step {
		c.Latency = 2 * float64(dim) * indexRows * float64(x.Longest) / (rate / float64(s.SMs)) // of a block
	}
	return c.combine(p.Ridge)
}

// Index returns the work of the indexer's kernels, which score and choose. Every GPU of the replica runs all of it.
func (c *ModelCost) Index(x llm.Indexing) Work {
	if x.Pairs <= 0 {
		return Work{}
	}
	m := c.model
	if n := c.gpus; c.data && x.Requests > 1 { // decode: requests of the GPU with the most
		x.Requests = ceilDiv(x.Requests, n)
		x.Keys, x.Pairs = max((x.Keys+int64(n)-1)/int64(n), int64(x.Longest)), max((x.Pairs+int64(n)-1)/int64(n), int64(x.Longest))
	}
	scores := c.spec.IndexScoreCost(x, m.IndexHeads, m.IndexDim, int(m.IndexBytes()))
	return c.waits(c.spec.work(scores).Plus(c.spec.work(c.spec.IndexTopKCost(x, false))).scaled(c.scale.decode))
}

// Chosen returns attention of prompts' tokens over rows that an indexer has chosen for each, including the absorbed products before and
// after. Servers that have a kernel of decode steps for the cache's elements but none for prompts, as of FP8, take it for prompts, too.
func (c *ModelCost) Chosen(x llm.Chosen) Work {
	if x.Rows <= 0 {
		return Work{}
	}
	h := c.spec.ofRows(c.kinds[0].heads) // of FP8 only with a kernel of decode steps for it
	if c.choosesLatents() && (!h.KVFloat || c.alwaysChosen()) {
		return c.prefills(c.spec.ChosenCost(x.Tokens, x.Rows, x.Longest, h)).Plus(c.absorb(x.Tokens))
	}
	if c.spec.latentDecode(&h) != nil { // each token a request of its rows
		h.prompt = true
		return c.prefills(c.spec.DecodeAttentionCost(DecodeBatch{Requests: x.Tokens, Tokens: x.Rows, Longest: x.Longest}, h)).Plus(c.absorb(x.Tokens))
	}
	b := DecodeBatch{Requests: x.Tokens, Tokens: x.Rows, Longest: x.Longest, Page: 1}
	return c.prefills(c.spec.PageAttentionCost(b, 1, c.kinds[0].heads)).Plus(c.absorb(x.Tokens))
}

// indexProducts returns an indexer's products for tokens, all of which each GPU computes, for the mean layer: queries from the vector of
// query_rank; the key and the heads' weights, in one product, from the hidden state; and the norm of the key.
func (c *ModelCost) indexProducts(tokens int) (products, norm Work) {
	m := c.model
	if c.indexers == 0 {
		return Work{}, Work{}
	}
	queries := c.mixed(tokens, m.IndexHeads*m.IndexDim, cmp.Or(m.QueryRank, m.Hidden), c.projections, c.keptAttention)
	of := c.projections
	if c.spec.Index.WideKeys {
		of = c.uniform
	}
	rest := c.mixed(tokens, m.IndexDim+m.IndexHeads, m.Hidden, of, c.keptAttention)
	norm = c.small(c.spec.small().norm(false, tokens, m.IndexDim, c.bits)).Plus(c.small(c.spec.small().copies(1, float64(tokens)*2*float64(m.IndexBytes()))))
	if x := &c.spec.Index; tokens > 0 {
		more := x.SmallOverhead.Seconds() + float64(float64(tokens)*x.SmallTime.Seconds())
		norm = norm.Plus(c.spec.work(Cost{Overhead: more, Seconds: more}))
	}
	return Work{}.mean(queries.Plus(rest), c.indexers), Work{}.mean(norm, c.indexers)
}
