package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/llm"
)

// meter returns a GPU on which only bytes take time or energy: kernels reach a quarter of the memory's 8 B/s, and links carry 2 B/s. It
// draws a joule a byte.
func meter(t *testing.T) *Spec {
	s := *loadPreset(t, "h200-sxm")
	s.MemoryBandwidth, s.Peak16, s.Peak8 = 8, 1e30, 1e30
	const share = 0.25
	all := Efficiency{Compute: 1, Memory: share}
	s.MatMul = GEMMSpec{Model: GEMMTiles, Tiling: Tiling{Efficiency: all}}
	s.Prefill.Efficiency, s.Prefill.KVTraffic, s.Prefill.SplitLimit, s.Prefill.MergeRow = all, 1, 0, 0
	s.Prefill.QueryRows = 1 // so that no chunk is computed as decode steps, which would read its own tokens from a narrow cache
	s.Extend = ExtendSpec{Efficiency: all, BlockBandwidth: 1e30, BlocksPerSM: 1, SplitKeys: 1, MaxSplits: 1}
	s.Decode = DecodeSpec{Model: AttentionFlash, Efficiency: all, QueryRows: 1, UnsplitRows: 1, BlocksPerSM: 1, MaxSplits: 1, SplitKeys: 1, BlockBandwidth: 1e30}
	s.Pointwise = ElementwiseSpec{Model: ElementwiseRoofline, Memory: share, ActivationMemory: share}
	s.Fused = FusedSpec{Norm: share, Activation: share, Copy: share}
	s.Collective = AllReduceSpec{Model: AllReduceMeasured, Method: AllReduceNCCL, Protocols: Protocols{FlaggedBandwidth: 2, Bandwidth: 2}}
	s.PageSparse = PageSparseSpec{VectorPeak: 1e30, Vector: 1, BlockShare: 1, Efficiency: all, BlockBandwidth: 1e30}
	s.NarrowKV = NarrowKVSpec{}
	s.MatMul.Narrow = 1
	s.Power = PowerSpec{PerByte: 1e12}
	return &s
}

// drawModel returns a model on up to four GPUs.
func drawModel(t *rapid.T) *llm.Model {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	of := func(name string, of ...int) int { return rapid.SampledFrom(of).Draw(t, name) }
	m := &llm.Model{
		TensorParallel: of("GPUs", 1, 2, 4), Layers: number("layers", 1, 9), Hidden: 8 * number("hidden", 1, 999), HeadDim: 8 * number("head dim", 1, 32),
		FFNHidden: 4 * number("FFN", 1, 999), GatedFFN: rapid.Bool().Draw(t, "gated"), Vocab: 4 * number("vocab", 1, 9999), ElementBits: of("bits", 8, 16),
	}
	m.KVHeads = m.TensorParallel * number("KV heads a GPU", 1, 9)
	m.Heads = m.KVHeads * number("group", 1, 8)
	m.KVBits, m.KVScales = of("KV bits", 0, 4, 8, 16), rapid.SampledFrom([]llm.KVScales{llm.TokenScales, llm.TensorScales}).Draw(t, "scales")
	m.WeightBits = of("weight bits", 0, 4, 8)
	if rapid.Bool().Draw(t, "mixture") {
		m.Experts = number("experts", 2, 40)
		m.ActiveExperts = number("active experts", 1, m.Experts)
		m.SharedFFN = m.TensorParallel * of("shared columns", 0, 96)
		if m.Layers > 1 {
			m.DenseLayers = number("dense layers", 0, m.Layers-1)
		}
		if m.DenseLayers > 0 {
			m.DenseFFN = 4 * number("dense columns", 1, 999)
		}
	}
	if m.ElementBits == 16 {
		m.ActivationBits = of("activation bits", 0, 8, 16)
	}
	return m
}

// bytesOf computes the bytes that each of a model's GPUs moves from the shapes of kernels' inputs and outputs.
type bytesOf struct {
	e, in, w float64 // bytes of an element: activations, inputs of products, weights
	kv       float64 // of a token's key and value in the cache, for one head
	// Sizes on a GPU, including query and KV heads.
	gpus, hidden, query, heads, dim, ffn, up, vocab float64
	attAcc                                          bool // as in AttAcc's simulator
}

