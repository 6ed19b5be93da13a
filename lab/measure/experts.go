package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// Kinds of experts, by element type.
const (
	Experts         Kind = "experts" // 16 bits
	FP8Experts      Kind = "fp8_experts"
	FP8BlockExperts Kind = "fp8_block_experts"
	NVFP4Experts    Kind = "nvfp4_experts"
	MXFP4Experts    Kind = "mxfp4_experts" // activations of 16 bits
	MXFP4FP8Experts Kind = "mxfp4_fp8_experts"
	Int4Experts     Kind = "int4_experts" // activations of 16 bits
)

// expertKind is a kind of experts, and their element type.
type expertKind struct {
	kind Kind
	*gpu.ExpertType
}

// expertKinds are the kinds of all element types: "experts" for 16 bits, else with the type as
// prefix.
var expertKinds = func() (all []expertKind) {
	for i := range gpu.ExpertTypes {
		x := &gpu.ExpertTypes[i]
		all = append(all, expertKind{Kind(strings.TrimPrefix(x.Section+"_", "bf16_") + string(Experts)), x})
	}
	return all
}()

// expertsOf returns the kind of experts, nil if kind is not of experts.
func expertsOf(kind Kind) *expertKind {
	i := slices.IndexFunc(expertKinds, func(e expertKind) bool { return e.kind == kind })
	if i < 0 {
		return nil
	}
	return &expertKinds[i]
}

// mixture is a row of experts.
type mixture struct {
	shares routing
	load   gpu.ExpertLoad
	ffn    gpu.Experts // on the measured GPU
}

// routing is how a table distributes tokens over experts.
type routing struct {
	tokens, experts, active, parallel int
	skewed                            bool
}

// fewTokens is a kernel of TensorRT-LLM for small batches, listed in addition to the ordinary one.
const fewTokens = "min_latency"

const skewedSpread, evenSpread = "power1.2", "balanced"

// moe reads a row of experts. Tensor parallelism divides their width, expert parallelism their number.
func (r *row) moe(s *Sample) {
	dtypes := make([]string, len(expertKinds))
	for i, e := range expertKinds {
		dtypes[i] = e.Table
	}
	name := r.element("dtype", dtypes)
	spread := r.element("spread", []string{skewedSpread, evenSpread})
	hidden, width, tp := r.integer("hidden", 1, 1<<20), r.integer("inter", 1, 1<<20), r.integer("tp", 1, 1<<10)
	s.shares = routing{r.integer("tokens", 1, 1<<20), r.integer("experts", 1, 1<<14), r.integer("topk", 1, 1<<14), r.integer("ep", 1, 1<<14), spread == skewedSpread}
	x := &s.shares
	if r.err == nil && (x.active > x.experts || x.experts%x.parallel != 0) {
		r.fail("experts", r.text("experts"), "at least topk, and a multiple of ep")
	}
	if r.err != nil {
		return
	}
	s.where = InGraph
	if r.has("kernel") {
		s.source = r.text("kernel")
	}
	s.kind = expertKinds[slices.Index(dtypes, name)].kind
	s.row = fmt.Sprintf("%s tokens=%d hidden=%d inter=%d topk=%d experts=%d tp=%d ep=%d spread=%s", name, x.tokens, hidden, width, x.active, x.experts, tp, x.parallel, spread)
	s.ffn = gpu.Experts{Hidden: hidden, Width: (width + tp - 1) / tp, Matrices: 3}
	s.load = x.load()
}

// load returns the load of the measured GPU.
func (x *routing) load() gpu.ExpertLoad {
	if !x.skewed {
		return gpu.NewExpertLoad(x.tokens, x.active, x.balanced())
	}
	// The source draws five times and times each draw once. Our draws follow the same law, with other seeds.
	const draws = 5
	var loads [draws]gpu.ExpertLoad
	for i := range loads {
		loads[i] = gpu.NewExpertLoad(x.tokens, x.active, x.draw(rand.New(rand.NewPCG(uint64(i), 12))))
	}
	return gpu.Mean(loads[:])
}

// balanced returns the rows of each expert on the first GPU: choice j of token t is expert t + j·⌈experts/active⌉, modulo experts.
func (x *routing) balanced() []int {
	rows := make([]int, x.experts)
	stride := (x.experts + x.active - 1) / x.active
	for j := range x.active {
		for e := range rows {
			rows[(e+j*stride)%x.experts] += (x.tokens - e + x.experts - 1) / x.experts
			if e >= x.tokens {
				break
			}
		}
	}
	return rows[:x.experts/x.parallel]
}

