package measure

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/gpu"
)

// Published is a fit to tables of AIConfigurator.
type Published struct {
	Kinds []Fitted
	Left  []string // rows left out, by reason
}

// publishedKinds are the kinds of these tables, in the order of fitting.
var publishedKinds = []Kind{GEMM, FP8GEMM, FP8BlockGEMM, NVFP4GEMM, Decode, FP8Decode, Prefill, FP8Prefill, Experts, FP8Experts, FP8BlockExperts, NVFP4Experts, MXFP4Experts, MXFP4FP8Experts, Int4Experts,
	LatentDecode, FP8LatentDecode, LatentPrefill, FP8LatentPrefill, LatentAbsorb, FP8LatentAbsorb, SparseLatent, NCCLAllReduce, AllReduce, AllGather, ReduceScatter, NCCLAllToAll, Dispatch, Combine,
	IndexScores, IndexStepScores, TopK}

// Sizes used by servers, to which the fits are restricted. Smaller kernels take the time of their launch, and few
// models have wider heads.
const (
	leastWidth   = 1024 // columns and inner elements of a product
	leastContext = 256  // tokens
	leastPrompt  = 64   // tokens
	widestHead   = 256
	longestInner = 51200 // CUTLASS's FP8 products with that many inner elements and few rows take up to five times as long as their neighbours
	widestGroup  = 48    // query heads of a KV head, from which on TensorRT-LLM reads the cache for each of them
	fewestRows   = 40    // least rows of a kind of kernels
	fewestSizes  = 20    // least rows of a collective or of an indexer's kernel, which have few sizes
	launches     = 30e-6 // seconds that memory needs for what fits in the L2, above which a warm L2 is seen beside launches of 10 us
)

// FitPublished fits the kernels of a framework to AIConfigurator's tables. It leaves out rows by rule, and of each kind keeps the kernel
// with most rows, since few models run the others.
func (t *Target) FitPublished(framework string, samples []Sample, o Options) (*Published, error) {
	t.tables = true
	p := &Published{}
	for _, kind := range publishedKinds {
		rows := p.serving(t, framework, kind, only(samples, func(s *Sample) bool { return s.kind == kind }))
		if len(rows) < fewest(kind) {
			if len(rows) > 0 {
				p.left(len(rows), kind, fmt.Sprintf("fewer than %d rows that tell of the GPU", fewest(kind)))
			}
			continue
		}
		held, ok, err := t.fitForms(framework, kind, rows, o)
		if err != nil {
			return nil, err
		}
		p.Kinds = append(p.Kinds, Fitted{Kind: kind, Samples: len(rows), Held: held, HeldOut: ok, Range: rangeOf(rows)})
	}
	t.describe(p.Kinds)
	return p, nil
}

// describe sets the metadata of a fit to tables: bands of the kinds by their errors on held-out shapes, an assumption for others. It
// clears kernels of PyTorch and of prompts with decoding requests, which the tables lack.
func (t *Target) describe(kinds []Fitted) {
	g := &t.GPU
	g.PyTorch = gpu.AttentionSpec{}
	g.Prefill.JoinsDecode, g.PrefillFP8.JoinsDecode = false, false // prompts and decode attention were measured separately
	g.Scale.AllReduce, g.Scale.SmallKernels = gpu.AssumedScale, gpu.AssumedScale
	bands := map[Kind]*energy.Constant{AllReduce: &g.Scale.AllReduce, GEMM: &g.Scale.Products, Decode: &g.Scale.Decode, Prefill: &g.Scale.Prefill}
	for _, k := range kinds {
		if band := bands[k.Kind]; band != nil && k.HeldOut {
			*band = errorBand(k.Held.MAPE)
		}
	}
}

// errorBand returns the band, 10th to 90th percentile, of a log-normal factor with that mean absolute error.
func errorBand(mean float64) energy.Constant {
	const normal = 1.2815515655 // standard deviations from the median to the 90th percentile
	width := math.Exp(normal * mean * math.Sqrt(math.Pi/2))
	return energy.Constant(fmt.Sprintf("1 [%.4g, %.4g] measured", 1/width, width))
}

