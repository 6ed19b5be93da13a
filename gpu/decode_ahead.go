package gpu

const aheadSteps = 4 // number of a batch's decode steps whose costs are computed together

// decodeAhead has the costs of successive decode steps of the same requests. Each step adds a token to every context. A processor computes
// the powers of one p-norm one after the other, but can overlap those of several steps, which takes less time (BenchmarkDecodeAhead).
type decodeAhead struct {
	batch DecodeBatch      // at the first step
	known int              // number of steps in costs
	costs [aheadSteps]Cost // of the first step and those after it
}

// after returns the batch after the given number of further steps, which may be negative.
func (b DecodeBatch) after(steps int) DecodeBatch {
	b.Tokens += int64(steps * b.Requests)
	b.Longest += steps
	return b
}

// ahead returns the cache entry for a batch. It is chosen by what does not change from step to step, so that a few alternating batches each
// have their own.
func (c *ModelCost) ahead(b *DecodeBatch) *decodeAhead {
	stays := uint64(int64(b.Requests)*int64(b.Longest)-b.Tokens) + uint64(b.Requests)
	if b.Windowed { // may have the same requests as one without a window
		stays += uint64(len(c.decoded)) / 2
	}
	return &c.decoded[stays%uint64(len(c.decoded))]
}

// DecodeBatchCost is DecodeBatch, with the parts of its cost.
func (c *ModelCost) DecodeBatchCost(b DecodeBatch) Cost { return *c.decodeCost(&b) }

// decodeCost returns a cost that is valid until the next call. If a batch is the previous one after some steps, it will probably continue,
// so its next steps are costed, too.
func (c *ModelCost) decodeCost(b *DecodeBatch) *Cost {
	s := c.ahead(b)
	step := b.Longest - s.batch.Longest
	if s.batch.after(step) != *b {
		step, s.known = 0, 0
	} else if step >= 0 && step < s.known {
		return &s.costs[step]
	}
	goesOn := s.known > 0
	s.known = 1
	s.batch = *b
	if b.Page > 0 || b.Weights || c.alwaysChosen() || min(int64(b.Requests), b.Tokens) <= 0 {
		s.costs[0] = c.batchCost(*b)
		return &s.costs[0]
	}
	h := c.decoding(b)
	k := c.spec.by(c.spec.decodeOf(&h).Model)
	if goesOn {
		s.known = k.decodeAhead(&s.costs, &s.batch, h)
	} else {
		s.costs[0] = k.decode(*b, h)
	}
	return &s.costs[0]
}

// decodeAhead costs several steps together, unless costs are combined by a maximum, which is fast anyway.
func (s measured) decodeAhead(costs *[aheadSteps]Cost, b *DecodeBatch, h Heads) int {
	ridge := s.decodeOf(&h).Ridge
	if ridge == 0 {
		costs[0] = s.decode(*b, h)
		return 1
	}
	for i := range costs {
		s.decodeParts(&costs[i], b, i, h)
	}
	combineAll(ridge, costs)
	return aheadSteps
}

func combineAll(p float64, costs *[aheadSteps]Cost) {
	var tops, sums [aheadSteps]float64
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
