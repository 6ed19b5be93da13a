package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
)

// GEMMSpec holds the parameters of matrix products. AttAcc's model uses only the two efficiencies and the overhead.
type GEMMSpec struct {
	Model KernelModel `toml:"model"` // cost model of these kernels
	Tiling
	// Narrow is the share of compute_efficiency that 8-bit products reach, if the fit has no kernels of their type.
	Narrow float64 `toml:"compute_share_8bit"`
}

// Tiling holds the parameters of products in tiles.
type Tiling struct {
	Efficiency
	// TileKnee is the tile edge (harmonic mean of its two sides, in elements) at which a thread block reaches half of its SM's rate:
	// smaller tiles load more operand bytes per FLOP from the L2 and shared memory.
	TileKnee float64 `toml:"tile_knee"`
	// KRamp is the number of k steps that a thread block spends filling its pipeline and writing its tile, in addition to k.
	KRamp float64 `toml:"k_ramp"`
	// StepLatency is the time of one k step of a thread block alone on its SM; k/splits of them run one after another.
	StepLatency float64 `toml:"step_latency_ns"`
	// SplitOverhead is the time of the reduction after a split of k. SplitTraffic is the share of its partial sums (32 bits, written and
	// read) that leaves the L2.
	SplitOverhead float64 `toml:"split_overhead_us"`
	SplitTraffic  float64 `toml:"split_traffic"`
	// TileStep is the granularity of a tile's rows: tiles are shortened to cover the rows evenly, in multiples of it (8 for Hopper's
	// wgmma). 0: only the listed sizes.
	TileStep int `toml:"tile_step"`
	// WaveQuantization rounds the thread blocks up to whole waves over the SMs.
	WaveQuantization bool `toml:"wave_quantization"`
}

// Check has the rules of the section [gpu.gemm].
func (g *GEMMSpec) Check(c *input.Check) {
	g.Model.check(c, GEMMTiles)
	g.Tiling.Check(c)
	c.Share("compute_share_8bit", g.Narrow)
}

// Check has the rules of a section's tiles.
func (g *Tiling) Check(c *input.Check) {
	g.Efficiency.Check(c)
	input.Within(c, "tile_step", g.TileStep, 0, 256)
	atLeast(c, "tile_knee", g.TileKnee, 0)
	atLeast(c, "k_ramp", g.KRamp, 0)
	atLeast(c, "step_latency_ns", g.StepLatency, 0)
	atLeast(c, "split_overhead_us", g.SplitOverhead, 0)
	atLeast(c, "split_traffic", g.SplitTraffic, 0)
}

type tile struct{ m, n int } // the part of a product's output computed by one thread block

// cut returns the tile shortened, in steps, to the rows that tiles need to cover m rows evenly; without steps, the tile itself.
func (t tile) cut(m, step int) tile {
	if step > 0 {
		tiles := ceilDiv(m, t.m)
		t.m = min(t.m, ceilDiv(ceilDiv(m, tiles), step)*step)
	}
	return t
}

// gemmTiles are the thread-block tiles of CUTLASS and cuBLAS for 16-bit tensor cores (https://github.com/NVIDIA/cutlass, profiler's default
// instances), and their skinny tiles for few rows.
var gemmTiles = [...]tile{
	{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64},
	{32, 128}, {32, 64}, {16, 128}, {16, 64},
}

// splitsK are the possible numbers of thread blocks that share the k of a tile.
var splitsK = [...]float64{1, 2, 4, 8, 16, 32}

// GEMMCost is productCost with all elements elementBits wide.
func (s *Spec) GEMMCost(m, n, k, elementBits int) Cost {
	return s.productCost(m, n, k, uniform(elementBits))
}

// productCost returns the cost of multiplying an m×k by a k×n matrix of weights on one GPU, in a graph.
func (s *Spec) productCost(m, n, k int, w widths) Cost {
	if m <= 0 || n <= 0 || k <= 0 {
		return Cost{}
	}
	if t, bits := s.typed(w); t != nil {
		return t.cost(s, m, n, k, bits, w.Block)
	}
	fm, fn, fk := float64(m), float64(n), float64(k)
	base := Cost{FLOPs: 2 * fm * fn * fk, Bytes: w.bytes(fm*fk, fn*fk, fm*fn), Overhead: s.MatMul.Overhead.Seconds()}
	return s.by(s.MatMul.Model).product(base, m, n, k, w.rate())
}

