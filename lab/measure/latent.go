package measure

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// Kinds of kernels of latent attention, for which AIConfigurator has separate tables.
const (
	LatentDecode     Kind = "latent_decode"
	FP8LatentDecode  Kind = "fp8_latent_decode"
	LatentPrefill    Kind = "latent_prefill"
	FP8LatentPrefill Kind = "fp8_latent_prefill"
	LatentAbsorb     Kind = "latent_absorb"
	FP8LatentAbsorb  Kind = "fp8_latent_absorb"
	SparseLatent     Kind = "sparse_latent" // attention over rows chosen by an indexer
)

// latentSections are the kinds' sections, in the order of fits.
var latentSections = []struct {
	kind    Kind
	section string
}{
	{LatentDecode, "decode"}, {FP8LatentDecode, "decode_fp8"}, {LatentPrefill, "prefill"}, {FP8LatentPrefill, "prefill_fp8"},
	{LatentAbsorb, "products"}, {FP8LatentAbsorb, "products_fp8"}, {SparseLatent, "chosen"},
}

// latent says that a kind is of kernels of latent attention.
func (k Kind) latent() bool {
	for _, l := range latentSections {
		if l.kind == k {
			return true
		}
	}
	return false
}

// The models' sizes: elements of a latent with its rotated key, of the latent, of an expanded key and value, of the part of a key that
// is not rotated, and the rows that an indexer chooses.
const latentKey, latentRank, expandedKey, expandedValue, nopeDim, chosenRows, chosenHeads = 576, 512, 192, 128, 128, 2048, 64

// latentHeads returns heads over latents, expandedHeads heads over the keys and values made from
// them.
func latentHeads(query int) gpu.Heads {
	return gpu.Heads{Query: query, KV: 1, Dim: latentKey, Value: latentRank, Latent: true, ElementBits: elementBits}
}

func expandedHeads(query int) gpu.Heads {
	return gpu.Heads{Query: query, KV: query, Dim: expandedKey, Value: expandedValue, Expanded: true, ElementBits: elementBits}
}

// latentRow reads a row of latent attention.
func (r *row) latentRow(s *Sample) {
	s.where = InGraph
	s.source = strings.TrimSuffix(filepath.Base(r.name), ".csv")
	var narrow bool
	switch s.kind {
	case LatentAbsorb:
		op, dtype := r.element("op", []string{"mla_gen_pre", "mla_gen_post"}), r.element("dtype", cacheTypes)
		s.m, s.heads = r.integer("tokens", 1, 1<<24), gpu.Heads{Query: r.integer("heads", 1, 1<<16)}
		if s.n, s.k = latentRank, nopeDim; op == "mla_gen_post" {
			s.n, s.k = nopeDim, latentRank
		}
		s.row = fmt.Sprintf("op=%s dtype=%s tokens=%d heads=%d", op, dtype, s.m, s.heads.Query)
		narrow = dtype != wholeType
	case SparseLatent:
		s.batch, s.chunk, s.finished, s.heads = r.integer("batch", 1, 1<<20), r.integer("queries", 1, 1<<24), r.integer("prefix", 0, 1<<30), latentHeads(chosenHeads)
		s.row = fmt.Sprintf("batch=%d queries=%d prefix=%d", s.batch, s.chunk, s.finished)
	default:
		query, dtype := r.integer("heads", 1, 1<<16), r.element("kv_dtype", cacheTypes)
		s.batch, narrow = r.integer("batch", 1, 1<<20), dtype != wholeType
		if s.kind == LatentDecode {
			s.context, s.heads = r.integer("context", 1, 1<<30), latentHeads(query)
			s.row = fmt.Sprintf("heads=%d batch=%d context=%d kv_dtype=%s", query, s.batch, s.context, dtype)
		} else {
			s.chunk, s.heads = r.integer("length", 1, 1<<30), expandedHeads(query)
			s.row = fmt.Sprintf("heads=%d batch=%d length=%d kv_dtype=%s", query, s.batch, s.chunk, dtype)
		}
	}
	if narrow {
		s.kind = "fp8_" + s.kind
		if s.heads.Latent {
			s.heads.KVBits = 8
		}
		s.heads.KVFloat = true
	}
}

// latentKernel returns the cost of a kernel of latent attention.
func latentKernel(g *gpu.Spec, s *Sample) gpu.Cost {
	switch s.kind {
	case LatentDecode, FP8LatentDecode:
		return g.DecodeAttentionCost(gpu.UniformBatch(s.batch, s.context), s.heads)
	case LatentPrefill, FP8LatentPrefill:
		h := s.heads
		if g.Latent.Absorbed {
			h = latentHeads(h.Query)
			h.KVFloat = s.heads.KVFloat
		}
		return g.PrefillAttentionCost(s.batch, s.chunk, s.finished, h)
	case LatentAbsorb:
		return g.AbsorbedCost(s.heads.Query, s.m, s.n, s.k, 16)
	case FP8LatentAbsorb:
		return g.AbsorbedCost(s.heads.Query, s.m, s.n, s.k, 8)
	}
	rows, longest := chosen(s.batch, s.chunk, s.finished)
	return g.ChosenCost(s.batch*s.chunk, rows, longest, s.heads)
}

// chosen returns the total of rows that tokens of equal prompts attend to, and the maximum for one: each attends to what it sees,
// up to the number of choices.
func chosen(batch, chunk, finished int) (rows int64, longest int) {
	longest = min(chosenRows, finished+chunk)
	few := min(chunk, max(0, chosenRows-finished)) // tokens that see fewer
	sum := int64(few)*int64(finished) + int64(few)*int64(few+1)/2 + int64(chunk-few)*chosenRows
	return int64(batch) * sum, longest
}

