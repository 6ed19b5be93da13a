package gpu

import (
	"cmp"
	"fmt"
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// MeasuredSpec is the range of the samples to which kernels are fitted. Beyond it, times are extrapolated; 0 means not measured.
type MeasuredSpec struct {
	ProductRows    int `toml:"product_rows"`           // m of products
	ProductWidth   int `toml:"product_width"`          // n and k of products
	DecodeRequests int `toml:"decode_requests"`        // of a batch of decode attention
	DecodeContext  int `toml:"decode_context"`         // longest context in such a batch
	PrefillTokens  int `toml:"prefill_tokens"`         // of a prompt's chunk, including the tokens before it
	AllReduceGPUs  int `toml:"all_reduce_gpus"`        // number of GPUs
	AllReduceBytes int `toml:"all_reduce_bytes"`       // summed, of each GPU
	SmallRows      int `toml:"small_rows"`             // of kernels that pass over activations once
	ExpertTokens   int `toml:"expert_tokens,optional"` // of a batch of experts, over all GPUs that share them
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

// beyond describes how a kernel's size exceeds the largest measured one, or returns "".
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

// Range returns the range within which kernels are not extrapolated. AttAcc's model is not fitted, so nothing is beyond its range.
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

// GEMMBeyond describes how a product exceeds the measured range, or returns "". The other functions named Beyond do so for their kernels.
func (s *Spec) GEMMBeyond(m, n, k int) string {
	r := s.Range()
	return cmp.Or(beyond("rows of a product", m, r.ProductRows), beyond("columns or inner elements of a product", max(n, k), r.ProductWidth))
}

// DecodeBeyond is GEMMBeyond for decode attention.
func (s *Spec) DecodeBeyond(b DecodeBatch) string {
	r := s.Range()
	return cmp.Or(beyond("requests that decode", b.Requests, r.DecodeRequests), beyond("tokens of a context", b.Longest, r.DecodeContext))
}

// PrefillBeyond is GEMMBeyond for prefill attention.
func (s *Spec) PrefillBeyond(chunk, finished int) string {
	return beyond("tokens of a prompt", chunk+finished, s.Range().PrefillTokens)
}

// AllReduceBeyond is GEMMBeyond for an all-reduce; with one GPU there is none.
func (s *Spec) AllReduceBeyond(gpus int, n units.Bytes) string {
	if gpus <= 1 {
		return ""
	}
	r := s.Range()
	return cmp.Or(beyond("GPUs of an all-reduce", gpus, r.AllReduceGPUs), beyond("bytes of an all-reduce", int(n), r.AllReduceBytes))
}

// expertsBeyond is GEMMBeyond for experts with the fit's own kernels.
func (s *Spec) expertsBeyond(tokens, width int) string {
	r := s.Range()
	return cmp.Or(beyond("tokens of experts", tokens, r.ExpertTokens), beyond("inner columns of an expert", width, r.ExpertWidth))
}

// smallBeyond is GEMMBeyond for small kernels.
func (s *Spec) smallBeyond(rows int) string {
	return beyond("rows of a small kernel", rows, s.Range().SmallRows)
}

// Beyond describes, for each group of an iteration's kernels, how it exceeds the measured range, or "". For experts without own kernels in
// the fit, it checks the products of one expert.
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

// layersBeyond is Beyond for a batch of tokens, without attention and the LM head.
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

// headBeyond is Beyond for the LM head of requests that emit a token.
func (c *ModelCost) headBeyond(emitting int) (why [Groups]string) {
	why[LMHead] = c.spec.GEMMBeyond(emitting, c.vocab, c.model.Hidden)
	why[AllReduce] = c.spec.AllReduceBeyond(c.gpus, units.Bytes(8*emitting))
	why[SmallKernels] = c.spec.smallBeyond(emitting)
	return why
}

// Kind is a kind of kernels, with parameters fitted to its own samples.
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

// kindOf is the kind of kernels in each group.
var kindOf = [Groups]Kind{
	Embedding: SmallOnes, SmallKernels: SmallOnes, QKVProduct: Products, PrefillAttention: PrefillKernels, DecodeAttention: DecodeKernels,
	ProjectionProduct: Products, FeedForward: Products, AllReduce: AllReduces, LMHead: Products,
}

// Extrapolated is the seconds of kernels beyond the measured range.
type Extrapolated [Kinds]float64

// add adds the groups of parts beyond the range, times times.
func (x *Extrapolated) add(p *Parts, why *[Groups]string, times int) {
	for g, w := range p {
		if why[g] != "" {
			x[kindOf[g]] += float64(float64(times) * w.Seconds)
		}
	}
}
