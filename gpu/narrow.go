package gpu

import (
	"cmp"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// NarrowKVSpec holds what decode attention takes to make numbers of keys and values narrower than
// 16 bits, where the cache is narrower than queries. Memory bounds a kernel whose times here are 0.
type NarrowKVSpec struct {
	// Time8 and Time4 are what an SM takes for an element of a key or value of 8 or 4 bits,
	// for each query head: kernels on CUDA cores read a KV head's keys and values anew for each
	// head of a group.
	Time8 units.Duration `toml:"element_time_8bit"`
	Time4 units.Duration `toml:"element_time_4bit"` // see element_time_8bit
}

// Check has the rules of the section [gpu.narrow_kv].
func (n *NarrowKVSpec) Check(c *input.Check) {
	duration(c, "element_time_8bit", n.Time8)
	duration(c, "element_time_4bit", n.Time4)
}

// converts returns the seconds in which the GPU makes numbers of the narrow keys and values of
// that many tokens, for all query heads.
func (s *Spec) converts(tokens float64, h Heads) float64 {
	each := s.NarrowKV.Time8
	switch bits := cmp.Or(h.KVBits, h.ElementBits); {
	case bits >= h.ElementBits:
		return 0
	case bits <= 4:
		each = s.NarrowKV.Time4
	}
	return 2 * float64(h.Dim) * float64(h.Query) * tokens * each.Seconds() / float64(s.SMs)
}

// widths are the bits of a product's elements: of what goes in, of weights, and of what comes
// out. Weights that are narrower than what they are multiplied by are widened on the way.
type widths struct {
	In, Weights, Out int
	Block            int // weights that share a scale of a byte; 0: none do
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
