package gpu

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Spec describes one GPU and how well its kernels use it. It is read-only
// while a simulation runs.
type Spec struct {
	Name string `toml:"name"` // of the GPU, as results show it
	// MemoryCapacity is the GPU's memory; MemoryReserve is the part that no
	// tensor may use (driver context, collectives' buffers, fragmentation).
	MemoryCapacity units.Bytes `toml:"memory_capacity"`
	MemoryReserve  units.Bytes `toml:"memory_reserve"`
	// Peak16 and Peak8 are dense tensor-core rates for 16-bit and 8-bit
	// elements (vendor's data sheet, without sparsity).
	Peak16          units.FLOPRate  `toml:"peak_16bit"`
	Peak8           units.FLOPRate  `toml:"peak_8bit"`
	MemoryBandwidth units.Bandwidth `toml:"memory_bandwidth"` // peak of the GPU's memory (data sheet)
	SMs             int             `toml:"sms"`              // streaming multiprocessors
	// PCIeGeneration is that of the GPU's 16 lanes to the host (data sheet); a
	// node's tree may run them slower.
	PCIeGeneration int `toml:"pcie_generation"`

	MatMul     GEMMSpec        `toml:"gemm"`
	Prefill    PrefillSpec     `toml:"prefill_attention"`
	Decode     DecodeSpec      `toml:"decode_attention"`
	Pointwise  ElementwiseSpec `toml:"elementwise"`
	Collective AllReduceSpec   `toml:"all_reduce"`
}

// Efficiency is what every kernel's roofline has: the shares of peak that it
// reaches far from the ridge, how round the ridge is, and a fixed time.
type Efficiency struct {
	Compute  float64        `toml:"compute_efficiency"` // of the peak arithmetic rate, 0 to 1
	Memory   float64        `toml:"memory_efficiency"`  // of the peak memory bandwidth, 0 to 1
	Ridge    float64        `toml:"ridge"`              // p of the p-norm, at least 1; 0: the sharp maximum
	Overhead units.Duration `toml:"overhead"`           // fixed time of each kernel
}

// AttentionModel selects how prefill and decode attention are costed.
type AttentionModel string

// The attention models.
const (
	// AttentionFlash is one fused kernel that keeps scores on the chip: see
	// PrefillSpec and DecodeSpec.
	AttentionFlash AttentionModel = "flash"
	// AttentionAttAcc is the model of AttAcc's published simulator: see attacc.go.
	AttentionAttAcc AttentionModel = "attacc"
)

func (m AttentionModel) validate(c *checker) {
	if m != AttentionFlash && m != AttentionAttAcc {
		c.bad(c.key("model"), m, `"flash" or "attacc"`)
	}
}

// validate reports the fields that no GPU can have.
func (e *Efficiency) validate(c *checker) {
	c.share(c.key("compute_efficiency"), e.Compute)
	c.share(c.key("memory_efficiency"), e.Memory)
	if e.Ridge != 0 && !(e.Ridge >= 1 && e.Ridge <= 100) { // NaN is outside
		c.bad(c.key("ridge"), e.Ridge, "0 (sharp), or 1 to 100")
	}
	c.duration(c.key("overhead"), e.Overhead)
}

// checker collects what Validate finds, with keys relative to the GPU's
// section.
type checker struct {
	section string
	errs    []*input.Error
}

func (c *checker) key(name string) string {
	if c.section == "" {
		return name
	}
	return c.section + "." + name
}

func (c *checker) bad(key string, value any, expected string) {
	c.errs = append(c.errs, &input.Error{Key: key, Value: fmt.Sprint(value), Expected: expected})
}

// share reports v outside (0, 1]; NaN is outside.
func (c *checker) share(key string, v float64) {
	if !(v > 0 && v <= 1) {
		c.bad(key, v, "more than 0, at most 1")
	}
}

// atLeast reports v outside [low, 1e9]; NaN is outside.
func (c *checker) atLeast(key string, v, low float64) {
	if !(v >= low && v <= 1e9) {
		c.bad(key, v, fmt.Sprintf("%v to 1e9", low))
	}
}

func (c *checker) duration(key string, d units.Duration) {
	if d < 0 || d > units.Second {
		c.bad(key, d, "0ps to 1s")
	}
}

func (c *checker) bandwidth(key string, b units.Bandwidth) {
	if !(b >= 1 && b <= 1e18) {
		c.bad(key, b, "1B/s to 1000000TB/s")
	}
}

// Validate reports the fields that no GPU can have; keys are relative to the
// GPU's section.
func (s *Spec) Validate() []*input.Error {
	var c checker
	if s.MemoryCapacity < 1 || s.MemoryCapacity > 1024*units.TiB { // times 4,096 GPUs it is an int64
		c.bad("memory_capacity", s.MemoryCapacity, "1B to 1024TiB")
	}
	if s.MemoryReserve < 0 || s.MemoryReserve >= max(1, s.MemoryCapacity) {
		c.bad("memory_reserve", s.MemoryReserve, fmt.Sprintf("0B up to less than memory_capacity = %v", s.MemoryCapacity))
	}
	for _, peak := range []struct {
		key  string
		rate units.FLOPRate
	}{{"peak_16bit", s.Peak16}, {"peak_8bit", s.Peak8}} {
		if !(peak.rate >= 1 && peak.rate <= 1e21) {
			c.bad(peak.key, peak.rate, "1FLOP/s to 1000000PFLOP/s")
		}
	}
	c.bandwidth("memory_bandwidth", s.MemoryBandwidth)
	if s.SMs < 1 || s.SMs > 1<<20 {
		c.bad("sms", s.SMs, "1 to 1048576")
	}
	if s.PCIeGeneration < 3 || s.PCIeGeneration > 6 {
		c.bad("pcie_generation", s.PCIeGeneration, "3 to 6")
	}
	c.section = "gemm"
	s.MatMul.validate(&c)
	c.section = "prefill_attention"
	s.Prefill.validate(&c)
	c.section = "decode_attention"
	s.Decode.validate(&c)
	c.section = "elementwise"
	s.Pointwise.validate(&c)
	c.section = "all_reduce"
	s.Collective.validate(&c)
	return c.errs
}

// peak returns the arithmetic rate for elements of the given width.
func (s *Spec) peak(bits int) float64 {
	if bits <= 8 {
		return float64(s.Peak8)
	}
	return float64(s.Peak16)
}

// Heads is the shape of an attention layer on one GPU.
type Heads struct {
	Query, KV   int // query heads; key-value heads, a divisor of Query
	Dim         int // elements of one head's q, k or v
	ElementBits int
}

// group returns the query heads that share one KV head.
func (h Heads) group() int { return max(1, h.Query/max(1, h.KV)) }

// UsableMemory returns the memory of one GPU that tensors may use.
func (s *Spec) UsableMemory() units.Bytes { return s.MemoryCapacity - s.MemoryReserve }
