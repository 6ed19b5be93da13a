package gpu

import "math"

// GEMMModel selects how a matrix product is costed.
type GEMMModel string

// The matrix-product models.
const (
	// GEMMTiles takes the fastest of the thread-block tiles and split-k factors
	// that tensor-core libraries offer.
	GEMMTiles GEMMModel = "tiles"
	// GEMMAttAcc is the model of AttAcc's published simulator, which the L3
	// paper builds on: see attacc.go.
	GEMMAttAcc GEMMModel = "attacc"
)

// GEMMSpec holds the parameters of matrix products. GEMMAttAcc reads only the
// two efficiencies.
type GEMMSpec struct {
	Model GEMMModel `toml:"model"`
	Efficiency
	// TileKnee is the tile edge (harmonic mean of its two sides, in elements) at
	// which a thread block reaches half of its SM's rate: small tiles load more
	// operand bytes per FLOP from the L2 and shared memory.
	TileKnee float64 `toml:"tile_knee"`
	// KRamp is the number of k steps that a thread block spends filling its
	// pipeline and writing its tile, on top of the k that it multiplies.
	KRamp float64 `toml:"k_ramp"`
	// StepLatency is the time of one k step of a thread block that has its SM
	// for itself; k/splits of them follow one another.
	StepLatency float64 `toml:"step_latency_ns"`
	// SplitOverhead is the time of the reduction that a split k needs, and
	// SplitTraffic the share of its partial sums (32 bits, written and read)
	// that leaves the L2.
	SplitOverhead float64 `toml:"split_overhead_us"`
	SplitTraffic  float64 `toml:"split_traffic"`
	// WaveQuantisation rounds the thread blocks up to whole waves over the SMs.
	WaveQuantisation bool `toml:"wave_quantisation"`
}

func (g *GEMMSpec) validate(c *checker) {
	if g.Model != GEMMTiles && g.Model != GEMMAttAcc {
		c.bad(c.key("model"), g.Model, `"tiles" or "attacc"`)
	}
	g.Efficiency.validate(c)
	c.atLeast(c.key("tile_knee"), g.TileKnee, 0)
	c.atLeast(c.key("k_ramp"), g.KRamp, 0)
	c.atLeast(c.key("step_latency_ns"), g.StepLatency, 0)
	c.atLeast(c.key("split_overhead_us"), g.SplitOverhead, 0)
	c.atLeast(c.key("split_traffic"), g.SplitTraffic, 0)
}

// tile is the part of a product's output that one thread block computes.
type tile struct{ m, n int }

// gemmTiles are thread-block tiles that CUTLASS and cuBLAS offer for 16-bit
// tensor cores (https://github.com/NVIDIA/cutlass, profiler's default
// instances), and the skinny ones that they use for a few rows.
var gemmTiles = [...]tile{
	{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64},
	{32, 128}, {32, 64}, {16, 128}, {16, 64},
}

// maxSplitK is the largest number of thread blocks that share the k of a tile.
const maxSplitK = 32

// GEMM returns the seconds of the product of an m×k by a k×n matrix of
// elementBits-wide elements on one GPU; zero if a size is zero.
func (s *Spec) GEMM(m, n, k, elementBits int) float64 {
	return s.GEMMCost(m, n, k, elementBits).Seconds
}

// GEMMCost is GEMM with its parts.
//
// Every tile shape and split of k is costed, and the fastest wins, as a
// library's heuristic tries to: waves · tile FLOPs / rate of an SM against
// bytes / bandwidth. The result is monotone in m, n and k, since each candidate
// is and the candidates do not depend on the sizes.
func (s *Spec) GEMMCost(m, n, k, elementBits int) Cost {
	if m <= 0 || n <= 0 || k <= 0 {
		return Cost{}
	}
	fm, fn, fk := float64(m), float64(n), float64(k)
	base := Cost{
		FLOPs: 2 * fm * fn * fk, Bytes: elementBytes(fm*fk+fn*fk+fm*fn, elementBits),
		Overhead: s.MatMul.Overhead.Seconds(),
	}
	if s.MatMul.Model == GEMMAttAcc {
		return s.attAccGEMM(base, m, n, k, elementBits)
	}
	g := &s.MatMul
	bandwidth := g.Memory * float64(s.MemoryBandwidth)
	best := Cost{Seconds: math.Inf(1)}
	for _, t := range gemmTiles {
		blocks := float64(ceilDiv(m, t.m)) * float64(ceilDiv(n, t.n))
		edge := 2 / (1/float64(t.m) + 1/float64(t.n))
		smRate := s.peak(elementBits) / float64(s.SMs) * g.Compute * edge / (edge + g.TileKnee)
		stepTime := 2 * float64(t.m*t.n) / smRate
		for split := 1; split <= maxSplitK; split *= 2 {
			steps := fk / float64(split)
			c := base
			waves := max(1, blocks*float64(split)/float64(s.SMs))
			if g.WaveQuantisation {
				waves = math.Ceil(waves)
			}
			c.Compute = waves * stepTime * (steps + g.KRamp)
			c.Latency = steps * g.StepLatency * 1e-9
			c.Memory = base.Bytes / bandwidth
			if split > 1 {
				c.Memory += 8 * g.SplitTraffic * float64(split) * fm * fn / bandwidth
				c.Overhead += g.SplitOverhead * 1e-6
			}
			// The p-norm is at least its largest part: skip what cannot win.
			if max(c.Compute, c.Memory, c.Latency)+c.Overhead >= best.Seconds {
				continue
			}
			if c = c.combine(g.Ridge); c.Seconds < best.Seconds {
				best = c
			}
		}
	}
	return best
}
