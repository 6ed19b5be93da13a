package gpu

import "cmp"

// weightBytes is the size of a returned softmax weight or log-sum-exp: single precision.
const weightBytes = 4

// Selection describes how pages are scored and chosen in one layer.
type Selection struct {
	PageScores
	Ranked DecodeBatch // number of scores in a row, for each request, in the field of its tokens
	Keep   int         // number chosen from each row, 0: none
}

// Select returns the kernels that score pages and choose the best. It caches the latest result, since in most steps few requests reach a
// new page.
func (c *ModelCost) Select(x Selection) Work {
	if x != c.selection {
		c.selection, c.selecting = x, c.selects(x)
	}
	return c.selecting
}

// selects returns the scores of the bounds of pages and the selection of the best.
func (c *ModelCost) selects(x Selection) Work {
	h := c.some(x.Ranked.KVHeads, false)
	w := c.spec.work(c.spec.PageScoreCost(x.PageScores, h)).scaled(c.scale.decode)
	rows := h.KV
	if x.PerQueryHead {
		rows = h.Query
	}
	rows *= max(1, x.Lists)
	return c.waits(w.Plus(c.spec.work(c.spec.TopKCost(x.Ranked, rows, x.Keep)).scaled(c.scale.decode)))
}

// Pass returns a sequence of kernels that move bytes and compute flops operations in total, over all GPUs of the replica. Memory traffic
// has the efficiency of element-wise kernels, and arithmetic that of page-sparse attention. With 0 kernels, other kernels do this work.
func (c *ModelCost) Pass(kernels int, bytes, flops float64) Work {
	if kernels <= 0 && bytes <= 0 {
		return Work{}
	}
	s := c.spec
	e := &s.Pointwise
	cost := Cost{
		Bytes: bytes / float64(c.gpus), FLOPs: flops / float64(c.gpus), Executed: flops / float64(c.gpus),
		Overhead: float64(kernels) * e.Overhead.Seconds(),
	}
	cost.Memory = cost.Bytes / (e.Memory * float64(s.MemoryBandwidth))
	if flops > 0 {
		cost.Compute = cost.FLOPs / (s.PageSparse.Compute * s.peak(c.bits))
	}
	return c.waits(c.small(cost.combine(e.Ridge)))
}

// Merge returns the kernel that combines two partial outputs of the given number of requests, all query heads, by their log-sum-exps: two
// rows in and one out.
func (c *ModelCost) Merge(requests int) Work { return c.MergeParts(requests, 2*requests) }

// MergeParts is Merge for parts partial outputs in total over all requests.
func (c *ModelCost) MergeParts(requests, parts int) Work {
	heads := float64(c.gpus) * float64(c.kinds[0].heads.Query)
	rows := elementBytes(float64(requests+parts)*float64(cmp.Or(c.kinds[0].heads.Value, c.kinds[0].heads.Dim)), c.bits)
	return c.Pass(min(requests, 1), heads*(float64(rows)+float64(weightBytes*parts)), 0)
}

// withWeights returns attention whose kernel also writes the given number of softmax weights.
func (s *Spec) withWeights(c Cost, weights float64) Cost {
	bytes := float64(weightBytes * weights)
	took := bytes / (s.Pointwise.Memory * float64(s.MemoryBandwidth))
	c.Bytes += bytes
	c.Memory += took
	c.Seconds += took
	return c
}
