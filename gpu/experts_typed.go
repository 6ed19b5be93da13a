package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// ExpertTables has the expert kernels by element type, as far as the fit has them. A zero value stands for none, and then the parameters of
// plain products are used.
type ExpertTables struct {
	Whole    ExpertSpec `toml:"bf16,omitempty"`      // weights and activations of 16 bits
	FP8      ExpertSpec `toml:"fp8,omitempty"`       // weights and activations of FP8, one scale for a tensor or a row
	FP8Block ExpertSpec `toml:"fp8_block,omitempty"` // weights and activations of FP8, scales of 128 × 128 weights
	NVFP4    ExpertSpec `toml:"nvfp4,omitempty"`     // weights and activations of 4 bits, a scale for 16
	MXFP4    ExpertSpec `toml:"mxfp4,omitempty"`     // weights of 4 bits with a scale for 32, activations of 16 bits
	MXFP4FP8 ExpertSpec `toml:"mxfp4_fp8,omitempty"` // weights of 4 bits with a scale for 32, activations of FP8
	Int4     ExpertSpec `toml:"int4,omitempty"`      // 4-bit integer weights with a scale for a group, 16-bit activations
}

// ExpertSpec holds the parameters of the kernels that run tokens through their experts: sorting by expert, conversion of activations, both
// grouped products with the activation between, and the weighted sum.
type ExpertSpec struct {
	Efficiency // overhead: of all these kernels together
	// TileKnee, KRamp, StepLatency and WaveQuantization are as for products. Grouped products do not split k.
	TileKnee         float64 `toml:"tile_knee"`
	KRamp            float64 `toml:"k_ramp"`
	StepLatency      float64 `toml:"step_latency_ns"`
	WaveQuantization bool    `toml:"wave_quantization"`
	// RowLatency is the time of a k step of a lone block that each row of its tile adds.
	RowLatency float64 `toml:"row_latency_ps,omitempty"`
	// TileShare bounds the rows of a tile from below where the server chooses tiles by the number of tokens alone: they are at least this
	// share of the rows that an expert would have if the GPU had all pairs of a token and an expert, or the largest tile.
	TileShare float64 `toml:"tile_share,omitempty"`
	// ExpertTime is the time that each expert with tokens on the GPU adds: its entry in the lists from which blocks find their tiles.
	ExpertTime units.Duration `toml:"expert_time"`
	// PassMemory is the share of the memory bandwidth that passes over activations reach, above 1 if the L2 holds them.
	PassMemory float64 `toml:"pass_memory_efficiency"`
	// AbsentShare is the cost, in these passes, of a row whose expert is on another GPU, as a share of a row of the GPU's own experts:
	// vLLM's fused_moe keeps such rows and sums them as zeros.
	AbsentShare float64 `toml:"absent_share"`
}

// Check has the rules of a section of experts of one element type.
func (e *ExpertSpec) Check(c *input.Check) {
	e.Efficiency.Check(c)
	atLeast(c, "tile_knee", e.TileKnee, 0)
	atLeast(c, "k_ramp", e.KRamp, 0)
	atLeast(c, "step_latency_ns", e.StepLatency, 0)
	atLeast(c, "row_latency_ps", e.RowLatency, 0)
	atLeast(c, "tile_share", e.TileShare, 0)
	duration(c, "expert_time", e.ExpertTime)
	c.That(e.AbsentShare >= 0 && e.AbsentShare <= 1, "absent_share", e.AbsentShare, "0 to 1")
	const inCache = 10 // times the memory's bandwidth, for an L2 that holds the activations
	c.That(e.PassMemory > 0 && e.PassMemory <= inCache, "pass_memory_efficiency", e.PassMemory, "more than 0, at most %d", inCache)
}

// MXFP4Block is the number of MXFP4 weights that share an 8-bit scale.
const MXFP4Block = 32

// ExpertType is an element type of experts.
type ExpertType struct {
	Section  string // of [gpu.experts]
	Table    string // name of the type in AIConfigurator's tables
	widths   widths
	narrows  bool // its kernels also take 8-bit activations, which they narrow to the type's own width
	anyBlock bool // accepts scales of any group of weights
	of       func(*ExpertTables) *ExpertSpec
}

// ExpertTypes are the element types for which a fit may have kernels. Of several types that match a model, the first counts.
var ExpertTypes = [...]ExpertType{
	{"bf16", "bfloat16", uniform(16), false, false, func(t *ExpertTables) *ExpertSpec { return &t.Whole }},
	{"fp8", "fp8", widths{8, 8, 16, 0}, false, false, func(t *ExpertTables) *ExpertSpec { return &t.FP8 }},
	{"fp8_block", "fp8_block", widths{8, 8, 16, FP8Block}, false, false, func(t *ExpertTables) *ExpertSpec { return &t.FP8Block }},
	{"nvfp4", "nvfp4", widths{4, 4, 16, NVFP4Block}, true, false, func(t *ExpertTables) *ExpertSpec { return &t.NVFP4 }},
	{"mxfp4", "w4a16_mxfp4", widths{16, 4, 16, MXFP4Block}, false, false, func(t *ExpertTables) *ExpertSpec { return &t.MXFP4 }},
	{"mxfp4_fp8", "w4a8_mxfp4_mxfp8", widths{8, 4, 16, MXFP4Block}, false, false, func(t *ExpertTables) *ExpertSpec { return &t.MXFP4FP8 }},
	{"int4", "int4_wo", widths{16, 4, 16, int4Block}, false, true, func(t *ExpertTables) *ExpertSpec { return &t.Int4 }},
}

