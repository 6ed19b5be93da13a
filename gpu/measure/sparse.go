package measure

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// The kernels that a page-sparse file may name. A row of denseOp is decode attention
// over the whole context, to compare with.
const (
	scoreOp, topKOp, attentionOp = "page_score", "topk", "attention"
	denseOp                      = "dense"
)

var pageSparseOps = []string{scoreOp, topKOp, attentionOp}

// pageSparse reads the row of a page-sparse file.
func (r *row) pageSparse(s *Sample) {
	s.op, s.batch, s.context, s.heads = r.text("op"), r.integer("batch", 1, 1<<20), r.integer("context", 1, maxSize), r.heads()
	if s.op == denseOp {
		s.kind, s.op = Decode, ""
		return
	}
	if !slices.Contains(pageSparseOps, s.op) {
		r.fail("op", s.op, "one of "+denseOp+", "+strings.Join(pageSparseOps, ", "))
	}
	s.page = r.integer("page", 1, 1<<20)
	s.pages = r.integer("pages", 1, maxSize)
	if all := (s.context-1)/max(1, s.page) + 1; r.err == nil && (s.pages > all || s.op == scoreOp && s.pages != all) {
		r.fail("pages", r.text("pages"), "at most the context's pages, and all of them in page_score")
	}
}

// pageSparse returns the cost of a page-sparse sample.
func (t *Target) pageSparse(s *Sample) gpu.Cost {
	g := &t.GPU
	var c gpu.Cost
	switch all := gpu.UniformBatch(s.batch, (s.context-1)/s.page+1); s.op {
	case scoreOp:
		c = g.PageScoreCost(gpu.PageScores{Pages: all}, s.heads)
	case topKOp:
		c = g.TopKCost(all, s.heads.KV, s.pages)
	default:
		c = g.PageAttentionCost(gpu.UniformBatch(s.batch, min(s.context, s.pages*s.page)), s.page, s.heads)
	}
	return c
}

func pageSparseParameters() []parameter {
	spec := func(t *Target) *gpu.PageSparseSpec { return &t.GPU.PageSparse }
	return []parameter{
		number("vector_efficiency", lowEfficiency, 0.3, highEfficiency, func(t *Target) *float64 { return &spec(t).Vector }),
		number("block_share", 0.01, 0.5, highEfficiency, func(t *Target) *float64 { return &spec(t).BlockShare }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("alone.small_overhead", 0.1, 3, 100, func(t *Target) *units.Duration { return &t.GPU.Alone.SmallOverhead }),
		number("alone.small_flush_share", 0.001, 0.5, 1, func(t *Target) *float64 { return &t.GPU.Alone.SmallFlushShare }),
		duration("merge_overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &spec(t).MergeOverhead }),
		duration("top_k_latency", 0.1, 5, 100, func(t *Target) *units.Duration { return &spec(t).TopKLatency }),
		duration("top_k_thread_time", 1e-4, 0.005, 1, func(t *Target) *units.Duration { return &spec(t).TopKThread }),
		duration("top_k_element_time", 1e-4, 0.005, 1, func(t *Target) *units.Duration { return &spec(t).TopKElement }),
		duration("top_k_passes", 1, 50, 1000, func(t *Target) *units.Duration { return &spec(t).TopKPasses }),
	}
}
