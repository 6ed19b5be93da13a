package measure

import (
	"fmt"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
)

// Kind is the kind of kernel or transfer that a file measures.
type Kind string

// The kinds, in the order of reports.
const (
	GEMM        Kind = "gemm"
	Decode      Kind = "decode_attention"
	Prefill     Kind = "prefill_attention"
	AllReduce   Kind = "all_reduce"
	PCIe        Kind = "pcie"
	Elementwise Kind = "elementwise"
	PageSparse  Kind = "page_sparse" // of page-sparse decode attention
)

// Kinds returns all kinds in the order of reports.
func Kinds() []Kind { return []Kind{GEMM, Decode, Prefill, AllReduce, PCIe, Elementwise, PageSparse} }

// Target is what is judged or fitted: a GPU and its link to the host.
type Target struct {
	GPU  gpu.Spec  `toml:"gpu"`
	Link pcie.Spec `toml:"pcie"`
}

// Sample is one measured kernel or transfer. Only the fields of its kind are
// set.
type Sample struct {
	kind    Kind
	File    string
	Line    int
	m, n, k int    // gemm; elementwise: M rows of N elements
	op      string // elementwise: layernorm, add, gelu, copy; pcie: h2d, d2h; page-sparse: page_score, topk, attention
	batch   int    // attention: equal requests
	context int    // decode and page-sparse attention
	page    int    // page-sparse: tokens of a page
	pages   int    // page-sparse: scored by page_score, else selected
	chunk   int    // prefill attention
	// finished is the number of tokens before the chunk.
	finished int
	heads    gpu.Heads
	gpus     int         // all-reduce
	bytes    units.Bytes // all-reduce and pcie
	Seconds  float64     // measured
}

// shape names what stays fixed while batch or size varies: the unit in which
// samples are held out of a fit.
func (s *Sample) shape() string {
	switch s.kind {
	case GEMM:
		return fmt.Sprintf("n=%d k=%d", s.n, s.k)
	case Decode, Prefill, PageSparse:
		return fmt.Sprintf("heads=%d kv=%d d=%d", s.heads.Query, s.heads.KV, s.heads.Dim)
	case AllReduce:
		return fmt.Sprintf("gpus=%d", s.gpus)
	case PCIe:
		return s.op
	default:
		return fmt.Sprintf("%s d=%d", s.op, s.n)
	}
}

// String names the sample in full.
func (s *Sample) String() string {
	switch s.kind {
	case GEMM:
		return fmt.Sprintf("m=%d %s", s.m, s.shape())
	case Decode:
		return fmt.Sprintf("batch=%d context=%d %s", s.batch, s.context, s.shape())
	case Prefill:
		return fmt.Sprintf("batch=%d chunk=%d finished=%d %s", s.batch, s.chunk, s.finished, s.shape())
	case PageSparse:
		return fmt.Sprintf("%s batch=%d context=%d page=%d pages=%d %s", s.op, s.batch, s.context, s.page, s.pages, s.shape())
	case AllReduce, PCIe:
		return fmt.Sprintf("%s bytes=%d", s.shape(), s.bytes)
	default:
		return fmt.Sprintf("m=%d %s", s.m, s.shape())
	}
}

// Size is the sample's work for a figure's axis, and whether it is in FLOPs: bytes for
// kinds that compute nothing, or not in all of their kernels.
func (t *Target) Size(s *Sample) (size float64, flops bool) {
	c := t.Cost(s)
	if c.FLOPs > 0 && s.kind != PageSparse {
		return c.FLOPs, true
	}
	return c.Bytes, false
}

// elementBits is the width of the measured kernels' elements: bf16 and fp16.
const elementBits = 16

// Cost returns the model's cost of a sample.
func (t *Target) Cost(s *Sample) gpu.Cost {
	g := &t.GPU
	switch s.kind {
	case GEMM:
		return g.GEMMCost(s.m, s.n, s.k, elementBits)
	case Decode:
		return g.DecodeAttentionCost(gpu.UniformBatch(s.batch, s.context), s.heads)
	case Prefill:
		return g.PrefillAttentionCost(s.batch, s.chunk, s.finished, s.heads)
	case AllReduce:
		return g.AllReduceCost(s.gpus, s.bytes)
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
