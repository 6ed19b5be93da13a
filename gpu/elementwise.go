package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// ElementwiseModel selects how norms, activation functions and residual
// additions are costed.
type ElementwiseModel string

// The models of element-wise kernels.
const (
	// ElementwiseRoofline moves bytes at a share of the bandwidth.
	ElementwiseRoofline ElementwiseModel = "roofline"
	// ElementwiseAttAcc is the model of AttAcc's published simulator: see
	// attacc.go.
	ElementwiseAttAcc ElementwiseModel = "attacc"
)

// ElementwiseSpec holds the parameters of kernels that pass over activations
// once: norms, activation functions, residual additions, embedding look-ups.
// ElementwiseAttAcc reads them for look-ups only.
type ElementwiseSpec struct {
	Model    ElementwiseModel `toml:"model"`             // how these kernels are costed
	Memory   float64          `toml:"memory_efficiency"` // of the peak memory bandwidth, 0 to 1
	Ridge    float64          `toml:"ridge"`             // as of Efficiency
	Overhead units.Duration   `toml:"overhead"`          // fixed time of each kernel
	// ActivationMemory replaces the memory efficiency for activation functions,
	// whose exponentials keep the SMs busy too.
	ActivationMemory float64 `toml:"activation_memory_efficiency"`
	// NormOverhead and NormLatency are the fixed time of a norm, and its time
	// per element of a row: one thread block reduces a whole row.
	NormOverhead units.Duration `toml:"norm_overhead"`
	NormLatency  units.Duration `toml:"norm_element_latency"`
}

// Check has the rules of the section [gpu.elementwise].
func (e *ElementwiseSpec) Check(c *input.Check) {
	input.OneOf(c, "model", e.Model, ElementwiseRoofline, ElementwiseAttAcc)
	all := Efficiency{Compute: 1, Memory: e.Memory, Ridge: e.Ridge, Overhead: e.Overhead}
	all.Check(c) // arithmetic never binds
	c.Share("activation_memory_efficiency", e.ActivationMemory)
	duration(c, "norm_overhead", e.NormOverhead)
	duration(c, "norm_element_latency", e.NormLatency)
}

// Elementwise returns the cost of a kernel that moves operands·m·d elements:
// m rows of width d, once for each operand read and for the one written.
func (s *Spec) Elementwise(operands, m, d, elementBits int) Cost {
	return s.pass(operands, m, d, elementBits, s.Pointwise.Memory)
}

// pass is Elementwise at a given memory efficiency.
func (s *Spec) pass(operands, m, d, elementBits int, efficiency float64) Cost {
	if m <= 0 || d <= 0 {
		return Cost{}
	}
	e := &s.Pointwise
	bytes := elementBytes(float64(operands)*float64(m)*float64(d), elementBits)
	c := Cost{Bytes: bytes, Memory: bytes / (efficiency * float64(s.MemoryBandwidth)), Overhead: e.Overhead.Seconds()}
	return c.combine(e.Ridge)
}

// Norm returns the cost of a layer norm or RMS norm of m rows of width d.
func (s *Spec) Norm(m, d, elementBits int) Cost {
	if s.Pointwise.Model == ElementwiseAttAcc {
		return s.attAccPass(attAccNorm, m, d, elementBits)
	}
	c := s.Elementwise(2, m, d, elementBits)
	if c.Bytes == 0 {
		return c
	}
	e := &s.Pointwise
	c.Overhead = e.NormOverhead.Seconds()
	c.Latency = float64(d) * e.NormLatency.Seconds()
	return c.combine(e.Ridge)
}

// Activation returns the cost of an activation function on m rows of width d;
// a gated one also reads the gate.
func (s *Spec) Activation(m, d int, gated bool, elementBits int) Cost {
	operands := 2
	if gated {
		operands = 3
	}
	if s.Pointwise.Model == ElementwiseAttAcc {
		law := attAccActivation
		law.operands = operands
		return s.attAccPass(law, m, d, elementBits)
	}
	return s.pass(operands, m, d, elementBits, s.Pointwise.ActivationMemory)
}
