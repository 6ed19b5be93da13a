package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// FusedSpec holds the parameters of an iteration's small kernels, inside a graph and
// fused as compilers and servers fuse them: a norm adds the residual, a gated activation
// reads both halves, the new keys and values are two kernels that copy them into the
// cache. ElementwiseAttAcc has laws of its own, without the copies.
type FusedSpec struct {
	Overhead units.Duration `toml:"overhead"` // of each kernel: launch in a graph, drain
	// Norm, Activation and Copy are the shares of the memory bandwidth that these
	// kernels reach.
	Norm       float64 `toml:"norm_memory_efficiency"`
	Activation float64 `toml:"activation_memory_efficiency"`
	Copy       float64 `toml:"copy_memory_efficiency"`
	// RowElement is the time per element of a row that one thread block reduces: in
	// norms, and in choosing the largest logit.
	RowElement units.Duration `toml:"row_element_latency"`
}

// Check has the rules of the section [gpu.fused].
func (f *FusedSpec) Check(c *input.Check) {
	duration(c, "overhead", f.Overhead)
	c.Share("norm_memory_efficiency", f.Norm)
	c.Share("activation_memory_efficiency", f.Activation)
	c.Share("copy_memory_efficiency", f.Copy)
	duration(c, "row_element_latency", f.RowElement)
}

// small costs a kernel that moves operands·m·d elements, at a share of the bandwidth.
func (s *Spec) small(operands, m, d, elementBits int, efficiency float64) Cost {
	if m <= 0 || d <= 0 {
		return Cost{}
	}
	c := Cost{Bytes: elementBytes(float64(operands)*float64(m)*float64(d), elementBits), Overhead: s.Fused.Overhead.Seconds()}
	c.Compute = c.Bytes / (efficiency * float64(s.MemoryBandwidth)) // instructions bind: the clock counts
	return c
}

// reduced is small of a kernel in which one thread block reduces each row.
func (s *Spec) reduced(operands, m, d, elementBits int) Cost {
	c := s.small(operands, m, d, elementBits, s.Fused.Norm)
	if c.Bytes == 0 {
		return c
	}
	c.Latency = float64(d) * s.Fused.RowElement.Seconds()
	return c.combine(1)
}

// addNorm costs a norm of m rows of width d that first adds its input to the residual
// stream: both are read, the stream and the result are written.
func (s *Spec) addNorm(m, d, elementBits int) Cost {
	if s.Pointwise.Model == ElementwiseAttAcc {
		return s.attAccPass(attAccNorm, m, d, elementBits)
	}
	return s.reduced(4, m, d, elementBits)
}

// activation costs the activation function of m rows of width d.
func (s *Spec) activation(m, d int, gated bool, elementBits int) Cost {
	if s.Pointwise.Model == ElementwiseAttAcc {
		return s.Activation(m, d, gated, elementBits)
	}
	operands := 2
	if gated {
		operands = 3
	}
	return s.small(operands, m, d, elementBits, s.Fused.Activation).combine(1)
}

// copied costs copying m rows of width d, with kernels of equal size.
func (s *Spec) copied(kernels, m, d, elementBits int) Cost {
	return s.copies(kernels, elementBytes(2*float64(kernels)*float64(m)*float64(d), elementBits))
}

// appended costs the two kernels that write the keys and values of m tokens into the cache, with their scales where it has narrow ones.
func (s *Spec) appended(m int, h Heads) Cost {
	row := float64(elementBytes(2*float64(h.Dim), h.ElementBits)) + h.kvBytes() // of one token and head, read and written
	return s.copies(2, float64(m)*float64(h.KV)*row)
}

// copies costs kernels of equal size that move bytes in all.
func (s *Spec) copies(kernels int, bytes float64) Cost {
	if s.Pointwise.Model == ElementwiseAttAcc || bytes <= 0 {
		return Cost{}
	}
	c := Cost{Bytes: bytes, Overhead: float64(kernels) * s.Fused.Overhead.Seconds()}
	c.Compute = bytes / (s.Fused.Copy * float64(s.MemoryBandwidth)) // instructions bind, as in small
	return c.combine(1)
}

// choice costs finding the largest of d logits in each of m rows.
func (s *Spec) choice(m, d, elementBits int) Cost {
	if s.Pointwise.Model == ElementwiseAttAcc {
		return Cost{}
	}
	return s.reduced(1, m, d, elementBits)
}