// product costs every tile shape and split of k, and takes the fastest, as a library's heuristic tries to: waves · tile FLOPs / rate of an
// SM against bytes / bandwidth. The result is monotone in m, n and k, since each candidate is, and the candidates do not depend on the
// sizes.
func (s measured) product(base Cost, m, n, k, elementBits int) Cost {
	share := 1.0
	if elementBits <= 8 {
		share = s.MatMul.Narrow
	}
	best := s.MatMul.fastest(s.Spec, base, s.peak(elementBits), share, m, n, k)
	if elementBits <= 8 {
		best.Executed /= 2
	}
	return best
}

// fastest costs a product whose tiles reach the given share of compute_efficiency of the peak.
func (g *Tiling) fastest(s *Spec, base Cost, peak, share float64, m, n, k int) Cost {
	// A candidate's p-norm is at least its largest part. Starting with the candidate with the smallest bound, few others need their p-norm,
	// the most expensive step.
	var candidates [len(gemmTiles) * len(splitsK)]limits
	var bounds [len(candidates)]float64
	first := 0
	for i, t := range gemmTiles {
		t = t.cut(m, g.TileStep)
		blocks := float64(ceilDiv(m, t.m)) * float64(ceilDiv(n, t.n))
		g.costs(candidates[i*len(splitsK):][:len(splitsK)], s, base, t, blocks, peak, share, m, n, k)
	}
	for i := range candidates {
		c := &candidates[i]
		bounds[i] = max(c.compute, c.memory, c.latency) + c.overhead
		if bounds[i] < bounds[first] {
			first = i
		}
	}
	best, at := candidates[first].cost(base, g.Ridge), first
	for i := range candidates {
		if i == first || bounds[i] >= best.Seconds {
			continue
		}
		if c := candidates[i].cost(base, g.Ridge); c.Seconds < best.Seconds {
			best, at = c, i
		}
	}
	t := gemmTiles[at/len(splitsK)].cut(m, g.TileStep)
	padded := float64(ceilDiv(m, t.m)*t.m) * float64(ceilDiv(n, t.n)*t.n)
	best.Executed = best.FLOPs * (padded / (float64(m) * float64(n)))
	return best
}

// limits are the parts of a candidate's cost, in seconds.
type limits struct{ compute, memory, latency, overhead float64 }

func (l *limits) cost(base Cost, ridge float64) Cost {
	base.Compute, base.Memory, base.Latency, base.Overhead = l.compute, l.memory, l.latency, l.overhead
	return base.combine(ridge)
}

// costs sets the parts of a product's cost with the given number of thread blocks of a tile, for each split.
func (g *Tiling) costs(costs []limits, s *Spec, base Cost, t tile, blocks, peak, share float64, m, n, k int) {
	edge := 2 / (1/float64(t.m) + 1/float64(t.n))
	smRate := peak / float64(s.SMs) * g.Compute * edge / (edge + g.TileKnee) * share
	stepTime := 2 * float64(t.m*t.n) / smRate
	bandwidth := g.Memory * float64(s.MemoryBandwidth)
	memory := base.Bytes / bandwidth
	partials := 8 * g.SplitTraffic * float64(m) * float64(n) / bandwidth
	for i := range costs {
		split := splitsK[i]
		steps := float64(k) / split
		waves := max(1, blocks*split/float64(s.SMs))
		if g.WaveQuantization {
			waves = math.Ceil(waves)
		}
		c := limits{
			compute: waves * stepTime * (steps + g.KRamp), memory: memory,
			latency: steps * g.StepLatency * 1e-9, overhead: base.Overhead,
		}
		if split > 1 {
			c.memory += float64(partials * split)
			c.overhead += float64(g.SplitOverhead * 1e-6)
		}
		costs[i] = c
	}
}