func (p *Published) left(rows int, kind Kind, why string) {
	if rows > 0 {
		p.Left = append(p.Left, fmt.Sprintf("%s: %d rows left out: %s", kind, rows, why))
	}
}

// serving returns the rows to which the kernels of a kind are fitted, and records why others are
// left out.
func (p *Published) serving(t *Target, framework string, kind Kind, rows []Sample) []Sample {
	drop := func(why string, gone func(s *Sample) bool) {
		kept := only(rows, func(s *Sample) bool { return !gone(s) })
		p.left(len(rows)-len(kept), kind, why)
		rows = kept
	}
	if kind.latent() {
		if kind == FP8LatentDecode && framework == "sglang" && t.GPU.Peak8 < 3e15 {
			drop("its backend has no kernels over FP8 on Hopper", func(*Sample) bool { return true })
		}
		return rows
	}
	if tabledOf(kind) != nil {
		return rows
	}
	if expertsOf(kind) != nil {
		drop("balanced scores of groups of experts tie, and touch about half of the experts", (*Sample).grouped)
		drop("a kernel for few tokens, beside the one for all", func(s *Sample) bool { return s.source == fewTokens })
		return rows
	}
	product := kind == GEMM || kind == FP8GEMM || kind == FP8BlockGEMM || kind == NVFP4GEMM
	switch {
	case product:
		drop(fmt.Sprintf("fewer than %d columns or inner elements", leastWidth), func(s *Sample) bool { return min(s.n, s.k) < leastWidth })
	case kind == Decode || kind == FP8Decode:
		drop(fmt.Sprintf("contexts below %d tokens", leastContext), func(s *Sample) bool { return s.context < leastContext })
	default:
		drop(fmt.Sprintf("prompts below %d tokens", leastPrompt), func(s *Sample) bool { return s.chunk < leastPrompt })
		drop("a window shorter than the prompt", func(s *Sample) bool { return s.window > 0 && s.window < s.chunk })
	}
	if g := &t.GPU; float64(g.Alone.L2)/float64(g.MemoryBandwidth) > launches {
		cold := map[string]bool{}
		for _, s := range t.Cold(rows) {
			cold[s.row] = true
		}
		drop("keys and values that the L2 may have kept, as the kernel was repeated on them", func(s *Sample) bool { return !cold[s.row] })
	}
	if !product {
		drop(fmt.Sprintf("heads wider than %d", widestHead), func(s *Sample) bool { return s.heads.Dim > widestHead })
	}
	if main := mainSource(rows); !product && main != "" {
		drop("another kernel than "+main, func(s *Sample) bool { return s.source != main })
	}
	switch {
	case framework == "trtllm" && (kind == Decode || kind == FP8Decode):
		drop(fmt.Sprintf("%d query heads for a KV head, and more", widestGroup), func(s *Sample) bool { return s.heads.Query/s.heads.KV >= widestGroup })
	case framework == "vllm" && kind == FP8GEMM:
		drop(fmt.Sprintf("%d inner elements, and more", longestInner), func(s *Sample) bool { return s.k >= longestInner })
	case framework == "vllm" && kind == FP8BlockGEMM:
		floor := shortest(rows)
		drop(fmt.Sprintf("launched one by one: below three times the shortest, %.0f us", floor*1e6), func(s *Sample) bool { return s.Seconds < 3*floor })
	}
	return rows
}

// mainSource returns the kernel with most rows, the first by name of equals.
func mainSource(rows []Sample) (main string) {
	count := map[string]int{}
	for i := range rows {
		count[rows[i].source]++
	}
	for i := range rows {
		s := rows[i].source
		if main == "" || count[s] > count[main] || count[s] == count[main] && s < main {
			main = s
		}
	}
	return main
}

// shortest returns the shortest time: that of the host's launches, if they bind.
func shortest(rows []Sample) float64 {
	least := math.Inf(1)
	for i := range rows {
		least = min(least, rows[i].Seconds)
	}
	return least
}

