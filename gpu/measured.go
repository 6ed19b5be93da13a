package gpu

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// MeasuredSpec is how far the samples go to which kernels are fitted. Beyond them times are extrapolated; 0 is not measured.
type MeasuredSpec struct {
	ProductRows    int `toml:"product_rows"`    // m of products
	ProductWidth   int `toml:"product_width"`   // n and k of products
	DecodeRequests int `toml:"decode_requests"` // of a batch of decode attention
	DecodeContext  int `toml:"decode_context"`  // of the longest of these
	PrefillTokens  int `toml:"prefill_tokens"`  // of a prompt's chunk with those before it
}

// Check has the rules of the section [gpu.measured].
func (m *MeasuredSpec) Check(c *input.Check) {
	for key, v := range map[string]int{"product_rows": m.ProductRows, "product_width": m.ProductWidth,
		"decode_requests": m.DecodeRequests, "decode_context": m.DecodeContext, "prefill_tokens": m.PrefillTokens} {
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

func first(reasons ...string) string {
	for _, r := range reasons {
		if r != "" {
			return r
		}
	}
	return ""
}

// GEMMBeyond says how a product lies beyond what was measured, else "". So do DecodeBeyond and PrefillBeyond of attention.
func (s *Spec) GEMMBeyond(m, n, k int) string {
	if s.MatMul.Model == AttAcc {
		return "" // not fitted
	}
	return first(beyond("rows of a product", m, s.Measured.ProductRows), beyond("columns or inner elements of a product", max(n, k), s.Measured.ProductWidth))
}

// DecodeBeyond is said at GEMMBeyond.
func (s *Spec) DecodeBeyond(b DecodeBatch) string {
	if s.attention().Decode.Model == AttAcc {
		return ""
	}
	return first(beyond("requests that decode", b.Requests, s.Measured.DecodeRequests), beyond("tokens of a context", b.Longest, s.Measured.DecodeContext))
}

// PrefillBeyond is said at GEMMBeyond.
func (s *Spec) PrefillBeyond(chunk, finished int) string {
	if s.attention().Prefill.Model == AttAcc {
		return ""
	}
	return beyond("tokens of a prompt", chunk+finished, s.Measured.PrefillTokens)
}

// Beyond says of each group of an iteration's kernels how it lies beyond what was measured, "" where it does not. Of
// experts it knows the products of one.
func (c *ModelCost) Beyond(x Shape) (why [Groups]string) {
	s, tokens, hidden := c.spec, x.Decode.Requests+x.Prefills*x.Chunk, c.model.Hidden
	why[QKVProduct] = s.GEMMBeyond(tokens, c.qkv, hidden)
	why[ProjectionProduct] = s.GEMMBeyond(tokens, hidden, c.attention)
	why[FeedForward] = first(s.GEMMBeyond(tokens, c.up(), hidden), s.GEMMBeyond(tokens, hidden, c.ffn))
	why[LMHead] = s.GEMMBeyond(x.Decode.Requests+x.Prefills, c.vocab, hidden)
	if x.Decode.Requests > 0 {
		why[DecodeAttention] = s.DecodeBeyond(x.Decode)
	}
	if x.Prefills > 0 {
		why[PrefillAttention] = s.PrefillBeyond(x.Chunk, x.Finished)
	}
	return why
}
