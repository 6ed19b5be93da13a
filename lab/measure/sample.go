package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
)

// Kind is the kind of kernel or transfer measured by a file.
type Kind string

// The kinds, in the order of reports.
const (
	GEMM         Kind = "gemm"
	Decode       Kind = "decode_attention"
	NarrowGEMM   Kind = "narrow_gemm"             // of factors of 8 bits
	NarrowDecode Kind = "narrow_decode_attention" // over keys and values of 8 or 4 bits
	Prefill      Kind = "prefill_attention"
	Extend       Kind = "extend_attention" // of a short chunk over a long cache
	AllReduce    Kind = "all_reduce"
	PCIe         Kind = "pcie"
	Elementwise  Kind = "elementwise"
	PageSparse   Kind = "page_sparse" // of page-sparse decode attention
	// Small is the small kernels of a layer together, or the choice of tokens, as a server measured them in an
	// iteration.
	Small Kind = "small_kernels"
	// Whole iterations, and the energy of each.
	DecodeIteration  Kind = "decode_iteration"
	PrefillIteration Kind = "prefill_iteration"
	MixedIteration   Kind = "mixed_iteration"
	IterationEnergy  Kind = "iteration_energy"
	// Power is the energy of kernels that run for seconds, with or without gaps.
	Power Kind = "power"
)

// Kinds returns all kinds in the order of reports.
func Kinds() []Kind {
	return []Kind{
		GEMM, NarrowGEMM, FP8GEMM, FP8BlockGEMM, NVFP4GEMM, Decode, NarrowDecode, FP8Decode, Prefill, FP8Prefill, Experts, FP8Experts, FP8BlockExperts, NVFP4Experts, MXFP4Experts, MXFP4FP8Experts, Int4Experts, LatentDecode, FP8LatentDecode, LatentPrefill, FP8LatentPrefill, LatentAbsorb, FP8LatentAbsorb, SparseLatent, LatentLayer, IndexedLayer, Extend, AllReduce, AllGather, ReduceScatter, NCCLAllReduce, NCCLAllToAll, Dispatch, Combine, IndexScores, IndexStepScores, TopK, PCIe, Elementwise, PageSparse, Small,
		DecodeIteration, PrefillIteration, MixedIteration, IterationEnergy, Power,
	}
}

// Condition is how a kernel was measured.
type Condition uint8

// The conditions.
const (
	Alone     Condition = iota // one call at a time, with the L2 flushed before
	InGraph                    // many in a graph, for milliseconds
	Sustained                  // many in a graph, for seconds: the power limit applies
)

// Target is the hardware to judge or fit: a GPU and its link to the host.
type Target struct {
	GPU  gpu.Spec  `toml:"gpu"`
	Link pcie.Spec `toml:"pcie"`
	// Method is the all-reduce of whole iterations; empty for NCCL, with which they were measured.
	Method gpu.AllReduceMethod `toml:"-"`
	tables bool                // fits are to tables of AIConfigurator
}

// Sample is one measured kernel or transfer. Only the fields of its kind are set.
type Sample struct {
	kind    Kind
	File    string
	Line    int
	m, n, k int    // gemm; elementwise: M rows of N elements
	op      string // elementwise: layernorm, add, gelu, copy; pcie: h2d, d2h; page-sparse: page_score, topk, attention; extend attention: split, unsplit; decode attention of unequal contexts: fixed, balanced; narrow kernels: fp8, int8, int4
	batch   int    // attention: equal requests
	context int    // decode and page-sparse attention; the longest of unequal ones
	tokens  int64  // decode attention of unequal contexts: their sum, else 0
	paged
	chunk int // prefill and extend attention
	// finished is the number of tokens before the chunk.
	finished int
	heads    gpu.Heads
	gpus     int         // all-reduce
	bytes    units.Bytes // all-reduce and pcie
	where    Condition   // kernels
	whole
	powered
	published
	mixture
	// Seconds is the measured value; for IterationEnergy and Power it is the joules of all GPUs.
	Seconds float64
}

// paged describes pages of attention.
type paged struct {
	page  int // page-sparse: tokens of a page
	pages int // page-sparse: pages scored by page_score, else selected
}

// whole is an iteration.
type whole struct {
	model   *llm.Model // iterations: with the number of GPUs that share it
	suite   gpu.Suite  // iterations: the suite whose kernels ran, "" for the target's
	prefill gpu.Suite  // iterations of the server suite: the suite whose prefill attention ran, "" for the same
}

// powered is a measurement of power.
type powered struct {
	busy  float64 // power: seconds of each run of work between gaps; 0 without gaps
	count float64 // power: number of these runs
	took  float64 // power: seconds of the measurement
}

// Unit returns the unit of a kind's measurements in reports, and how many of it make one of
// Sample.Seconds.
func (k Kind) Unit() (name string, scale float64) {
	switch k {
	case IterationEnergy, Power:
		return "J", 1
	case DecodeIteration, PrefillIteration, MixedIteration:
		return "ms", 1e3
	}
	return "us", 1e6
}