// fitForms fits each form that the kernels of a framework may have and keeps the one with the smallest loss. The held-out errors are
// those of a form chosen without the held-out shapes.
func (t *Target) fitForms(framework string, kind Kind, rows []Sample, o Options) (held Errors, ok bool, err error) {
	all := forms(framework, kind)
	fit := func(t *Target, rows []Sample) error {
		best := math.Inf(1)
		var chosen Target
		for _, form := range all {
			tried := *t
			form(&tried.GPU)
			if err := tried.fit(kind, rows, o); err != nil {
				return err
			}
			if loss := tried.Loss(rows); loss < best {
				best, chosen = loss, tried
			}
		}
		*t = chosen
		return nil
	}
	held, ok, err = t.heldOutBy(fit, rows, folds, nil)
	if err != nil {
		return Errors{}, false, err
	}
	return judged(held), ok, fit(t, rows)
}

// judged leaves out the errors of small collectives, which all take the time of a launch.
func judged(e Errors) Errors {
	var points []Point
	for _, p := range e.Relative {
		if p.Sample.gpus == 0 || p.Sample.bytes == 0 || p.Sample.bytes >= judgedBytes {
			points = append(points, p)
		}
	}
	return pooled(points)
}

// fewest is the least number of rows of a kind.
func fewest(kind Kind) int {
	if tabledOf(kind) != nil {
		return fewestSizes
	}
	return fewestRows
}

// cutlassTiles are the tiles of vLLM's FP8 products, which SGLang shares: one for each range of rows, without a split of k. On Blackwell,
// products of few rows swap their factors, so that 32 rows become a tile's columns.
// https://github.com/vllm-project/vllm/tree/main/csrc/quantization/w8a8/cutlass/c3x: scaled_mm_sm90_fp8_dispatch.cuh,
// scaled_mm_sm100_fp8_dispatch.cuh.
var cutlassTiles = []gpu.TileList{"64x64 <= 64, 64x128/2 <= 128, 128x128/2", "32x128 <= 16, 64x128 <= 64, 128x128/2"}

// forms returns the variants of a kind's kernels with parameters that a fit does not move.
func forms(framework string, kind Kind) []func(*gpu.Spec) {
	if kind.latent() {
		return latentForms(kind)
	}
	if k := tabledOf(kind); k != nil {
		return k.forms
	}
	if e := expertsOf(kind); e != nil {
		return expertForms(e)
	}
	typed := map[Kind]func(*gpu.Spec) *gpu.TypedGEMMSpec{
		FP8GEMM:      func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.FP8 },
		FP8BlockGEMM: func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.FP8Block },
		NVFP4GEMM:    func(g *gpu.Spec) *gpu.TypedGEMMSpec { return &g.NVFP4 },
	}[kind]
	if typed != nil {
		lists := []gpu.TileList{""}
		if kind == FP8GEMM && framework != "trtllm" {
			lists = append(lists, cutlassTiles...)
		}
		var all []func(*gpu.Spec)
		for _, list := range lists {
			all = append(all, func(g *gpu.Spec) {
				s := typed(g)
				*s = gpu.TypedGEMMSpec{Tiling: g.MatMul.Tiling}
				s.Tiles = list
				s.SplitOverhead, s.SplitTraffic = 0, 0 // k is not split
			})
		}
		return all
	}
	switch kind {
	case Decode, FP8Decode:
		var all []func(*gpu.Spec)
		for _, limit := range []int{0, 16} { // rows of a tensor-core tile
			all = append(all, func(g *gpu.Spec) {
				// Batches of equal contexts do not show how unequal ones share thread blocks; this assumes the method of the
				// GPUs that were measured.
				g.Decode.Split = gpu.SplitBalanced
				if kind == Decode {
					g.Decode.GroupLimit = limit
					return
				}
				g.DecodeFP8 = g.Decode
				g.DecodeFP8.GroupLimit = limit
			})
		}
		return all
	case Prefill:
		packs := func(packed bool) func(*gpu.Spec) { return func(g *gpu.Spec) { g.Prefill.PacksGroups = packed } }
		return []func(*gpu.Spec){packs(false), packs(true)}
	case FP8Prefill:
		return []func(*gpu.Spec){func(g *gpu.Spec) { g.PrefillFP8 = g.Prefill }}
	}
	return []func(*gpu.Spec){func(*gpu.Spec) {}}
}