func bytesFor(m *llm.Model, attAcc bool) *bytesOf {
	or := func(bits int) float64 {
		if bits == 0 {
			bits = m.ElementBits
		}
		return float64(bits) / 8
	}
	gpus := float64(m.TensorParallel)
	b := &bytesOf{
		e: or(0), in: or(m.ActivationBits), w: or(m.WeightBits), gpus: gpus, hidden: float64(m.Hidden), dim: float64(m.HeadDim), attAcc: attAcc,
		query: float64(m.Heads) / gpus, heads: float64(m.KVHeads) / gpus, ffn: float64(m.FFNHidden) / gpus, vocab: float64(m.Vocab) / gpus,
	}
	b.kv, b.up = 2*b.dim*or(m.KVBits), b.ffn
	if m.KVBits != 0 && m.KVBits < 16 && m.KVScales == llm.TokenScales {
		b.kv += 2 * 2 * 2 // a scale and a zero of key and value, of 16 bits each
	}
	if m.GatedFFN {
		b.up *= 2
	}
	return b
}

// product returns the bytes of multiplying rows by a matrix of k rows and n columns, whose weights are read once.
func (b *bytesOf) product(rows, k, n float64) float64 { return rows*k*b.in + k*n*b.w + rows*n*b.e }

// reduce returns the bytes that a GPU sends to sum bytes over all GPUs: scattering the sums, then gathering them.
func (b *bytesOf) reduce(bytes float64) float64 {
	rounds := 2.0
	if b.attAcc {
		rounds = 1
	}
	return rounds * (b.gpus - 1) / b.gpus * bytes
}

// norm returns the bytes of adding to the residual stream and normalising: it reads both and writes both. AttAcc's norm writes one.
func (b *bytesOf) norm(rows float64) float64 {
	if b.attAcc {
		return 3 * rows * b.hidden * b.e
	}
	return 4 * rows * b.hidden * b.e
}

// copies returns bytes that AttAcc's simulator leaves out.
func (b *bytesOf) copies(bytes float64) float64 {
	if b.attAcc {
		return 0
	}
	return bytes
}

// queries returns the bytes of a query and an output for each request and query head.
func (b *bytesOf) queries(requests, query float64) float64 { return 2 * requests * query * b.dim * b.e }

// dense returns the bytes of a network with the given columns on a GPU.
func (b *bytesOf) dense(rows, columns float64) float64 {
	up := b.up / b.ffn * columns
	return b.product(rows, b.hidden, up) + rows*(up+columns)*b.e + b.product(rows, columns, b.hidden)
}

// network returns the bytes of the feed-forward part of the mean layer: a network, or a mixture of experts in some or all layers.
func (b *bytesOf) network(m *llm.Model, rows float64) float64 {
	if m.Experts == 0 {
		return b.dense(rows, b.ffn)
	}
	experts, active := float64(m.Experts), float64(m.ActiveExperts)
	pairs, touched := rows*active, experts*(1-math.Pow(1-active/experts, rows))
	matrices := touched * (b.hidden*b.up + b.ffn*b.hidden) * b.w
	router := b.product(rows, b.hidden, experts) + 2*rows*experts*b.e + 2*pairs*4 // and softmax; indices of 4 bytes are sorted
	first := rows*b.hidden*b.in + pairs*b.up*b.e
	second := pairs*(b.up+b.ffn)*b.e + pairs*b.ffn*b.in + pairs*b.hidden*b.e
	mixture := router + matrices + first + second + (active+1)*rows*b.hidden*b.e // the weighted sum
	if m.SharedFFN > 0 {
		mixture += b.dense(rows, float64(m.SharedFFN)/b.gpus) + rows*b.hidden*b.e
	}
	dense := float64(m.DenseLayers) / float64(m.Layers)
	return (1-dense)*mixture + dense*b.dense(rows, float64(m.DenseFFN)/b.gpus)
}

