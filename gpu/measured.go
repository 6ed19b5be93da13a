package gpu

import (
	"cmp"
	"fmt"
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// MeasuredSpec is how far the samples go to which kernels are fitted. Beyond them times are extrapolated; 0 is not measured.
type MeasuredSpec struct {
	ProductRows    int `toml:"product_rows"`           // m of products
	ProductWidth   int `toml:"product_width"`          // n and k of products
	DecodeRequests int `toml:"decode_requests"`        // of a batch of decode attention
	DecodeContext  int `toml:"decode_context"`         // of the longest of these
	PrefillTokens  int `toml:"prefill_tokens"`         // of a prompt's chunk with those before it
	AllReduceGPUs  int `toml:"all_reduce_gpus"`        // that sum
	AllReduceBytes int `toml:"all_reduce_bytes"`       // summed, of each GPU
	SmallRows      int `toml:"small_rows"`             // of kernels that pass over activations once
	ExpertTokens   int `toml:"expert_tokens,optional"` // of a batch of experts, of all GPUs that share them
	ExpertWidth    int `toml:"expert_width,optional"`  // inner columns of an expert
}

// Check has the rules of the section [gpu.measured].
func (m *MeasuredSpec) Check(c *input.Check) {
	for key, v := range map[string]int{"product_rows": m.ProductRows, "product_width": m.ProductWidth,
		"decode_requests": m.DecodeRequests, "decode_context": m.DecodeContext, "prefill_tokens": m.PrefillTokens,
		"all_reduce_gpus": m.AllReduceGPUs, "all_reduce_bytes": m.AllReduceBytes, "small_rows": m.SmallRows,
		"expert_tokens": m.ExpertTokens, "expert_width": m.ExpertWidth} {
		input.Within(c, key, v, 0, 1<<40)
	}
}

// beyond says that a size of a kernel is beyond the largest that was measured, else "".
func beyond(what string, size, most int) string {
	switch {
	case size <= most:
		return ""
	case most == 0:
		return what + ": not measured on this GPU"
	default:
		return fmt.Sprintf("%d %s: measured up to %d", size, what, most)
	}
}

// Range returns how far kernels go that do not extrapolate. AttAcc's model is not fitted: nothing is beyond it.
func (s *Spec) Range() MeasuredSpec {
	m := s.Measured
	for _, k := range []struct {
		model KernelModel
		most  []*int
	}{
		{s.MatMul.Model, []*int{&m.ProductRows, &m.ProductWidth}}, {s.attention().Decode.Model, []*int{&m.DecodeRequests, &m.DecodeContext}},
		{s.attention().Prefill.Model, []*int{&m.PrefillTokens}}, {s.Collective.Model, []*int{&m.AllReduceGPUs, &m.AllReduceBytes}},
		{s.Pointwise.Model, []*int{&m.SmallRows}}, {s.MatMul.Model, []*int{&m.ExpertTokens, &m.ExpertWidth}},
	} {
		for _, most := range k.most {
			if k.model == AttAcc {
				*most = math.MaxInt
			}
		}
	}
	return m
}

// GEMMBeyond says how a product lies beyond what was measured, else "". So do the others of their kernels.
func (s *Spec) GEMMBeyond(m, n, k int) string {
	r := s.Range()
	return cmp.Or(beyond("rows of a product", m, r.ProductRows), beyond("columns or inner elements of a product", max(n, k), r.ProductWidth))
}

// DecodeBeyond is said at GEMMBeyond.
func (s *Spec) DecodeBeyond(b DecodeBatch) string {
	r := s.Range()
	return cmp.Or(beyond("requests that decode", b.Requests, r.DecodeRequests), beyond("tokens of a context", b.Longest, r.DecodeContext))
}

// PrefillBeyond is said at GEMMBeyond.
func (s *Spec) PrefillBeyond(chunk, finished int) string {
	return beyond("tokens of a prompt", chunk+finished, s.Range().PrefillTokens)
}

// AllReduceBeyond is said at GEMMBeyond. One GPU sums nothing.
func (s *Spec) AllReduceBeyond(gpus int, n units.Bytes) string {
	if gpus <= 1 {
		return ""
	}
	r := s.Range()
	return cmp.Or(beyond("GPUs of an all-reduce", gpus, r.AllReduceGPUs), beyond("bytes of an all-reduce", int(n), r.AllReduceBytes))
}

// expertsBeyond is said at GEMMBeyond, of experts with kernels of the fit's own.
func (s *Spec) expertsBeyond(tokens, width int) string {
	r := s.Range()
	return cmp.Or(beyond("tokens of experts", tokens, r.ExpertTokens), beyond("inner columns of an expert", width, r.ExpertWidth))
}

// smallBeyond is said at GEMMBeyond.
func (s *Spec) smallBeyond(rows int) string {
	return beyond("rows of a small kernel", rows, s.Range().SmallRows)
}

// Beyond says of each group of an iteration's kernels how it lies beyond what was measured, "" where it does not. Of
// experts without kernels of the fit's own it knows the products of one.
func (c *ModelCost) Beyond(x Shape) (why [Groups]string) {
	why = c.layersBeyond(x.Decode.Requests + x.Prefills*x.Chunk)
	why[LMHead] = c.headBeyond(x.Decode.Requests + x.Prefills)[LMHead]
	if x.Decode.Requests > 0 {
		why[DecodeAttention] = c.spec.DecodeBeyond(x.Decode)
	}
	if x.Prefills > 0 {
		why[PrefillAttention] = c.spec.PrefillBeyond(x.Chunk, x.Finished)
	}
	return why
}

// layersBeyond is Beyond of what a batch of tokens takes beside attention and the LM head.
func (c *ModelCost) layersBeyond(tokens int) (why [Groups]string) {
	s, hidden := c.spec, c.model.Hidden
	why[QKVProduct] = s.GEMMBeyond(tokens, c.kinds[0].qkv, hidden)
	why[ProjectionProduct] = s.GEMMBeyond(tokens, hidden, c.kinds[0].attention)
	why[FeedForward] = c.ffnBeyond(tokens)
	why[AllReduce] = s.AllReduceBeyond(c.gpus, c.summed(tokens))
	why[SmallKernels] = s.smallBeyond(tokens)
	why[Embedding] = why[SmallKernels]
	return why
}

// headBeyond is Beyond of what requests take that emit a token.
func (c *ModelCost) headBeyond(emitting int) (why [Groups]string) {
	why[LMHead] = c.spec.GEMMBeyond(emitting, c.vocab, c.model.Hidden)
	why[AllReduce] = c.spec.AllReduceBeyond(c.gpus, units.Bytes(8*emitting))
	why[SmallKernels] = c.spec.smallBeyond(emitting)
	return why
}

// Kind is a kind of kernels, whose parameters are fitted to samples of their own.
type Kind int

// The kinds.
const (
	Products Kind = iota
	PrefillKernels
	DecodeKernels
	AllReduces
	SmallOnes
	Kinds // their number
)

// String returns the name of the kind's kernels.
func (k Kind) String() string {
	return [Kinds]string{"products", "prefill attention", "decode attention", "all-reduce", "small kernels"}[k]
}

// kindOf is the kind of each group's kernels.
var kindOf = [Groups]Kind{
	Embedding: SmallOnes, SmallKernels: SmallOnes, QKVProduct: Products, PrefillAttention: PrefillKernels, DecodeAttention: DecodeKernels,
	ProjectionProduct: Products, FeedForward: Products, AllReduce: AllReduces, LMHead: Products,
}

// Extrapolated is the seconds of kernels beyond what was measured.
type Extrapolated [Kinds]float64

// add adds the groups of parts that are beyond, so often.
func (x *Extrapolated) add(p *Parts, why *[Groups]string, times int) {
	for g, w := range p {
		if why[g] != "" {
			x[kindOf[g]] += float64(float64(times) * w.Seconds)
		}
	}
}
