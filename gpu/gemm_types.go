package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TypedGEMMSpec holds the parameters of products whose factors both have one narrow element type. Activations are given in 16 bits, and a
// kernel converts them first.
type TypedGEMMSpec struct {
	Tiling
	// Tiles are the tiles of a library that has one for each range of rows and does not split k, such as CUTLASS in vLLM. Empty: the
	// library chooses among the tiles of 16-bit products.
	Tiles TileList `toml:"tiles"`
	// Convert is the fixed time of the kernel that converts activations, and ConvertMemory the share of the memory bandwidth that it
	// reaches, above 1 if the L2 holds them.
	Convert       units.Duration `toml:"convert_overhead"`
	ConvertMemory float64        `toml:"convert_memory_efficiency"`
	// Arrange is the part of the overhead in which the weights' scales are arranged for the kernel: at each call in the tables that the fit
	// is made to, once in servers. Iterations leave it out.
	Arrange units.Duration `toml:"arrange_overhead,omitempty"`
}

// Check has the rules of a section of products of one element type.
func (g *TypedGEMMSpec) Check(c *input.Check) {
	g.Tiling.Check(c)
	g.Tiles.check(c, "tiles")
	duration(c, "convert_overhead", g.Convert)
	c.That(g.Arrange >= 0 && (g.Overhead < 0 || g.Arrange <= g.Overhead), "arrange_overhead", g.Arrange, "0 to the overhead, %v", g.Overhead)
	const inCache = 10 // times the memory's bandwidth, for an L2 that holds the activations
	c.That(g.ConvertMemory > 0 && g.ConvertMemory <= inCache, "convert_memory_efficiency", g.ConvertMemory, "more than 0, at most %d", inCache)
}

// Numbers of weights that share a byte of scales, by which products select their kernels.
const (
	NVFP4Block = 16            // a scale of 8 bits for as many weights
	FP8Block   = 128 * 128 / 4 // a scale of 32 bits for 128 × 128 weights
)

// typed returns the kernels for products of the given widths, and the bits of their factors; nil if the fit has none. NVFP4's kernels also
// narrow activations to 4 bits, whatever the configuration says about them.
func (s *Spec) typed(w widths) (t *TypedGEMMSpec, bits int) {
	switch {
	case s.MatMul.Model != GEMMTiles || w.In > 8:
		return nil, 0
	case w.Weights == 4 && w.Block == NVFP4Block:
		t, bits = &s.NVFP4, 4
	case w.Weights == 8 && w.Block == FP8Block:
		t, bits = &s.FP8Block, 8
	case w.Weights == 8 && w.Block == 0:
		t, bits = &s.FP8, 8
	}
	if t == nil || t.Compute == 0 {
		return nil, 0
	}
	return t, bits
}

// cost returns the cost of a product with factors of the given bits and a 16-bit result.
func (g *TypedGEMMSpec) cost(s *Spec, m, n, k, bits, block int) Cost {
	fm, fn, fk := float64(m), float64(n), float64(k)
	w := widths{In: bits, Weights: bits, Out: 16, Block: block}
	base := Cost{FLOPs: 2 * fm * fn * fk, Bytes: w.bytes(fm*fk, fn*fk, fm*fn), Overhead: g.Overhead.Seconds()}
	peak := s.peak(bits)
	if bits <= 4 {
		peak *= 2 // tensor cores double their rate each time the width halves
	}
	var c Cost
	if g.Tiles == "" {
		c = g.fastest(s, base, peak, 1, m, n, k)
	} else {
		c = g.listed(s, base, peak, m, n, k)
	}
	c.Executed *= float64(bits) / 16
	bytes := float64(elementBytes(fm*fk, 16+bits)) // read in 16 bits, written in fewer
	convert := float64(bytes/(g.ConvertMemory*float64(s.MemoryBandwidth))) + g.Convert.Seconds()
	c.Bytes, c.Overhead, c.Seconds = c.Bytes+bytes, c.Overhead+convert, c.Seconds+convert
	return c
}

// listed costs a product with the tiles of the list. It keeps the cost monotone: more rows never take less than fewer rows with other
// tiles.
func (g *TypedGEMMSpec) listed(s *Spec, base Cost, peak float64, m, n, k int) (c Cost) {
	tiles, _ := g.Tiles.tiles()
	for i := range tiles {
		t := &tiles[i]
		at := min(m, t.most)
		rows, columns := ceilDiv(at, t.m*t.cluster)*t.cluster, ceilDiv(n, t.n)
		var whole [1]limits // k is not split
		g.costs(whole[:], s, base, t.tile, float64(rows)*float64(columns), peak, 1, at, n, k)
		if d := whole[0].cost(base, g.Ridge); d.Seconds > c.Seconds {
			c = d
			c.Executed = c.FLOPs * (float64(rows*t.m) * float64(columns*t.n) / (float64(m) * float64(n)))
		}
		if m <= t.most {
			break
		}
	}
	return c
}