// TestBytes: the bytes that each kind of kernel moves on each GPU, in memory or over links, are those of its inputs, weights and outputs.
func TestBytes(t *testing.T) {
	s, attAcc := meter(t), *loadPreset(t, "a100-paper")
	attAcc.Power = PowerSpec{PerByte: 1e12}
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		n := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		rows, chunk, finished, prompts, requests := n("tokens", 1, 3000), n("chunk", 2, 3000), n("finished", 0, 9000), n("prompts", 2, 9), n("requests", 1, 300)
		batch := DecodeBatch{Requests: requests, Tokens: int64(n("contexts", requests, 1<<20)), Longest: 1}
		page, some, keep := 1<<n("log page", 0, 7), n("KV heads that attend", 1, m.KVHeads), n("keep", 1, 100)
		sparse, each, weighed := batch, batch, batch
		sparse.KVHeads, sparse.Page = some, page
		each.KVHeads, each.Page, each.PerQueryHead = some, page, true
		weighed.KVHeads, weighed.Weights = some, true
		groups := []Shared{{n("group", 1, 99), n("shared", 1, 9999)}, {n("other group", 1, 99), n("shared by others", 1, 9999)}}
		scored := DecodeBatch{Requests: requests, Tokens: int64(n("pages", requests, 1<<16)), Longest: 1, KVHeads: some}
		const score, index = 4, 8
		for _, spec := range []*Spec{s, &attAcc} {
			c, b := NewModelCost(spec, m), bytesFor(m, spec == &attAcc)
			r, q, p, tokens, pages, k := float64(rows), float64(requests), float64(chunk), float64(batch.Tokens), float64(scored.Tokens), float64(keep)
			kvHeads := math.Ceil(float64(some) / b.gpus) // on the GPU with the most
			query := kvHeads * b.query / b.heads
			sharing, shared := float64(groups[0].Requests+groups[1].Requests), float64(groups[0].Tokens+groups[1].Tokens)
			prompt := b.queries(p, b.query) + p*b.heads*2*b.dim*b.e + float64(finished)*b.heads*b.kv
			bounds := pages * kvHeads * 2 * b.dim * 2 // smallest and largest key of each page, of 16 bits
			sums := b.reduce(r * b.hidden * b.e)
			attention := c.Attention()
			for _, x := range []struct {
				kernel string
				got    Work
				want   float64
			}{
				{"QKV", c.QKV(rows), b.norm(r) + b.product(r, b.hidden, (b.query+2*b.heads)*b.dim) + b.copies(r*b.heads*(2*b.dim*b.e+b.kv))},
				{"prompt", c.PrefillAttention(chunk, finished), prompt},
				{"prompts", attention.Prompts(prompts, chunk, finished, 0), float64(prompts) * prompt},
				{"some heads of prompts", attention.Prompts(prompts, chunk, finished, some), float64(prompts) * prompt * kvHeads / b.heads},
				{"decode", c.DecodeBatch(batch), b.queries(q, b.query) + tokens*b.heads*b.kv},
				{"decode with weights", c.DecodeBatch(weighed), b.queries(q, query) + tokens*kvHeads*b.kv + tokens*query*score},
				{"pages", c.DecodeBatch(sparse), b.queries(q, query) + tokens*kvHeads*b.kv + tokens/float64(page)*kvHeads*4},
				{"pages of each query head", c.DecodeBatch(each), b.queries(q, query) + tokens*query*b.kv + tokens/float64(page)*query*4},
				{"shared", c.Kernel(c.SharedCost(groups)), b.queries(sharing, b.query) + shared*b.heads*b.kv},
				{"merge of two", c.Merge(requests), q * b.query * (3*b.dim*b.e + 2*4)},
				{"merge of parts", c.MergeParts(requests, requests+7), q*b.query*b.dim*b.e + (q+7)*b.query*(b.dim*b.e+4)},
				{"pass", c.Pass(2, 1000, 0), 1000 / b.gpus},
				{"choice", c.Select(Selection{PageScores{Pages: scored}, scored, keep}), bounds + 2*pages*kvHeads*score + q*kvHeads*k*(score+index)},
				{"choice of each query head", c.Select(Selection{PageScores{Pages: scored, PerQueryHead: true}, scored, keep}), bounds + 2*pages*query*score + q*query*k*(score+index)},
				{"projection", c.Projection(rows), b.product(r, b.query*b.dim, b.hidden) + sums},
				{"feed-forward", c.FFN(rows), b.norm(r) + b.network(m, r) + sums},
				{"embedding", c.Embedding(rows), 2*r*b.hidden*b.e + sums},
				{"head", c.LMHead(rows), b.norm(r) + (r*b.hidden+b.hidden*b.vocab+r*b.vocab)*b.e + b.copies(r*b.vocab*b.e) + b.reduce(8*r)},
				{"outputs side by side", c.joined(rows), b.copies(2 * r * b.query * b.dim * b.e)},
			} {
				if !near(x.got.Dynamic, x.want) || !b.attAcc && !near(2*x.got.Seconds, x.want) {
					t.Fatalf("%s moves %g bytes in %g s, want %g (%+v)", x.kernel, x.got.Dynamic, x.got.Seconds, x.want, m)
				}
			}
		}
	})
}
