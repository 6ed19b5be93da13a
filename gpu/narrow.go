package gpu

import (
	"cmp"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// NarrowKVSpec holds the time in which decode attention converts keys and values that are narrower than 16 bits, and narrower than queries.
// If a time is 0, memory bounds the kernel.
type NarrowKVSpec struct {
	// FP8, Int8 and Int4 are an SM's time for one element of a key or value of that format.
	FP8  units.Duration `toml:"element_time_fp8"`
	Int8 units.Duration `toml:"element_time_int8"` // see element_time_fp8
	Int4 units.Duration `toml:"element_time_int4"` // see element_time_fp8
	// Once selects tensor-core tiles, in which a group's query heads share converted elements. Otherwise kernels on CUDA cores convert an
	// element again for each query head.
	Once bool `toml:"converted_once"`
}

// Check has the rules of the section [gpu.narrow_kv].
func (n *NarrowKVSpec) Check(c *input.Check) {
	duration(c, "element_time_fp8", n.FP8)
	duration(c, "element_time_int8", n.Int8)
	duration(c, "element_time_int4", n.Int4)
}

// converts returns the seconds in which the GPU converts narrow keys and values: read is the number of tokens, attended how often queries
// attend to them.
func (s *Spec) converts(read, attended float64, h Heads) float64 {
	each, times := s.NarrowKV.Int8, attended*float64(h.Query)
	switch bits := cmp.Or(h.KVBits, h.ElementBits); {
	case bits >= h.ElementBits:
		return 0
	case bits <= 4:
		each = s.NarrowKV.Int4
	case h.KVFloat && s.decodesFP8(&s.attention().Decode):
		return 0 // included in these kernels' times
	case h.KVFloat:
		each = s.NarrowKV.FP8
	}
	if s.NarrowKV.Once {
		times = read * float64(h.KV)
	}
	return h.stored() * times * each.Seconds() / float64(s.SMs)
}

// widths are the bits of a product's elements: inputs, weights and outputs. Weights narrower than the inputs are widened on the way.
type widths struct {
	In, Weights, Out int
	Block            int // weights that share a byte of scales; 0: no scales
}

// NarrowGEMMCost is the cost of a product with factors of the given bits and a 16-bit result.
func (s *Spec) NarrowGEMMCost(m, n, k, bits, block int) Cost {
	return s.productCost(m, n, k, widths{In: bits, Weights: bits, Out: 16, Block: block})
}

// uniform returns equal widths everywhere.
func uniform(bits int) widths { return widths{In: bits, Weights: bits, Out: bits} }

// rate returns the width that determines the rate of tensor cores.
func (w widths) rate() int { return max(w.In, w.Weights) }

// bytes returns the bytes of the elements of both factors and the product.
func (w widths) bytes(in, weights, out float64) float64 {
	bytes := float64(elementBytes(in, w.In)) + float64(elementBytes(weights, w.Weights)) + float64(elementBytes(out, w.Out))
	if w.Block > 0 {
		bytes += weights / float64(w.Block)
	}
	return bytes
}
