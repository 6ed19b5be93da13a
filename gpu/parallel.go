package gpu

import (
	"math"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units/portable"
)

// own returns how many of a batch's tokens the GPU has that has most, where each GPU has requests of its own: they are dealt evenly.
func (c *ModelCost) own(tokens int) int {
	if c.data {
		return ceilDiv(tokens, c.gpus)
	}
	return tokens
}

// ownBatch returns the requests of a batch that the GPU has that has most: their contexts are as long as those of all in the mean, or
// one is the longest.
func (c *ModelCost) ownBatch(b DecodeBatch) DecodeBatch {
	if c.data && b.Requests > 0 {
		b.Requests = ceilDiv(b.Requests, c.gpus)
		b.Tokens = max((b.Tokens+int64(c.gpus)-1)/int64(c.gpus), int64(b.Longest))
	}
	return b
}

// spread returns what a prompt adds to the time of attention, where each GPU has requests of its own: all prompts together take no less
// than the longest one on its GPU, nor than their mean over all.
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

// dealtExperts are the experts of the GPU that has most rows, of those that are dealt in the order of their popularity.
type dealtExperts struct {
	shares []llm.ExpertShare
	gpus   int
	mean   float64 // rows of a token
	spread float64 // variance of these, as if GPUs did not share the rows of a token
}

// dealExperts returns those of the GPU that gets the first expert.
func dealExperts(shares []llm.ExpertShare, gpus int) *dealtExperts {
	d, rank, experts := &dealtExperts{gpus: gpus}, 0, 0
	for _, s := range shares {
		experts += s.Experts
	}
	for _, s := range shares {
		n := (rank+s.Experts+gpus-1)/gpus - (rank+gpus-1)/gpus // of the ranks 0, gpus, 2 gpus ...
		if rank += s.Experts; n == 0 {
			continue
		}
		d.shares = append(d.shares, llm.ExpertShare{Experts: n, Share: s.Share})
		d.mean += float64(float64(n) * s.Share)
		d.spread += float64(float64(n) * s.Share * (1 - s.Share) * float64(experts) / float64(max(1, experts-1)))
	}
	return d
}

// load returns the rows of the GPU with most of them, in expectation, and the experts of it that tokens take.
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

// largest are the expected largest of 1, 2, 4 and so on standard normal variates (Harter, Biometrika 48, 1961).
var largest = [...]float64{0, 0.5641895835, 1.0293753730, 1.4236003060, 1.7659913931, 2.0696688279, 2.3437334, 2.5945973}

// largestOf returns the expected largest of n standard normal variates: linear in the logarithm of n between powers of two.
func largestOf(n int) float64 {
	i := portable.Log(float64(max(n, 1))) / portable.Log(2)
	low := min(int(i), len(largest)-2)
	return largest[low] + float64((i-float64(low))*(largest[low+1]-largest[low]))
}

// allToAll returns the way of tokens to the GPUs of their experts and back. A GPU sends each of its tokens once to each other GPU that
// has one of its experts, with the bits that go into products, and gets as many results back. Kernels of low latency, where the fit has
// some, send a token to each of its experts by itself.
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

// aroundNetworks returns the collectives before a feed-forward part and after it: an all-reduce of its result; with attention of requests
// apart an all-gather before it and a reduce-scatter after it, which take an all-reduce together where the fit has none; with whole
// networks on each GPU nothing but the way of tokens to their experts and back.
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
