package measure

import (
	"fmt"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
)

// Kind is what a file of measurements measures.
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
	Kind    Kind
	File    string
	Line    int
	M, N, K int    // gemm; elementwise: M rows of N elements
	Op      string // elementwise: layernorm, add, gelu, copy; pcie: h2d, d2h
	Batch   int    // attention: equal requests
	Context int    // decode attention
	Chunk   int    // prefill attention
	// Finished is the number of tokens before the chunk.
	Finished int
	Heads    gpu.Heads
	GPUs     int         // all-reduce
	Bytes    units.Bytes // all-reduce and pcie
	Seconds  float64     // measured
}

// Shape names what stays fixed while batch or size varies: the unit in which
// samples are held out of a fit.
func (s *Sample) Shape() string {
	switch s.Kind {
	case GEMM:
		return fmt.Sprintf("n=%d k=%d", s.N, s.K)
	case Decode, Prefill:
		return fmt.Sprintf("heads=%d kv=%d d=%d", s.Heads.Query, s.Heads.KV, s.Heads.Dim)
	case AllReduce:
		return fmt.Sprintf("gpus=%d", s.GPUs)
	case PCIe:
		return s.Op
	default:
		return fmt.Sprintf("%s d=%d", s.Op, s.N)
	}
}

// String names the sample in full.
func (s *Sample) String() string {
	switch s.Kind {
	case GEMM:
		return fmt.Sprintf("m=%d %s", s.M, s.Shape())
	case Decode:
		return fmt.Sprintf("batch=%d context=%d %s", s.Batch, s.Context, s.Shape())
	case Prefill:
		return fmt.Sprintf("batch=%d chunk=%d finished=%d %s", s.Batch, s.Chunk, s.Finished, s.Shape())
	case AllReduce, PCIe:
		return fmt.Sprintf("%s bytes=%d", s.Shape(), s.Bytes)
	default:
		return fmt.Sprintf("m=%d %s", s.M, s.Shape())
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

// Cost returns what the model says of a sample.
func (t *Target) Cost(s *Sample) gpu.Cost {
	g := &t.GPU
	switch s.Kind {
	case GEMM:
		return g.GEMMCost(s.M, s.N, s.K, elementBits)
	case Decode:
		return g.DecodeAttentionCost(gpu.UniformBatch(s.Batch, s.Context), s.Heads)
	case Prefill:
		return g.PrefillAttentionCost(s.Batch, s.Chunk, s.Finished, s.Heads)
	case AllReduce:
		return g.AllReduceCost(s.GPUs, s.Bytes)
	case PCIe:
		return gpu.Cost{Bytes: float64(s.Bytes), Seconds: t.Link.TransferTime(s.Bytes).Seconds()}
	}
	switch s.Op {
	case "layernorm":
		return g.Norm(s.M, s.N, elementBits)
	case "gelu":
		return g.Activation(s.M, s.N, false, elementBits)
	default: // add, copy: one operand read, one written
		return g.Elementwise(2, s.M, s.N, elementBits)
	}
}
