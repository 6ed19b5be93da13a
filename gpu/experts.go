package gpu

import (
	"math"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units/portable"
)

// expertLoad is the distribution of a batch's tokens over the experts of a layer.
type expertLoad struct {
	Pairs   int     // pairs of a token and one of its experts: rows of all experts
	Touched float64 // expected number of experts with at least one token
}

// newExpertLoad returns the expected load of a batch whose tokens each take active experts, independently of each other: an expert with
// share p has no token with probability (1−p)^tokens.
func newExpertLoad(shares []llm.ExpertShare, active, tokens int) expertLoad {
	l := expertLoad{Pairs: tokens * active}
	for _, s := range shares {
		l.Touched += float64(float64(s.Experts) * (1 - portable.Pow(1-s.Share, float64(tokens))))
	}
	return l
}

// rows returns the mean rows of an expert with tokens, rounded up. Tiny excesses, from the expectation of experts without tokens (1e-8 of
// one with 64 tokens and 8 experts), do not add a row.
func (l expertLoad) rows() int { return int(math.Ceil(float64(l.Pairs)/l.Touched - 1e-5)) }

// groupedCost returns the cost of one kernel that multiplies each token's row by its experts' k×n matrices, like the fused and grouped
// kernels of servers (MegaBlocks, Gale et al. 2022, https://arxiv.org/abs/2211.15841; vLLM's fused_moe). inputs is the number of rows of k
// elements that it reads: the tokens', or the pairs'.
//
// Its thread blocks are those of one product: an expert's rows, padded to tiles, by the columns of all touched experts side by side. It
// thus has one overhead, its blocks share the SMs, and it equals GEMMCost for one expert that every token takes. The bytes are those of
// touched experts, inputs and outputs. All experts count the mean load: an expert wastes half a tile on average, whatever its rows.
func (s *Spec) groupedCost(l expertLoad, inputs, n, k int, w widths) Cost {
	if l.Pairs <= 0 || n <= 0 || k <= 0 {
		return Cost{}
	}
	pairs, fn, fk := float64(l.Pairs), float64(n), float64(k)
	bytes := w.bytes(float64(inputs)*fk, l.Touched*fn*fk, pairs*fn)
	width := int(math.Ceil(l.Touched * fn))
	base := Cost{FLOPs: 2 * pairs * fn * fk, Bytes: bytes, Overhead: s.MatMul.Overhead.Seconds()}
	return s.by(s.MatMul.Model).product(base, l.rows(), width, k, w.rate())
}

// mixture returns the work of the experts for a batch: the router's product, its softmax and choice, sorting pairs by expert, both grouped
// products with the activation between, and the weighted sum of each token's outputs. Each GPU has the whole router, and either its columns
// of every expert (tensor parallelism) or some whole experts (expert parallelism). The sum includes the output of shared experts.
func (c *ModelCost) mixture(f *feedForward, tokens int) Work {
	if tokens <= 0 {
		return Work{}
	}
	all, routed := tokens, tokens // routed: tokens for which a GPU chooses experts and sums results
	if c.model.WholeNetworks() {
		routed = c.own(tokens)
	}
	s, hidden, active := c.spec, c.model.Hidden, f.active
	loadedHidden, loadedFFN := c.model.LoadedExpert() // kernels also read and multiply the padding of tiles
	l, inputs := newExpertLoad(f.experts, active, all), all
	if f.dealt != nil {
		l = f.dealt.load(active, all)
		inputs = min(all, l.Pairs)
	}
	router := c.product(routed, c.model.Experts, hidden, c.products).Plus(c.small(s.Elementwise(2, routed, c.model.Experts, c.bits)))
	if c.MeasuredExperts() {
		return router.Plus(c.experts(f, l, all, inputs))
	}
	const index = 32 // bits of an index of a token
	grouped := func(inputs, n, k int) Work {
		of := func(w widths) Work { return s.work(s.groupedCost(l, inputs, n, k, w)).scaled(c.scale.products) }
		if c.keptNetwork == 0 {
			return of(c.grouped)
		}
		return of(c.grouped).mean(of(c.uniform), c.keptNetwork)
	}
	added := active + 1 // rows read and written
	if f.shared > 0 {
		added++
	}
	w := router
	for _, k := range [...]Work{
		c.small(s.Elementwise(2, routed, active, index)),
		grouped(inputs, (c.model.FFNMatrices()-1)*loadedFFN, loadedHidden), c.small(c.activation(l.Pairs, f.width)),
		grouped(l.Pairs, loadedHidden, loadedFFN), c.small(s.Elementwise(added, routed, hidden, c.bits)),
	} {
		w = w.Plus(k)
	}
	return w
}

// MeasuredExperts reports whether the fit has kernels for the model's experts.
func (c *ModelCost) MeasuredExperts() bool {
	s := c.spec
	return s.expertKernels(c.grouped) != nil && (c.keptNetwork == 0 || s.expertKernels(c.uniform) != nil)
}

// experts returns the work by the fit's own expert kernels, from routed tokens to the weighted sum.
func (c *ModelCost) experts(f *feedForward, l expertLoad, tokens, inputs int) Work {
	hidden, width := c.model.LoadedExpert()
	load := ExpertLoad{Tokens: inputs, All: float64(tokens) * float64(f.active), Pairs: float64(l.Pairs), Touched: l.Touched}
	shares, busy := f.experts, 1.0 // busy: rows of the GPU, relative to the expectation of its experts
	if f.dealt != nil {
		shares, busy = f.dealt.shares, load.Pairs/float64(float64(tokens)*f.dealt.mean)
	}
	load.spread(shares, tokens, busy)
	x := Experts{Hidden: hidden, Width: width, Matrices: c.model.FFNMatrices()}
	of := func(w widths) Work {
		return c.spec.work(c.spec.expertKernels(w).cost(c.spec, &load, x, w)).scaled(c.scale.products)
	}
	if c.keptNetwork == 0 {
		return of(c.grouped)
	}
	return of(c.grouped).mean(of(c.uniform), c.keptNetwork)
}
