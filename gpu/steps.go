package gpu

// stepsAhead is for how many steps of a batch costs are computed at once.
const stepsAhead = 4

// decodeSteps has the costs of successive decode steps of the same requests. Each step
// adds a token to every context. The powers of a norm wait for one another; those of
// several steps, side by side, do not.
type decodeSteps struct {
	batch DecodeBatch // at the first step
	known int         // steps
	costs [stepsAhead]Cost
}

// goesOn says whether a batch is one some steps later, or earlier. Field by field: a
// processor reads as a whole what has been written in parts only after a delay.
func (b *DecodeBatch) goesOn(to *DecodeBatch) bool {
	return to.Requests == b.Requests && to.Tokens-b.Tokens == int64((to.Longest-b.Longest)*b.Requests) &&
		to.KVHeads == b.KVHeads && to.Page == b.Page && to.PerQueryHead == b.PerQueryHead && to.Weights == b.Weights
}

// set assigns field by field, for the same reason.
func (b *DecodeBatch) set(to *DecodeBatch) {
	b.Requests, b.Tokens, b.Longest, b.KVHeads = to.Requests, to.Tokens, to.Longest, to.KVHeads
	b.Page, b.PerQueryHead, b.Weights = to.Page, to.PerQueryHead, to.Weights
}

// steps returns where the costs of a batch are kept: by what does not change from step to
// step, so that a few batches that take turns find their own again.
func (c *ModelCost) steps(b *DecodeBatch) *decodeSteps {
	stays := uint64(int64(b.Requests)*int64(b.Longest)-b.Tokens) + uint64(b.Requests)
	return &c.decoded[stays%uint64(len(c.decoded))]
}

// DecodeBatchCost is DecodeBatch with its parts.
func (c *ModelCost) DecodeBatchCost(b DecodeBatch) Cost { return *c.decodeCost(&b) }

// decodeCost returns a cost that is valid until the next call. Requests that were there
// in another step are likely to go on further.
func (c *ModelCost) decodeCost(b *DecodeBatch) *Cost {
	s := c.steps(b)
	step := b.Longest - s.batch.Longest
	if !s.batch.goesOn(b) {
		step, s.known = 0, 0
	} else if step >= 0 && step < s.known {
		return &s.costs[step]
	}
	goesOn := s.known > 0
	s.known = 1
	s.batch.set(b)
	if b.Page > 0 || b.Weights || min(int64(b.Requests), b.Tokens) <= 0 {
		s.costs[0] = c.batchCost(*b)
		return &s.costs[0]
	}
	d, h := &c.spec.kernels().Decode, c.some(b.KVHeads)
	if !goesOn || d.Model == AttentionAttAcc || d.Ridge == 0 {
		c.spec.decodeCost(&s.costs[0], b, h)
		return &s.costs[0]
	}
	for i := range s.costs {
		c.spec.decodeParts(&s.costs[i], b, i, h)
	}
	combineAll(d.Ridge, &s.costs)
	s.known = stepsAhead
	return &s.costs[0]
}

// combineAll is combine of several costs.
func combineAll(p float64, costs *[stepsAhead]Cost) {
	var tops, sums [stepsAhead]float64
	for i := range costs {
		c := &costs[i]
		tops[i] = max(c.Compute, c.Memory, c.Latency)
		sums[i] = powers(p, tops[i], c.Compute, c.Memory, c.Latency)
	}
	for i := range costs {
		costs[i].ridge = p
		costs[i].Seconds = root(p, tops[i], sums[i]) + costs[i].Overhead
	}
}
