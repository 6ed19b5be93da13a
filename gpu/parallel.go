package gpu

import (
	"math"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units/portable"
)

// own returns the number of a batch's tokens on the GPU with the most, if each GPU has its own requests: they are distributed evenly.
func (c *ModelCost) own(tokens int) int {
	if c.data {
		return ceilDiv(tokens, c.gpus)
	}
	return tokens
}

// ownBatch returns the part of a batch on the GPU with the most requests: its contexts have the mean length of all, or one is the longest.
func (c *ModelCost) ownBatch(b DecodeBatch) DecodeBatch {
	if c.data && b.Requests > 0 {
		b.Requests = ceilDiv(b.Requests, c.gpus)
		b.Tokens = max((b.Tokens+int64(c.gpus)-1)/int64(c.gpus), int64(b.Longest))
	}
	return b
}

// spread returns the time that a prompt adds to attention, if each GPU has its own requests. All prompts together take at least the longest
// one's time on its GPU, and at least their mean over all GPUs.
func (a *Attention) spread(w Work) Work {
	c := a.cost
	if !c.data || w.Seconds == 0 {
		return w
	}
	a.sum, a.most = a.sum+w.Seconds, max(a.most, w.Seconds)
	took := max(a.most, a.sum/float64(c.gpus))
	more := max(took-a.took, 0)
	a.took = took
	return Work{Seconds: more, Clocked: float64(more / w.Seconds * w.Clocked), Dynamic: w.Dynamic / float64(c.gpus)}
}

// dealtExperts are the experts of the GPU with the most rows, when experts are assigned in the order of their popularity.
type dealtExperts struct {
	shares []llm.ExpertShare
	gpus   int
	mean   float64 // mean rows for each token
	spread float64 // variance of these rows, as if GPUs did not compete for a token's rows
}

// dealExperts returns the experts of the GPU that gets the first expert.
func dealExperts(shares []llm.ExpertShare, gpus int) *dealtExperts {
	d, rank, experts := &dealtExperts{gpus: gpus}, 0, 0
	for _, s := range shares {
		experts += s.Experts
	}
	for _, s := range shares {
		n := (rank+s.Experts+gpus-1)/gpus - (rank+gpus-1)/gpus // of the ranks 0, gpus, 2 gpus, ...
		if rank += s.Experts; n == 0 {
			continue
		}
		d.shares = append(d.shares, llm.ExpertShare{Experts: n, Share: s.Share})
		d.mean += float64(float64(n) * s.Share)
		d.spread += float64(float64(n) * s.Share * (1 - s.Share) * float64(experts) / float64(max(1, experts-1)))
	}
	return d
}

// load returns the expected rows of the GPU with the most, and the number of its experts that tokens take.
func (d *dealtExperts) load(active, tokens int) expertLoad {
	l := newExpertLoad(d.shares, 0, tokens)
	rows := float64(float64(tokens)*d.mean) + float64(largestOf(d.gpus)*math.Sqrt(float64(tokens)*d.spread))
	held := 0
	for _, s := range d.shares {
		held += s.Experts
	}
	l.Pairs = min(int(math.Ceil(rows)), tokens*min(active, held))
	return l
}

// largest are the expected maxima of 1, 2, 4 and so on standard normal variates (Harter, Biometrika 48, 1961).
var largest = [...]float64{0, 0.5641895835, 1.0293753730, 1.4236003060, 1.7659913931, 2.0696688279, 2.3437334, 2.5945973}

// largestOf returns the expected maximum of n standard normal variates: linear in the logarithm of n between powers of two.
func largestOf(n int) float64 {
	i := portable.Log(float64(max(n, 1))) / portable.Log(2)
	low := min(int(i), len(largest)-2)
	return largest[low] + float64((i-float64(low))*(largest[low+1]-largest[low]))
}

// allToAll returns the exchange of tokens with the GPUs of their experts. A GPU sends each of its tokens once to every other GPU with one
// of its experts, in the width of the products' inputs, and receives as many results. Low-latency kernels, if the fit has them, send a
// token separately to each of its experts.
func (c *ModelCost) allToAll(f *feedForward, tokens int) (dispatch, combine Work) {
	n, own := float64(c.gpus), float64(c.own(tokens))
	if c.gpus <= 1 || tokens <= 0 {
		return Work{}, Work{}
	}
	t := &c.spec.Collectives
	to := (n - 1) * (1 - portable.Pow(1-1/n, float64(f.active)))
	elements := own * to * float64(c.model.Hidden)
	work := func(cost Cost) Work { return c.spec.work(cost).scaled(c.scale.allReduce) }
	if t.Dispatch != (ExchangeSpec{}) && t.Combine != (ExchangeSpec{}) {
		x := Exchange{GPUs: c.gpus, Pairs: own * float64(f.active), Most: float64(f.dealt.load(f.active, tokens).Pairs)}
		for _, s := range f.experts {
			x.Experts += s.Experts
		}
		back := x
		x.PairBytes, back.PairBytes = MessageBytes(c.model.Hidden, c.products.In), MessageBytes(c.model.Hidden, c.bits)
		return work(c.spec.ExchangeCost(&t.Dispatch, x)), work(c.spec.ExchangeCost(&t.Combine, back))
	}
	p := &c.spec.Collective.Protocols
	if t.AllToAll != (Protocols{}) {
		p = &t.AllToAll
	}
	send := func(bits int) Cost {
		return p.cost(Cost{Bytes: elementBytes(elements, bits)}, n, elementBytes(elements, bits)/(n-1))
	}
	return work(send(c.products.In).then(send(c.bits))), Work{}
}

// aroundNetworks returns the collectives before and after a feed-forward part. Normally it is an all-reduce of its result. With
// data-parallel attention, an all-gather comes before it and a reduce-scatter after it, which together take an all-reduce's time if the fit
// has neither. With whole networks on each GPU, it is only the exchange of tokens with their experts.
func (c *ModelCost) aroundNetworks(f *feedForward, tokens int) (before, after Work) {
	t := &c.spec.Collectives
	switch {
	case !c.model.WholeNetworks() && c.data && t.AllGather != (Protocols{}) && t.ReduceScatter != (Protocols{}):
		of := func(x *Collective) Work {
			return c.spec.work(c.spec.CollectiveCost(x, c.gpus, float64(c.summed(tokens)))).scaled(c.scale.allReduce)
		}
		return of(&Collectives[allGather]), of(&Collectives[reduceScatter])
	case !c.model.WholeNetworks():
		return Work{}, c.allReduce(tokens)
	case f.dealt == nil:
		return Work{}, Work{}
	}
	return c.allToAll(f, tokens)
}
