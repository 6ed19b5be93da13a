package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// ExpertTables has the kernels of experts by element type, where the fit has some. The zero value of a type stands for none: experts then
// take the parameters of plain products.
type ExpertTables struct {
	Whole    ExpertSpec `toml:"bf16,omitempty"`      // weights and activations of 16 bits
	FP8      ExpertSpec `toml:"fp8,omitempty"`       // weights and activations of FP8, one scale for a tensor or a row
	FP8Block ExpertSpec `toml:"fp8_block,omitempty"` // weights and activations of FP8, scales of 128 × 128 weights
	NVFP4    ExpertSpec `toml:"nvfp4,omitempty"`     // weights and activations of 4 bits, a scale for 16
	MXFP4    ExpertSpec `toml:"mxfp4,omitempty"`     // weights of 4 bits with a scale for 32, activations of 16 bits
	MXFP4FP8 ExpertSpec `toml:"mxfp4_fp8,omitempty"` // weights of 4 bits with a scale for 32, activations of FP8
	Int4     ExpertSpec `toml:"int4,omitempty"`      // weights that are integers of 4 bits with a scale for a group, activations of 16 bits
}

// ExpertSpec holds the parameters of the kernels that take tokens through their experts: sorting by expert, the conversion of activations,
// both grouped products with the activation between, and the weighted sum.
type ExpertSpec struct {
	Efficiency // overhead: of all these kernels together
	// TileKnee, KRamp, StepLatency and WaveQuantization are those of products. Grouped products split no k.
	TileKnee         float64 `toml:"tile_knee"`
	KRamp            float64 `toml:"k_ramp"`
	StepLatency      float64 `toml:"step_latency_ns"`
	WaveQuantization bool    `toml:"wave_quantization"`
	// ExpertTime is what each expert of the GPU that has tokens adds: its entry in the lists by which blocks find their tiles.
	ExpertTime units.Duration `toml:"expert_time"`
	// PassMemory is the share of the memory bandwidth that passes over activations reach, above 1 where the L2 holds them.
	PassMemory float64 `toml:"pass_memory_efficiency"`
	// AbsentShare is what these passes take for a row of an expert that another GPU has, as a share of a row of the GPU's own: vLLM's
	// fused_moe keeps such rows, and sums them as zeros.
	AbsentShare float64 `toml:"absent_share"`
}

// Check has the rules of a section of experts of one element type.
func (e *ExpertSpec) Check(c *input.Check) {
	e.Efficiency.Check(c)
	atLeast(c, "tile_knee", e.TileKnee, 0)
	atLeast(c, "k_ramp", e.KRamp, 0)
	atLeast(c, "step_latency_ns", e.StepLatency, 0)
	duration(c, "expert_time", e.ExpertTime)
	c.That(e.AbsentShare >= 0 && e.AbsentShare <= 1, "absent_share", e.AbsentShare, "0 to 1")
	const inCache = 10 // times the memory's bandwidth, of an L2 that holds the activations
	c.That(e.PassMemory > 0 && e.PassMemory <= inCache, "pass_memory_efficiency", e.PassMemory, "more than 0, at most %d", inCache)
}

// MXFP4Block is how many weights of MXFP4 share a scale of 8 bits.
const MXFP4Block = 32

// ExpertType is an element type of experts.
type ExpertType struct {
	Section  string // of [gpu.experts]
	Table    string // as AIConfigurator's tables name the type
	widths   widths
	narrows  bool // its kernels also take activations of 8 bits, which they narrow
	anyBlock bool // scales of any group of weights
	of       func(*ExpertTables) *ExpertSpec
}

// ExpertTypes are all element types whose kernels a fit may have. Of several that fit a model the first counts.
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

// takes says that the type's kernels multiply elements of those widths.
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

// expertKernels returns the kernels of experts of those widths, nil where the fit has none of their type.
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

// served returns the widths with which servers multiply experts of those widths. Where there are kernels that multiply weights of MXFP4 with
// activations of 8 bits, they narrow activations that the checkpoint has in 16: TensorRT-LLM on Blackwell (ModelConfig.get_mxfp4_quant_algo) and
// SGLang there (flashinfer_mxfp4_moe_precision = "default").
func (s *Spec) served(w widths) widths {
	if w.Weights == 4 && w.Block == MXFP4Block && s.Experts.MXFP4FP8.Compute > 0 {
		w.In = min(w.In, 8)
	}
	return w
}