// latentParameters are those of a kind of latent attention.
func latentParameters(kind Kind) []parameter {
	switch kind {
	case LatentDecode:
		return latentDecodeParameters(func(t *Target) *gpu.LatentDecodeSpec { return &t.GPU.Latent.Decode })
	case FP8LatentDecode:
		return latentDecodeParameters(func(t *Target) *gpu.LatentDecodeSpec { return &t.GPU.Latent.DecodeFP8 })
	case LatentPrefill:
		return prefillParameters(func(t *Target) *gpu.PrefillSpec { return &t.GPU.Latent.Prefill })
	case FP8LatentPrefill:
		return prefillParameters(func(t *Target) *gpu.PrefillSpec { return &t.GPU.Latent.PrefillFP8 })
	case SparseLatent:
		spec := func(t *Target) *gpu.ChosenSpec { return &t.GPU.Latent.Chosen }
		return []parameter{
			number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
			number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
			number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
			duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &spec(t).Overhead }),
			duration("row_time", 1e-4, 0.01, 1, func(t *Target) *units.Duration { return &spec(t).RowTime }),
		}
	}
	spec := func(t *Target) *gpu.LatentProductSpec {
		if kind == FP8LatentAbsorb {
			return &t.GPU.Latent.ProductsFP8
		}
		return &t.GPU.Latent.Products
	}
	all := []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		number("k_ramp", 1, 100, 5000, func(t *Target) *float64 { return &spec(t).KRamp }),
	}
	if kind == FP8LatentAbsorb {
		all = append(all, duration("convert_overhead", 0.01, 2, 50, func(t *Target) *units.Duration { return &spec(t).Convert }),
			number("convert_memory_efficiency", 0.01, 0.5, 10, func(t *Target) *float64 { return &spec(t).ConvertMemory }))
	}
	return all
}

func latentDecodeParameters(spec func(*Target) *gpu.LatentDecodeSpec) []parameter {
	var all []parameter
	for _, p := range decodeParameters(func(t *Target) *gpu.DecodeSpec { return &spec(t).DecodeSpec }) {
		if !strings.HasPrefix(p.name, "unequal_") && p.name != "stream_time" && p.name != "lone_element_time" {
			all = append(all, p)
		}
	}
	return append(all, number("again_share", 0.01, 0.5, 1, func(t *Target) *float64 { return &spec(t).AgainShare }))
}

// latentForms are variants of kernels of a kind with parameters that a fit does not move.
func latentForms(kind Kind) (all []func(*gpu.Spec)) {
	switch kind {
	case LatentDecode, FP8LatentDecode:
		for _, form := range [][3]int{{16, 0, 0}, {64, 0, 0}, {64, 64, 0}, {64, 16, 32}, {128, 0, 0}} { // rows of a tile; query heads per read, up to three limits
			all = append(all, func(g *gpu.Spec) {
				d := gpu.LatentDecodeSpec{DecodeSpec: g.Decode, WideGroup: form[2], AgainShare: 0.5}
				d.Split, d.StreamTime, d.LoneElement = gpu.SplitBalanced, 0, 0
				d.QueryRows, d.UnsplitRows, d.GroupLimit, d.BlocksPerSM = form[0], form[0], form[1], 1
				if kind == LatentDecode {
					g.Latent.Decode = d
				} else {
					g.Latent.DecodeFP8 = d
				}
			})
		}
	case LatentPrefill, FP8LatentPrefill:
		absorbed := []bool{false, true}
		for _, a := range absorbed {
			all = append(all, func(g *gpu.Spec) {
				p := g.Prefill
				p.JoinsDecode = false
				if kind == LatentPrefill {
					g.Latent.Absorbed = a
					p.PacksGroups = a
					g.Latent.Prefill = p
					return
				}
				p.PacksGroups = g.Latent.Absorbed
				g.Latent.PrefillFP8 = p
			})
		}
		if kind == FP8LatentPrefill { // uses the 16-bit form
			all = all[:1]
		}
	case LatentAbsorb, FP8LatentAbsorb:
		for _, rows := range []int{64, 128} {
			all = append(all, func(g *gpu.Spec) {
				p := gpu.LatentProductSpec{Efficiency: gpu.Efficiency{Compute: 0.6, Memory: 0.8, Ridge: startRidge}, TileRows: rows}
				if kind == LatentAbsorb {
					g.Latent.Products = p
					return
				}
				p.ConvertMemory = 0.5
				g.Latent.ProductsFP8 = p
			})
		}
		if kind == FP8LatentAbsorb {
			all = append(all, func(g *gpu.Spec) {
				g.Latent.ProductsFP8 = gpu.LatentProductSpec{Efficiency: gpu.Efficiency{Compute: 0.6, Memory: 0.8, Ridge: startRidge}, TileRows: 64, Widens: true}
			})
		}
	case SparseLatent:
		for _, cluster := range []int{0, 2} { // blocks of a tile in FlashMLA on Hopper and on Blackwell
			for _, waves := range []bool{true, false} {
				all = append(all, func(g *gpu.Spec) {
					g.Latent.Chosen = gpu.ChosenSpec{Efficiency: gpu.Efficiency{Compute: 0.6, Memory: 0.8, Ridge: startRidge}, TileRows: 64, Cluster: cluster, Slots: chosenRows, WaveQuantization: waves}
				})
			}
		}
	}
	return all
}
