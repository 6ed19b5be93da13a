package gpu

import (
	"math"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units/portable"
)

// expertLoad is how the tokens of a batch are dealt to the experts of a layer.
type expertLoad struct {
	Pairs   int     // of a token and an expert that it takes: rows of all experts
	Touched float64 // experts that at least one token takes, in expectation
}

// newExpertLoad returns the expected load of a batch whose tokens take active experts
// each, independently of each other: an expert of share p is left untouched by all
// tokens with the probability (1−p)^tokens.
func newExpertLoad(shares []llm.ExpertShare, active, tokens int) expertLoad {
	l := expertLoad{Pairs: tokens * active}
	for _, s := range shares {
		l.Touched += float64(float64(s.Experts) * (1 - portable.Pow(1-s.Share, float64(tokens))))
	}
	return l
}

// rows returns the rows of a mean touched expert, rounded up. What is left of an untouched expert
// in expectation (1e-8 of one with 64 tokens and 8 experts) begins no row.
func (l expertLoad) rows() int { return int(math.Ceil(float64(l.Pairs)/l.Touched - 1e-5)) }

// groupedCost returns the cost of the products of one kernel that multiplies each
// token's row by the k×n matrices of its experts, as fused and grouped kernels of
// servers do (MegaBlocks, Gale et al. 2022, https://arxiv.org/abs/2211.15841; vLLM's
// fused_moe). Inputs are the rows of k elements that it reads: the tokens', or the pairs'.
//
// Its thread blocks are those of one product: of the rows of an expert, padded to tiles,
// by the columns of all touched experts side by side. So it has one overhead, its blocks
// share the SMs, and one expert that every token takes is GEMMCost. The bytes are those
// of the touched experts, the inputs and the outputs. Loads of experts differ: each
// wastes half a tile in the mean, whatever its rows, so all have those of the mean.
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

// mixture returns what the experts take of a batch: the router's product, its softmax
// and choice, the sorting of pairs by expert, both grouped products with the activation
// between, and the weighted sum of each token's outputs. Each GPU has the router whole
// and its columns of every expert, as of a dense network (tensor parallelism), or some experts whole
// (expert parallelism). The sum has the output of shared experts, too.
func (c *ModelCost) mixture(f *feedForward, tokens int) Work {
	if tokens <= 0 {
		return Work{}
	}
	all, routed := tokens, tokens // routed: tokens whose experts a GPU chooses, and whose results it adds up
	if c.model.WholeNetworks() {
		routed = c.own(tokens)
	}
	s, hidden, active := c.spec, c.model.Hidden, f.active
	loadedHidden, loadedFFN := c.model.LoadedExpert() // kernels read and multiply what pads the tiles, too
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
	added := active + 1 // read and written
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

// MeasuredExperts says that the fit has kernels of the model's experts.
func (c *ModelCost) MeasuredExperts() bool {
	s := c.spec
	return s.expertKernels(c.grouped) != nil && (c.keptNetwork == 0 || s.expertKernels(c.uniform) != nil)
}

// experts returns what the fit's own kernels of experts take, from tokens that know their experts to the weighted sum.
func (c *ModelCost) experts(f *feedForward, l expertLoad, tokens, inputs int) Work {
	hidden, width := c.model.LoadedExpert()
	load := ExpertLoad{Tokens: inputs, All: float64(tokens) * float64(f.active), Pairs: float64(l.Pairs), Touched: l.Touched}
	shares, busy := f.experts, 1.0 // busy: rows of the GPU, in rows that its experts expect
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
