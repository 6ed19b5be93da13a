package measure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// Kinds of kernels on narrow element types with separate parameters. Tables with a column dtype or kv_dtype have them.
const (
	FP8GEMM      Kind = "fp8_gemm"       // one scale per tensor or row
	FP8BlockGEMM Kind = "fp8_block_gemm" // scales of 128 × 128 weights, and of 128 activations of a row
	NVFP4GEMM    Kind = "nvfp4_gemm"     // one scale for 16 elements
	FP8Decode    Kind = "fp8_decode_attention"
	FP8Prefill   Kind = "fp8_prefill_attention"
)

// published is the data of AIConfigurator's tables on a kernel beyond its shape: the library's kernel, and the window of a query in
// tokens.
type published struct {
	source string
	window int    // 0: all
	row    string // element types and sizes, in the form of odd_rows.tsv
}

// wholeType is the name of 16-bit elements in tables of AIConfigurator.
const wholeType = "bfloat16"

// productKinds and cacheTypes are the element types of products and of keys and values in these tables.
var (
	productKinds = map[string]Kind{wholeType: GEMM, "fp8": FP8GEMM, "fp8_block": FP8BlockGEMM, "nvfp4": NVFP4GEMM}
	productTypes = []string{wholeType, "fp8", "fp8_block", "nvfp4"}
	cacheTypes   = []string{wholeType, "fp8"}
)

// element reads a column that names an element type.
func (r *row) element(column string, known []string) string {
	name := r.text(column)
	if !slices.Contains(known, name) && r.err == nil {
		r.err = &input.Error{File: r.name, Line: r.line, Key: column, Value: strconv.Quote(name),
			Expected: "one of " + strings.Join(known, ", "), Nearest: input.Alike(name, known)}
	}
	return name
}

// publish reads the additional columns of these tables. Their kernels ran in graphs.
func (r *row) publish(s *Sample) {
	s.where = InGraph
	if r.has("kernel") {
		s.source = r.text("kernel")
	}
	if s.kind == GEMM {
		s.op = r.element("dtype", productTypes)
		s.kind = productKinds[s.op]
		s.row = fmt.Sprintf("%s m=%d n=%d k=%d", s.op, s.m, s.n, s.k)
		return
	}
	if r.has("window") {
		s.window = r.integer("window", 0, maxSize)
	}
	if r.has("prefix") {
		s.finished = r.integer("prefix", 0, maxSize)
	}
	s.row = r.attentionRow(s)
	if s.kind == Decode && s.window > 0 {
		s.context = min(s.context, s.window)
	}
	if r.element("kv_dtype", cacheTypes) == wholeType {
		return
	}
	s.heads.KVBits, s.heads.KVFloat = 8, true
	if s.kind = FP8Decode; s.chunk > 0 {
		s.kind = FP8Prefill
	}
}

// attentionRow returns a row of attention in the form of odd_rows.tsv.
func (r *row) attentionRow(s *Sample) string {
	heads := fmt.Sprintf("q_heads=%d kv_heads=%d head_dim=%d window=%d", s.heads.Query, s.heads.KV, s.heads.Dim, s.window)
	if s.kind == Decode {
		return fmt.Sprintf("%s batch=%d context=%d %s", r.text("kv_dtype"), s.batch, s.context, heads)
	}
	types := r.text("kv_dtype")
	if r.has("attn_dtype") {
		types += "/" + r.text("attn_dtype")
	}
	return fmt.Sprintf("%s batch=%d length=%d prefix=%d %s", types, s.batch, s.chunk, s.finished, heads)
}

// typedProduct returns the cost of a product with factors of that element type.
func typedProduct(g *gpu.Spec, s *Sample) gpu.Cost {
	switch s.kind {
	case FP8BlockGEMM:
		return g.NarrowGEMMCost(s.m, s.n, s.k, 8, gpu.FP8Block)
	case NVFP4GEMM:
		return g.NarrowGEMMCost(s.m, s.n, s.k, 4, gpu.NVFP4Block)
	default:
		return g.NarrowGEMMCost(s.m, s.n, s.k, 8, 0)
	}
}

// windowed returns the cost of prompts whose tokens attend to at most a window, in pieces as iterations have it.
func windowed(g *gpu.Spec, s *Sample) gpu.Cost {
	var all gpu.Cost
	for _, p := range llm.WindowPieces(s.window, s.chunk, s.finished) {
		c := g.PrefillAttentionCost(s.batch*p.Count, p.Tokens, p.Behind, s.heads)
		all.Bytes += c.Bytes
		all.Seconds += c.Seconds
	}
	return all
}
