package gpu

import "github.com/l3sim/l3sim/llm"

// feedForward is the feed-forward part of some layers, on each GPU of a replica.
type feedForward struct {
	share   float64           // share of the layers
	width   int               // inner columns of a dense network, or of each expert
	experts []llm.ExpertShare // nil for a dense network
	active  int               // experts of a token
	shared  int               // inner columns of the network that every token takes in addition to its experts
	dealt   *dealtExperts     // whole experts on the GPU with the most rows; nil: each GPU has columns of all experts
}

func newFeedForwards(m *llm.Model) (all []feedForward) {
	for _, n := range m.Networks() {
		f := feedForward{
			share: float64(n.Layers) / float64(m.Layers), width: ceilDiv(n.Width, m.TensorParallel),
			active: n.Active, shared: ceilDiv(n.Shared, m.TensorParallel),
		}
		if m.WholeNetworks() {
			f.width, f.shared = n.Width, n.Shared
		}
		if n.Experts > 0 {
			f.experts = m.ExpertShares()
		}
		if n.Experts > 0 && m.ExpertParallel {
			f.width, f.dealt = n.Width, dealExperts(f.experts, m.TensorParallel)
		}
		all = append(all, f)
	}
	return all
}

// FFN returns the norm, which adds the residual, the feed-forward network or the experts, and the all-reduce; if layers differ, of the mean
// layer.
func (c *ModelCost) FFN(tokens int) Work { return c.ffnParts(tokens).Total() }

// ffnParts returns FFN by groups. With two kinds of layers it is their mean.
func (c *ModelCost) ffnParts(tokens int) Parts {
	p := c.feedForward(&c.feedForwards[0], tokens)
	if len(c.feedForwards) == 1 {
		return p
	}
	last := &c.feedForwards[1]
	q := c.feedForward(last, tokens)
	for i := range p {
		p[i] = p[i].mean(q[i], last.share)
	}
	return p
}

// feedForward returns the feed-forward part of a layer, with norm, activation and all-reduce.
func (c *ModelCost) feedForward(f *feedForward, tokens int) (p Parts) {
	own := c.own(tokens)
	small, in := c.norm(own), tokens // in: tokens that pass through a GPU's dense networks and shared experts
	if c.model.WholeNetworks() {
		in = own
	}
	switch {
	case f.experts == nil:
		products, activation := c.network(in, f.width)
		p[FeedForward], small = c.waits(products), small.Plus(activation)
	case f.shared > 0:
		products, activation := c.network(in, f.shared)
		p[FeedForward], small = c.waits(c.mixture(f, tokens).Plus(products)), small.Plus(activation)
	default:
		p[FeedForward] = c.waits(c.mixture(f, tokens))
	}
	p[SmallKernels], p[AllReduce] = c.waits(small), c.joinNetworks(f, tokens)
	return p
}

// joinNetworks returns the collectives before and after a feed-forward part together.
func (c *ModelCost) joinNetworks(f *feedForward, tokens int) Work {
	before, after := c.aroundNetworks(f, tokens)
	return before.Plus(after)
}

// network returns the products of a dense network with the given inner width on each GPU, and its activation. The up and gate matrices of a
// gated network are one product, as in serving systems.
func (c *ModelCost) network(tokens, width int) (products, activation Work) {
	hidden, up := c.model.Hidden, c.up(width)
	products = c.mixed(tokens, up, hidden, c.networks, c.keptNetwork).Plus(c.mixed(tokens, hidden, width, c.networks, c.keptNetwork))
	return products, c.small(c.activation(tokens, width))
}

// up returns the columns of the first product of a network with the given inner width.
func (c *ModelCost) up(width int) int { return (c.model.FFNMatrices() - 1) * width }

// FFNWidth returns the inner columns of the feed-forward network that a GPU computes; 0 for a model with experts.
func (c *ModelCost) FFNWidth() int {
	if f := &c.feedForwards[0]; len(c.feedForwards) == 1 && f.experts == nil {
		return f.width
	}
	return 0
}

// NarrowFFN is FFN of a dense model if a GPU computes only width of its inner columns and another device the others. It returns the
// products, which run concurrently with the device, and the rest, which the GPU does in full: activation, norm and all-reduce.
func (c *ModelCost) NarrowFFN(tokens, width int) (products, rest Work) {
	_, activation := c.network(tokens, c.FFNWidth())
	if width > 0 {
		products, _ = c.network(tokens, width)
	}
	return c.waits(products), c.waits(c.norm(tokens).Plus(activation)).Plus(c.allReduce(tokens))
}

// ffnBeyond describes how a product of a feed-forward network exceeds the measured range, or returns "". For experts without own kernels in
// the fit, it checks the products of one expert.
func (c *ModelCost) ffnBeyond(tokens int) (why string) {
	hidden := c.model.Hidden
	for i := range c.feedForwards {
		f := &c.feedForwards[i]
		if f.experts != nil && c.MeasuredExperts() && why == "" {
			why = c.spec.expertsBeyond(tokens, f.width)
		}
		for _, width := range [...]int{f.width, f.shared} {
			if f.experts != nil && width == f.width && c.MeasuredExperts() {
				continue
			}
			if width > 0 && why == "" {
				why = c.spec.GEMMBeyond(tokens, c.up(width), hidden)
			}
			if width > 0 && why == "" {
				why = c.spec.GEMMBeyond(tokens, hidden, width)
			}
		}
	}
	return why
}