// draw returns the rows of each expert on the GPU with most rows. Shares of experts are drawn from a density x^-1.2, between 0.8 and 1 token,
// or between 0.01 and 2 if there are fewer pairs than experts (collector/helper.py of AIConfigurator). No expert gets more rows than there
// are tokens. Rows left over by rounding and this bound go to the experts with fewest rows, one GPU after the other.
func (x *routing) draw(r *rand.Rand) []int {
	const alpha = 1.2
	pairs := x.tokens * x.active
	low, high := 1.0, float64(x.tokens)*0.8
	if pairs <= x.experts {
		low, high = 0.01, 2
	}
	a, b := float64(math.Pow(high, 1-alpha)), float64(math.Pow(low, 1-alpha))
	shares, sum := make([]float64, x.experts), 0.0
	for i := range shares {
		shares[i] = math.Pow(float64((a-b)*r.Float64())+b, 1/(1-alpha))
		sum += shares[i]
	}
	rows, left := make([]int, x.experts), pairs
	for i := range rows {
		rows[i] = min(x.tokens, int(math.RoundToEven(shares[i]/sum*float64(pairs))))
		left -= rows[i]
	}
	own := x.experts / x.parallel
	for g := 0; left != 0; g = (g + 1) % x.parallel {
		of := rows[g*own:][:own]
		least, most := 0, 0
		for i, n := range of {
			if n < of[least] {
				least = i
			}
			if n > of[most] {
				most = i
			}
		}
		switch {
		case left > 0 && of[least] < x.tokens:
			of[least]++
			left--
		case left < 0 && of[most] > 0:
			of[most]--
			left++
		}
	}
	best, busiest := 0, 0
	for g := range x.parallel {
		total := 0
		for _, n := range rows[g*own:][:own] {
			total += n
		}
		if total > busiest {
			best, busiest = g, total
		}
	}
	return rows[best*own:][:own]
}

// expertParameters are those of experts of one element type.
func expertParameters(e *expertKind) []parameter {
	spec := func(t *Target) *gpu.ExpertSpec { return e.In(&t.GPU) }
	own := []parameter{
		number("compute_efficiency", lowEfficiency, 0.5, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("overhead", 0.1, 15, 1000, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		number("tile_knee", 0.1, 20, 500, func(t *Target) *float64 { return &spec(t).TileKnee }),
		number("k_ramp", 1, 100, 5000, func(t *Target) *float64 { return &spec(t).KRamp }),
		number("step_latency_ns", 0.01, 5, 50, func(t *Target) *float64 { return &spec(t).StepLatency }),
		duration("expert_time", 0.0001, 0.05, 5, func(t *Target) *units.Duration { return &spec(t).ExpertTime }),
		number("pass_memory_efficiency", 0.01, 0.5, 10, func(t *Target) *float64 { return &spec(t).PassMemory }),
		number("absent_share", 0.0001, 0.05, 1, func(t *Target) *float64 { return &spec(t).AbsentShare }),
	}
	if e.widens() {
		own = append(own, number("row_latency_ps", 0.001, 10, 500, func(t *Target) *float64 { return &spec(t).RowLatency }))
	}
	return own
}

// widens reports whether the weights are narrower than the activations. Servers choose the tiles of such kernels by the number of tokens:
// TensorRT-LLM's and FlashInfer's batched kernels (computeSelectedTileN), Triton's matmul_ogs (tokens_per_expt), Marlin (moe_block_size).
func (e *expertKind) widens() bool {
	return slices.Contains([]Kind{MXFP4Experts, MXFP4FP8Experts, Int4Experts}, e.kind)
}

// expertForms are variants of kernels of experts with parameters that a fit does not move.
func expertForms(e *expertKind) []func(*gpu.Spec) {
	form := func(waves bool, share float64) func(*gpu.Spec) {
		return func(g *gpu.Spec) {
			*e.In(g) = gpu.ExpertSpec{Efficiency: gpu.Efficiency{Compute: 0.5, Memory: 0.8, Ridge: startRidge}, PassMemory: 0.5, WaveQuantization: waves, TileShare: share}
		}
	}
	var all []func(*gpu.Spec)
	if e.kind != MXFP4FP8Experts && e.kind != Int4Experts { // all servers choose these tiles so
		all = append(all, form(true, 0), form(false, 0))
	}
	if e.widens() {
		all = append(all, form(true, 1), form(false, 1))
	}
	return all
}

// grouped says that a row's router chooses among groups of experts. Balanced scores tie there, so that about half of the experts are
// touched.
func (s *Sample) grouped() bool {
	return !s.shares.skewed && s.ffn.Hidden == 7168 && s.shares.experts == 256
}
