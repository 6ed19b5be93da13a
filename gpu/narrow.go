package gpu

import (
	"cmp"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// NarrowKVSpec holds what decode attention takes to make numbers of keys and values narrower than
// 16 bits, where the cache is narrower than queries. Memory bounds a kernel whose times here are 0.
type NarrowKVSpec struct {
	// FP8, Int8 and Int4 are what an SM takes for an element of a key or value of that format.
	FP8  units.Duration `toml:"element_time_fp8"`
	Int8 units.Duration `toml:"element_time_int8"` // see element_time_fp8
	Int4 units.Duration `toml:"element_time_int4"` // see element_time_fp8
	// Once has tiles of tensor cores, in which the query heads of a group share an element that was converted.
	// Without it kernels on CUDA cores convert an element anew for each query head.
	Once bool `toml:"converted_once"`
}

// Check has the rules of the section [gpu.narrow_kv].
func (n *NarrowKVSpec) Check(c *input.Check) {
	duration(c, "element_time_fp8", n.FP8)
	duration(c, "element_time_int8", n.Int8)
	duration(c, "element_time_int4", n.Int4)
}

// converts returns the seconds in which the GPU makes numbers of narrow keys and values: read tokens, to which queries
// attend as often as attended.
func (s *Spec) converts(read, attended float64, h Heads) float64 {
	each, times := s.NarrowKV.Int8, attended*float64(h.Query)
	switch bits := cmp.Or(h.KVBits, h.ElementBits); {
	case bits >= h.ElementBits:
		return 0
	case bits <= 4:
		each = s.NarrowKV.Int4
	case h.KVFloat && s.decodesFP8(&s.attention().Decode):
		return 0 // in the times of these kernels
	case h.KVFloat:
		each = s.NarrowKV.FP8
	}
	if s.NarrowKV.Once {
		times = read * float64(h.KV)
	}
	return h.stored() * times * each.Seconds() / float64(s.SMs)
}

// widths are the bits of a product's elements: of what goes in, of weights, and of what comes
// out. Weights that are narrower than what they are multiplied by are widened on the way.
type widths struct {
	In, Weights, Out int
	Block            int // weights that share a scale of a byte; 0: none do
}

// NarrowGEMMCost is the cost of a product of factors of that many bits whose result has 16.
func (s *Spec) NarrowGEMMCost(m, n, k, bits, block int) Cost {
	return s.productCost(m, n, k, widths{In: bits, Weights: bits, Out: 16, Block: block})
}

// uniform is the same number of bits everywhere.
func uniform(bits int) widths { return widths{In: bits, Weights: bits, Out: bits} }

// rate returns the width at whose rate tensor cores multiply.
func (w widths) rate() int { return max(w.In, w.Weights) }

// bytes returns those of the elements of both factors and the product.
func (w widths) bytes(in, weights, out float64) float64 {
	bytes := float64(elementBytes(in, w.In)) + float64(elementBytes(weights, w.Weights)) + float64(elementBytes(out, w.Out))
	if w.Block > 0 {
		bytes += weights / float64(w.Block)
	}
	return bytes
}