// expertTileRows are the rows of tiles of grouped products: CUTLASS, Triton and FlashInfer have 8 to 256.
var expertTileRows = [...]int{8, 16, 32, 64, 128, 256}

// expertTileColumns are the columns of these tiles.
var expertTileColumns = [...]int{64, 128, 256}

// ExpertLoad is how the rows of a batch lie on the experts of a GPU.
type ExpertLoad struct {
	Tokens  int     // of which an expert of the GPU takes one
	All     float64 // pairs of a token and an expert that it takes, on whichever GPU
	Pairs   float64 // of a token and an expert of the GPU that it takes: rows of all its experts
	Touched float64 // experts with at least one row
	tiles   [len(expertTileRows)]float64
}

// NewExpertLoad returns the load of experts that have so many rows each, of a batch of so many tokens that take active experts each.
func NewExpertLoad(tokens, active int, rows []int) ExpertLoad {
	l := ExpertLoad{All: float64(tokens * active)}
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

// spread sets the tiles of experts whose tokens come independently of each other, each by its share. Rows of an expert are nearly normal
// where it has several tiles; one with rows has one tile at least.
func (l *ExpertLoad) spread(shares []llm.ExpertShare, tokens int, busy float64) {
	for _, s := range shares {
		touched := 1 - portable.Pow(1-s.Share, float64(tokens))
		mean := float64(tokens) * s.Share * busy
		deviation := math.Sqrt(mean * max(0, 1-s.Share))
		for i, t := range expertTileRows {
			l.tiles[i] += float64(float64(s.Experts) * (touched + tilesAfterFirst(mean, deviation, float64(t))))
		}
	}
}

// tilesAfterFirst returns the expected tiles beyond the first of rows with that mean and standard deviation: the sum over j of the
// probability of more than j tiles' rows.
func tilesAfterFirst(mean, deviation, tile float64) float64 {
	const far = 6         // standard deviations, beyond which a probability is 0 or 1
	if deviation > tile { // the last tile is as likely half full as not
		return max(0, mean/tile-0.5-0.5/tile)
	}
	reach := float64(far * deviation)
	first := max(1, math.Ceil((mean-reach)/tile))
	tiles := first - 1
	for j := first; j*tile < mean+reach; j++ {
		// The logistic function stands for the normal one, which it meets within 0.01.
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
		for t := range m.tiles {
			l.tiles[t] += float64(share * m.tiles[t])
		}
	}
	l.Tokens = int(math.Ceil(tokens))
	return l
}

// Experts is the shape of the experts of one GPU: Matrices is 3 with a gate and 2 without.
type Experts struct{ Hidden, Width, Matrices int }

// ExpertsCost returns what the experts of a GPU take, from tokens that know their experts to the weighted sum, with kernels of that type.
func (s *Spec) ExpertsCost(x *ExpertType, l *ExpertLoad, shape Experts) Cost {
	e := s.expertKernels(x.widths)
	if e == nil {
		return Cost{}
	}
	return e.cost(s, l, shape, x.widths)
}

// cost returns what experts take.
func (e *ExpertSpec) cost(s *Spec, l *ExpertLoad, x Experts, w widths) Cost {
	if l.Pairs <= 0 || x.Hidden <= 0 || x.Width <= 0 {
		return Cost{}
	}
	up, down := (x.Matrices-1)*x.Width, x.Width
	c := e.product(s, l, float64(l.Tokens), up, x.Hidden, w).then(e.product(s, l, l.Pairs, x.Hidden, down, w))
	// Tokens are converted, the first product's results read and the activation's written, and rows summed for each token.
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

// product costs one grouped product of rows by n columns of each expert, by the fastest tile.
func (e *ExpertSpec) product(s *Spec, l *ExpertLoad, inputs float64, n, k int, w widths) (best Cost) {
	fn, fk := float64(n), float64(k)
	base := Cost{FLOPs: float64(2 * l.Pairs * fn * fk), Bytes: w.bytes(inputs*fk, l.Touched*fn*fk, l.Pairs*fn)}
	base.Memory = base.Bytes / float64(e.Memory*float64(s.MemoryBandwidth))
	base.Latency = float64(fk * e.StepLatency * 1e-9)
	rate := s.peak(w.rate())
	if w.rate() <= 4 {
		rate *= 2 // tensor cores double their rate with each halving of the width
	}
	sm := rate / float64(s.SMs) * e.Compute
	for i, tm := range expertTileRows {
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