const int4Block = 64 // a scale of 16 bits for 128 weights

// In returns the parameters of the type's kernels on a GPU.
func (x *ExpertType) In(s *Spec) *ExpertSpec { return x.of(&s.Experts) }

// takes reports whether the type's kernels multiply elements of the given widths.
func (x *ExpertType) takes(w widths) bool {
	activations := w.In == x.widths.In || x.narrows && w.In <= 8
	whole := x.widths.Weights == 16 // has no scales
	return w.Weights == x.widths.Weights && activations && (whole || x.anyBlock || w.Block == x.widths.Block)
}

// Check has the rules of the section [gpu.experts].
func (t *ExpertTables) Check(c *input.Check) {
	for i := range ExpertTypes {
		given(c, ExpertTypes[i].Section, ExpertTypes[i].of(t))
	}
}

// expertKernels returns the expert kernels for the given widths, or nil if the fit has none.
func (s *Spec) expertKernels(w widths) *ExpertSpec {
	if s.MatMul.Model != GEMMTiles {
		return nil
	}
	for i := range ExpertTypes {
		if x := &ExpertTypes[i]; x.takes(w) {
			if e := x.In(s); e.Compute > 0 {
				return e
			}
			return nil
		}
	}
	return nil
}

// served returns the widths that servers actually use for experts of the given widths. If kernels multiply MXFP4 weights with 8-bit
// activations, servers narrow the 16-bit activations of a checkpoint: TensorRT-LLM on Blackwell (ModelConfig.get_mxfp4_quant_algo), and
// SGLang there (flashinfer_mxfp4_moe_precision = "default").
func (s *Spec) served(w widths) widths {
	if w.Weights == 4 && w.Block == MXFP4Block && s.Experts.MXFP4FP8.Compute > 0 {
		w.In = min(w.In, 8)
	}
	return w
}

// expertTileRows are the row counts of tiles in grouped products: CUTLASS, Triton and FlashInfer have 8 to 256.
var expertTileRows = [...]int{8, 16, 32, 64, 128, 256}

// expertTileColumns are the column counts of these tiles.
var expertTileColumns = [...]int{64, 128, 256}

// ExpertLoad is the distribution of a batch's rows over the experts of a GPU.
type ExpertLoad struct {
	Tokens  int     // tokens with at least one expert on the GPU
	All     float64 // pairs of a token and one of its experts, on any GPU
	Pairs   float64 // pairs of a token and one of its experts on the GPU: rows of all its experts
	Touched float64 // experts with at least one row
	Held    float64 // experts of the GPU
	tiles   [len(expertTileRows)]float64
}

// NewExpertLoad returns the load of experts with the given numbers of rows, for a batch of tokens that each take active experts.
func NewExpertLoad(tokens, active int, rows []int) ExpertLoad {
	l := ExpertLoad{All: float64(tokens * active), Held: float64(len(rows))}
	for _, n := range rows {
		if n <= 0 {
			continue
		}
		l.Pairs += float64(n)
		l.Touched++
		for i, t := range expertTileRows {
			l.tiles[i] += float64(ceilDiv(n, t))
		}
	}
	l.Tokens = min(tokens, int(l.Pairs))
	return l
}

// spread sets the tiles of experts whose tokens arrive independently, each with its share. The number of rows of an expert is nearly normal
// if it has several tiles; an expert with rows has at least one tile.
func (l *ExpertLoad) spread(shares []llm.ExpertShare, tokens int, busy float64) {
	for _, s := range shares {
		l.Held += float64(s.Experts)
		touched := 1 - portable.Pow(1-s.Share, float64(tokens))
		mean := float64(tokens) * s.Share * busy
		deviation := math.Sqrt(mean * max(0, 1-s.Share))
		for i, t := range expertTileRows {
			l.tiles[i] += float64(float64(s.Experts) * (touched + tilesAfterFirst(mean, deviation, float64(t))))
		}
	}
}

// tilesAfterFirst returns the expected number of tiles beyond the first, for rows with the given mean and standard deviation: the sum over
// j of the probability of more rows than j tiles hold.
func tilesAfterFirst(mean, deviation, tile float64) float64 {
	const far = 6         // standard deviations beyond which a probability counts as 0 or 1
	if deviation > tile { // then the last tile is half full on average
		return max(0, mean/tile-0.5-0.5/tile)
	}
	reach := float64(far * deviation)
	first := max(1, math.Ceil((mean-reach)/tile))
	tiles := first - 1
	for j := first; j*tile < mean+reach; j++ {
		// The logistic function approximates the normal one to within 0.01.
		tiles += 1 / (1 + portable.Exp(1.702*(float64(j*tile)+0.5-mean)/deviation))
	}
	return tiles
}