// Joules says that a kind's Seconds are in joules.
func (k Kind) Joules() bool { return k == IterationEnergy || k == Power }

// Attends says that the kind includes attention, so that it depends on the suite.
func (k Kind) Attends() bool {
	return slices.Contains([]Kind{Decode, NarrowDecode, FP8Decode, Prefill, FP8Prefill, LatentDecode, FP8LatentDecode, LatentPrefill, FP8LatentPrefill, LatentLayer, IndexedLayer, DecodeIteration, PrefillIteration, MixedIteration}, k)
}

// Iteration says that the kind is a time or an energy of whole iterations.
func (k Kind) Iteration() bool { return k.whole() && k != Power }

// Kind returns the sample's kind.
func (s *Sample) Kind() Kind { return s.kind }

// shape identifies samples that differ only in batch or size: shapes are the units that a fit holds
// out.
func (s *Sample) shape() string {
	if s.single() {
		return s.row
	}
	switch s.kind {
	case GEMM, NarrowGEMM, FP8GEMM, FP8BlockGEMM, NVFP4GEMM:
		return fmt.Sprintf("n=%d k=%d", s.n, s.k)
	case Decode, NarrowDecode, FP8Decode, Prefill, FP8Prefill, Extend, PageSparse:
		return fmt.Sprintf("heads=%d kv=%d d=%d", s.heads.Query, s.heads.KV, s.heads.Dim)
	case AllReduce:
		return fmt.Sprintf("gpus=%d", s.gpus)
	case PCIe, Power:
		return s.op
	case Experts, FP8Experts, FP8BlockExperts, NVFP4Experts, MXFP4Experts, MXFP4FP8Experts, Int4Experts:
		x := &s.shares
		return fmt.Sprintf("hidden=%d width=%d experts=%d/%d active=%d", s.ffn.Hidden, s.ffn.Width, x.experts, x.parallel, x.active)
	case Small:
		return fmt.Sprintf("%s%s on %d", spaced(s.op), s.model.Name, s.model.TensorParallel)
	case DecodeIteration, PrefillIteration, MixedIteration, IterationEnergy, LatentLayer, IndexedLayer:
		return s.model.Name
	default:
		return fmt.Sprintf("%s d=%d", s.op, s.n)
	}
}

// String returns the full name of the sample.
func (s *Sample) String() string {
	if s.single() {
		return s.row
	}
	switch s.kind {
	case GEMM, FP8GEMM, FP8BlockGEMM, NVFP4GEMM:
		return fmt.Sprintf("m=%d %s", s.m, s.shape())
	case NarrowGEMM:
		return fmt.Sprintf("%s m=%d %s", s.op, s.m, s.shape())
	case NarrowDecode:
		return fmt.Sprintf("%s batch=%d context=%d %s", s.op, s.batch, s.context, s.shape())
	case Decode, FP8Decode:
		if s.tokens > 0 {
			return fmt.Sprintf("%s batch=%d tokens=%d longest=%d %s", s.op, s.batch, s.tokens, s.context, s.shape())
		}
		return fmt.Sprintf("batch=%d context=%d %s", s.batch, s.context, s.shape())
	case Extend:
		return fmt.Sprintf("%s chunk=%d finished=%d %s", s.op, s.chunk, s.finished, s.shape())
	case Prefill, FP8Prefill:
		return fmt.Sprintf("batch=%d chunk=%d finished=%d %s", s.batch, s.chunk, s.finished, s.shape())
	case PageSparse:
		return fmt.Sprintf("%s batch=%d context=%d page=%d pages=%d %s", s.op, s.batch, s.context, s.page, s.pages, s.shape())
	case Experts, FP8Experts, FP8BlockExperts, NVFP4Experts, MXFP4Experts, MXFP4FP8Experts, Int4Experts, LatentLayer, IndexedLayer:
		return s.row
	case AllReduce, PCIe:
		return fmt.Sprintf("%s%s bytes=%d", spaced(s.op), s.shape(), s.bytes)
	case DecodeIteration, PrefillIteration, MixedIteration, IterationEnergy:
		return fmt.Sprintf("%s on %d batch=%d context=%d chunk=%d finished=%d", s.model.Name, s.model.TensorParallel, s.batch, s.context, s.chunk, s.finished)
	case Power:
		return fmt.Sprintf("%s m=%d n=%d k=%d batch=%d context=%d chunk=%d busy=%.1fus", s.op, s.m, s.n, s.k, s.batch, s.context, s.chunk, s.busy*1e6)
	default:
		return fmt.Sprintf("m=%d %s", s.m, s.shape())
	}
}

// spaced returns an all-reduce's method with a space after it.
func spaced(method string) string {
	if method == "" || method == "h2d" || method == "d2h" {
		return ""
	}
	return method + " "
}

