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
)

// Kinds returns all kinds in the order of reports.
func Kinds() []Kind { return []Kind{GEMM, Decode, Prefill, AllReduce, PCIe, Elementwise} }

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
	op      string // elementwise: layernorm, add, gelu, copy; pcie: h2d, d2h
	batch   int    // attention: equal requests
	context int    // decode attention
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
	case Decode, Prefill:
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
	case AllReduce, PCIe:
		return fmt.Sprintf("%s bytes=%d", s.shape(), s.bytes)
	default:
		return fmt.Sprintf("m=%d %s", s.m, s.shape())
	}
}

// Size is the sample's work for a figure's axis: FLOPs where there are any,
// else bytes.
func (t *Target) Size(s *Sample) float64 {
	c := t.Cost(s)
	if c.FLOPs > 0 {
		return c.FLOPs
	}
	return c.Bytes
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