// Mean returns the mean of loads.
func Mean(loads []ExpertLoad) (l ExpertLoad) {
	share := 1 / float64(len(loads))
	tokens := 0.0
	for i := range loads {
		m := &loads[i]
		tokens += float64(share * float64(m.Tokens))
		l.All += float64(share * m.All)
		l.Pairs += float64(share * m.Pairs)
		l.Touched += float64(share * m.Touched)
		l.Held += float64(share * m.Held)
		for t := range m.tiles {
			l.tiles[t] += float64(share * m.tiles[t])
		}
	}
	l.Tokens = int(math.Ceil(tokens))
	return l
}

// Experts is the shape of the experts of one GPU. Matrices is 3 with a gate and 2 without.
type Experts struct{ Hidden, Width, Matrices int }

// ExpertsCost returns the cost of a GPU's experts, from routed tokens to the weighted sum, with kernels of the given type.
func (s *Spec) ExpertsCost(x *ExpertType, l *ExpertLoad, shape Experts) Cost {
	e := s.expertKernels(x.widths)
	if e == nil {
		return Cost{}
	}
	return e.cost(s, l, shape, x.widths)
}

// cost returns the cost of the experts.
func (e *ExpertSpec) cost(s *Spec, l *ExpertLoad, x Experts, w widths) Cost {
	if l.Pairs <= 0 || x.Hidden <= 0 || x.Width <= 0 {
		return Cost{}
	}
	up, down := (x.Matrices-1)*x.Width, x.Width
	c := e.product(s, l, float64(l.Tokens), up, x.Hidden, w).then(e.product(s, l, l.Pairs, x.Hidden, down, w))
	// Passes: tokens are converted, the first product's results are read and the activation's written, and rows are summed for each token.
	hidden, tokens, rows := float64(x.Hidden), float64(l.Tokens), l.Pairs+float64(e.AbsentShare*(l.All-l.Pairs))
	made, summed, gathered := float64(rows*float64(up)), float64(rows*hidden), float64(tokens*hidden) // 2·x is x + x to compilers
	bytes := float64(made*2) + float64(rows*float64(down)*float64(w.In)/8) + float64(summed*2) + float64(gathered*2)
	if w.In < 16 {
		bytes += float64(tokens * hidden * float64(16+w.In) / 8)
	}
	more := e.Overhead.Seconds() + float64(l.Touched*e.ExpertTime.Seconds()) + bytes/float64(e.PassMemory*float64(s.MemoryBandwidth))
	c.Overhead, c.Seconds = c.Overhead+more, c.Seconds+more
	return c
}

// product costs one grouped product of rows by n columns of each expert, with the fastest tile.
func (e *ExpertSpec) product(s *Spec, l *ExpertLoad, inputs float64, n, k int, w widths) (best Cost) {
	fn, fk := float64(n), float64(k)
	base := Cost{FLOPs: float64(2 * l.Pairs * fn * fk), Bytes: w.bytes(inputs*fk, l.Touched*fn*fk, l.Pairs*fn)}
	base.Memory = base.Bytes / float64(e.Memory*float64(s.MemoryBandwidth))
	rate := s.peak(w.rate())
	if w.rate() <= 4 {
		rate *= 2 // tensor cores double their rate each time the width halves
	}
	sm := rate / float64(s.SMs) * e.Compute
	fewest := e.TileShare * l.All / max(1, l.Held)
	for i, tm := range expertTileRows {
		if float64(tm) < fewest && i < len(expertTileRows)-1 {
			continue
		}
		base.Latency = float64(fk * (float64(e.StepLatency*1e-9) + float64(float64(tm)*e.RowLatency*1e-12)))
		for _, tn := range expertTileColumns {
			edge := 2 / (1/float64(tm) + 1/float64(tn))
			blocks := l.tiles[i] * float64(ceilDiv(n, tn))
			waves := max(1, blocks/float64(s.SMs))
			if e.WaveQuantization {
				waves = math.Ceil(waves)
			}
			c := base
			c.Compute = waves * 2 * float64(tm*tn) / float64(sm*edge/(edge+e.TileKnee)) * (fk + e.KRamp)
			if best.Seconds > 0 && max(c.Compute, c.Memory, c.Latency) >= best.Seconds {
				continue
			}
			if c.combined(e.Ridge); best.Seconds == 0 || c.Seconds < best.Seconds {
				best = c
				best.Executed = float64(2*l.tiles[i]*float64(tm)) * float64(ceilDiv(n, tn)*tn) * fk * float64(w.rate()) / 16
			}
		}
	}
	return best
}