// Ops of tables: mixedOp is attention of a prompt and of decoding requests in one kernel, choiceOp the choice
// of a token for each request.
const mixedOp, choiceOp = "mixed", "choice"

const elementBits = 16 // the width of the measured kernels' elements: bf16 and fp16

// Predict returns the model's prediction for a sample: seconds, or joules of all GPUs.
func (t *Target) Predict(s *Sample) float64 {
	switch s.kind {
	case DecodeIteration, PrefillIteration, MixedIteration:
		seconds, _ := t.iteration(s)
		return seconds
	case IterationEnergy:
		_, joules := t.iteration(s)
		return joules
	case Power:
		return t.power(s)
	case Small:
		return t.small(s)
	}
	c := t.kernel(s)
	switch s.where {
	case Alone:
		if s.kind != PCIe && s.kind != AllReduce {
			if s.kind == PageSparse {
				return t.GPU.SmallAlone(c).Seconds
			}
			c = t.GPU.MeasuredAlone(c)
		}
	case Sustained:
		seconds, _ := t.GPU.KernelSustained(c)
		return seconds
	}
	return c.Seconds
}

func (t *Target) kernel(s *Sample) gpu.Cost {
	g := &t.GPU
	if s.kind.latent() {
		return latentKernel(g, s)
	}
	if s.kind == LatentLayer || s.kind == IndexedLayer {
		return layerCost(g, s)
	}
	if k := tabledOf(s.kind); k != nil {
		return k.cost(g, s)
	}
	if e := expertsOf(s.kind); e != nil {
		return g.ExpertsCost(e.ExpertType, &s.load, s.ffn)
	}
	switch s.kind {
	case GEMM:
		return g.GEMMCost(s.m, s.n, s.k, elementBits)
	case NarrowGEMM, FP8GEMM, FP8BlockGEMM, NVFP4GEMM:
		return typedProduct(g, s)
	case NarrowDecode, FP8Decode:
		return g.DecodeAttentionCost(gpu.UniformBatch(s.batch, s.context), s.heads)
	case Decode:
		if s.op == "" {
			return g.DecodeAttentionCost(s.decoding(), s.heads)
		}
		own := *g
		if own.Decode.Split = gpu.Split(s.op); own.Decode.Split != g.Decode.Split {
			own.Decode.StreamTime, own.Decode.SplitLimit = 0, math.Inf(1) // with the GPU's own split
		}
		return own.DecodeAttentionCost(s.decoding(), s.heads)
	case Prefill, FP8Prefill:
		if s.window > 0 && s.window < s.chunk+s.finished {
			return windowed(g, s)
		}
		if s.op == mixedOp {
			return g.MixedAttentionCost(s.chunk, s.finished, s.decoding(), s.heads)
		}
		if g.Suite == gpu.SuiteServer && s.op == unmasked {
			return g.UnmaskedAttentionCost(s.batch, s.chunk, s.finished, s.heads)
		}
		return g.PrefillAttentionCost(s.batch, s.chunk, s.finished, s.heads)
	case Extend:
		own := *g
		if s.op == unsplit {
			own.Extend.MaxSplits = 1
		}
		return own.ExtendAttentionCost(1, s.chunk, s.finished, s.heads)
	case PCIe:
		return gpu.Cost{Bytes: float64(s.bytes), Seconds: t.Link.TransferTime(s.bytes).Seconds()}
	case PageSparse:
		return t.pageSparse(s)
	}
	switch s.op {
	case "layernorm":
		return g.Norm(s.m, s.n, elementBits)
	case "gelu":
		return g.Activation(s.m, s.n, false, elementBits)
	default: // add, copy: one operand read, one written
		return g.Elementwise(2, s.m, s.n, elementBits)
	}
}

// decoding returns the requests of a sample of decode attention, or those beside a prompt.
func (s *Sample) decoding() gpu.DecodeBatch {
	if s.tokens == 0 {
		return gpu.UniformBatch(s.batch, s.context)
	}
	return gpu.DecodeBatch{Requests: s.batch, Tokens: s.tokens, Longest: s.context}
}

// Where returns the condition in which a kernel was measured.
func (s *Sample) Where() Condition { return s.where }

// Model returns the name of an iteration's model and the GPUs that share it.
func (s *Sample) Model() string {
	if s.model == nil {
		return ""
	}
	return fmt.Sprintf("%s on %d", s.model.Name, s.model.TensorParallel)
}

// The kernels of a page-sparse file. A row of denseOp is decode attention over the whole context,
// for comparison.
const (
	scoreOp, topKOp, attentionOp = "page_score", "topk", "attention"
	denseOp                      = "dense"
)

// pageSparseOps are the kernels that a page-sparse file has rows of.
var pageSparseOps = []string{scoreOp, topKOp, attentionOp}

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

// pageSparseParameters are those of scores of pages, of the choice of pages, and of attention over them.
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
