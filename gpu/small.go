package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// ElementwiseSpec holds the parameters of unfused kernels that pass over activations once: norms, activation functions, additions, copies.
// AttAcc's model uses them for look-ups only.
type ElementwiseSpec struct {
	Model    KernelModel    `toml:"model"`             // cost model of these kernels
	Memory   float64        `toml:"memory_efficiency"` // of the peak memory bandwidth, 0 to 1
	Ridge    float64        `toml:"ridge"`             // as in Efficiency
	Overhead units.Duration `toml:"overhead"`          // fixed time of each kernel
	// ActivationMemory replaces the memory efficiency for activation functions, whose exponentials also keep the SMs busy.
	ActivationMemory float64 `toml:"activation_memory_efficiency"`
	// NormOverhead and NormLatency are a norm's fixed time, and its time per element of a row: one thread block reduces a whole row.
	NormOverhead units.Duration `toml:"norm_overhead"`
	NormLatency  units.Duration `toml:"norm_element_latency"`
}

// Check has the rules of the section [gpu.elementwise].
func (e *ElementwiseSpec) Check(c *input.Check) {
	e.Model.check(c, ElementwiseRoofline)
	all := Efficiency{Compute: 1, Memory: e.Memory, Ridge: e.Ridge, Overhead: e.Overhead}
	all.Check(c) // arithmetic never binds
	c.Share("activation_memory_efficiency", e.ActivationMemory)
	duration(c, "norm_overhead", e.NormOverhead)
	duration(c, "norm_element_latency", e.NormLatency)
}

// FusedSpec holds the parameters of an iteration's small kernels, inside a graph and fused as by compilers and servers: a norm also adds
// the residual, a gated activation reads both halves, and two kernels copy the new keys and values into the cache. AttAcc's model has its
// own times for these kernels, and no copies.
type FusedSpec struct {
	Overhead units.Duration `toml:"overhead"` // of each kernel: launch in a graph, drain
	// Norm, Activation and Copy are the shares of the memory bandwidth that these kernels reach, above 1 if a large L2 holds the
	// activations.
	Norm       float64 `toml:"norm_memory_efficiency"`
	Activation float64 `toml:"activation_memory_efficiency"`
	Copy       float64 `toml:"copy_memory_efficiency"`
	// RowElement is the time per element of a row that one thread block reduces, in norms and in choosing the largest logit.
	RowElement units.Duration `toml:"row_element_latency"`
}

// Check has the rules of the section [gpu.fused].
func (f *FusedSpec) Check(c *input.Check) {
	duration(c, "overhead", f.Overhead)
	const inCache = 10 // times the memory's bandwidth, for an L2 that holds the activations
	for _, e := range []struct {
		key   string
		share float64
	}{{"norm_memory_efficiency", f.Norm}, {"activation_memory_efficiency", f.Activation}, {"copy_memory_efficiency", f.Copy}} {
		c.That(e.share > 0 && e.share <= inCache, e.key, e.share, "more than 0, at most %d", inCache)
	}
	duration(c, "row_element_latency", f.RowElement)
}

// rowBytes returns the bytes of m rows of width d, times the operands read or written.
func rowBytes(operands, m, d, elementBits int) float64 {
	if m <= 0 || d <= 0 {
		return 0
	}
	return elementBytes(float64(operands)*float64(m)*float64(d), elementBits)
}

// Elementwise returns the cost of a single kernel that moves operands·m·d elements: m rows of width d for each operand read and for the one
// written.
func (s *Spec) Elementwise(operands, m, d, elementBits int) Cost {
	e := &s.Pointwise
	return s.alone(rowBytes(operands, m, d, elementBits), e.Memory, 0, e.Overhead)
}

// Norm returns the cost of a single layer norm or RMS norm of m rows of width d.
func (s *Spec) Norm(m, d, elementBits int) Cost { return s.small().norm(true, m, d, elementBits) }

// Activation returns the cost of a single activation function on m rows of width d; a gated one also reads the gate.
func (s *Spec) Activation(m, d int, gated bool, elementBits int) Cost {
	return s.small().activation(true, activationOperands(gated), m, d, elementBits)
}

// activationOperands returns the number of operands that an activation function reads and writes.
func activationOperands(gated bool) int {
	if gated {
		return 3
	}
	return 2
}

// alone costs a single kernel that moves bytes at a share of the bandwidth, and reduces a row in row seconds.
func (s *Spec) alone(bytes, share, row float64, overhead units.Duration) Cost {
	if bytes <= 0 {
		return Cost{}
	}
	c := Cost{Bytes: bytes, Memory: bytes / (share * float64(s.MemoryBandwidth)), Latency: row, Overhead: overhead.Seconds()}
	return c.combine(s.Pointwise.Ridge)
}

// fused costs an iteration's kernels as alone does. Their time counts as arithmetic: instructions bind, so it scales with the clock.
func (s *Spec) fused(kernels int, bytes, share, row float64) Cost {
	if bytes <= 0 {
		return Cost{}
	}
	overhead := float64(kernels) * s.Fused.Overhead.Seconds()
	return Cost{Bytes: bytes, Compute: bytes / (share * float64(s.MemoryBandwidth)), Latency: row, Overhead: overhead}.combine(1)
}

// norm in an iteration first adds its input to the residual stream: both are read, and the stream and the result are written.
func (s measured) norm(alone bool, m, d, elementBits int) Cost {
	if e := &s.Pointwise; alone {
		return s.alone(rowBytes(2, m, d, elementBits), e.Memory, float64(d)*e.NormLatency.Seconds(), e.NormOverhead)
	}
	return s.reduced(4, m, d, elementBits)
}

func (s measured) activation(alone bool, operands, m, d, elementBits int) Cost {
	bytes := rowBytes(operands, m, d, elementBits)
	if e := &s.Pointwise; alone {
		return s.alone(bytes, e.ActivationMemory, 0, e.Overhead)
	}
	return s.fused(1, bytes, s.Fused.Activation, 0)
}

func (s measured) copies(kernels int, bytes float64) Cost {
	return s.fused(kernels, bytes, s.Fused.Copy, 0)
}

func (s measured) lookUp(m, d, elementBits int) Cost {
	return s.copies(1, rowBytes(2, m, d, elementBits))
}

func (s measured) choice(m, d, elementBits int) Cost { return s.reduced(1, m, d, elementBits) }

// reduced costs an iteration's kernel in which one thread block reduces each row.
func (s measured) reduced(operands, m, d, elementBits int) Cost {
	return s.fused(1, rowBytes(operands, m, d, elementBits), s.Fused.Norm, float64(d)*s.Fused.RowElement.Seconds())
}
