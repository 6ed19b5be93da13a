package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// AllReduceMethod is the method of servers' all-reduces.
type AllReduceMethod string

// The methods.
const (
	// AllReduceDirect takes the fastest of the direct kernels, the switch and NCCL up to SmallLimit bytes, and beyond it the faster of
	// switch and NCCL, as vLLM, SGLang and TensorRT-LLM do.
	AllReduceDirect AllReduceMethod = "direct"
	// AllReduceNCCL always takes NCCL.
	AllReduceNCCL AllReduceMethod = "nccl"
)

// AllReduceSpec holds the parameters of an all-reduce over NVLink, inside a CUDA graph. Bandwidths are for one direction of one GPU's
// links; a "per GPU" time is multiplied by the number of GPUs.
type AllReduceSpec struct {
	Model  KernelModel     `toml:"model"`  // cost model of these kernels
	Method AllReduceMethod `toml:"method"` // direct kernels or NCCL for small sizes
	// Up to SmallLimit bytes a direct kernel reads its peers' memory. It reads either all of it from T−1 peers (one-shot), or its own share
	// and then the others' results, with one more synchronisation (two-shot).
	SmallLimit          units.Bytes     `toml:"small_limit"`
	SmallLatency        units.Duration  `toml:"small_latency"`               // direct: one synchronisation
	SmallLatencyPerGPU  units.Duration  `toml:"small_latency_per_gpu"`       // its growth with each GPU
	SmallBandwidth      units.Bandwidth `toml:"small_bandwidth"`             // direct: reading the peers' copies
	SecondShotLatency   units.Duration  `toml:"second_shot_latency"`         // direct: the second synchronisation of two shots
	SecondShotPerGPU    units.Duration  `toml:"second_shot_latency_per_gpu"` // its growth with each GPU
	SecondShotBandwidth units.Bandwidth `toml:"second_shot_bandwidth"`       // direct: moving shares in two shots
	Protocols
	// Skew is the delay of the slowest GPU behind a mean one, as a share of the clock-bound work since the last all-reduce: chips differ in
	// speed, and all wait for the slowest.
	Skew float64 `toml:"skew"`
	// LatencySlope is the growth of Latency in AttAcc's model, in nanoseconds per byte of a step.
	LatencySlope float64 `toml:"latency_slope_ns_per_byte"`
}

// Check has the rules of the section [gpu.all_reduce].
func (a *AllReduceSpec) Check(c *input.Check) {
	a.Model.check(c, AllReduceMeasured)
	input.OneOf(c, "method", a.Method, AllReduceDirect, AllReduceNCCL)
	c.That(a.SmallLimit >= 0, "small_limit", a.SmallLimit, "at least 0B")
	duration(c, "small_latency", a.SmallLatency)
	duration(c, "small_latency_per_gpu", a.SmallLatencyPerGPU)
	duration(c, "second_shot_latency", a.SecondShotLatency)
	duration(c, "second_shot_latency_per_gpu", a.SecondShotPerGPU)
	if a.SmallLimit > 0 {
		bandwidth(c, "small_bandwidth", a.SmallBandwidth)
		bandwidth(c, "second_shot_bandwidth", a.SecondShotBandwidth)
	}
	a.Protocols.Check(c)
	c.That(a.Skew >= 0 && a.Skew <= 1, "skew", a.Skew, "0 to 1")
	atLeast(c, "latency_slope_ns_per_byte", a.LatencySlope, 0)
}

// AllReduceCost returns the cost of summing n bytes over the given number of GPUs, each of which ends with the result; it is 0 for one GPU
// or no bytes. Bytes is what each GPU sends: 2(T−1)/T · n in the bandwidth-optimal schedule (Patarasuk and Yuan, 2009,
// https://doi.org/10.1016/j.jpdc.2008.09.002), and half of that in AttAcc's. Memory is the time of the transfer.
func (s *Spec) AllReduceCost(gpus int, n units.Bytes) Cost {
	if gpus <= 1 || n <= 0 {
		return Cost{}
	}
	return s.by(s.Collective.Model).allReduce(gpus, n)
}

func (s measured) allReduce(gpus int, n units.Bytes) Cost {
	a, t, bytes := &s.Collective, float64(gpus), float64(n)
	c := Cost{Bytes: 2 * (t - 1) / t * bytes}
	if a.Method == AllReduceNCCL {
		if own := &s.Collectives.AllReduce; *own != (Protocols{}) {
			return own.cost(c, t, bytes/t)
		}
		return a.cost(c, t, bytes/t)
	}
	best := a.cost(c, t, bytes/t)
	if s.Switch != (SwitchSpec{}) {
		if by := s.Switch.cost(c, t, bytes); by.Seconds < best.Seconds {
			best = by
		}
	}
	if n <= a.SmallLimit {
		if direct := a.direct(c, t, bytes); direct.Seconds < best.Seconds {
			best = direct
		}
	}
	return best
}

// direct costs the direct kernel with the faster of its two schedules.
func (a *AllReduceSpec) direct(c Cost, t, bytes float64) Cost {
	one, two := a.shot(c, t, bytes, false), a.shot(c, t, bytes, true)
	if two.Seconds < one.Seconds {
		return two
	}
	return one
}

// shot costs one of the direct kernel's schedules.
func (a *AllReduceSpec) shot(c Cost, t, bytes float64, two bool) Cost {
	c.Overhead = a.SmallLatency.Seconds() + float64(t*a.SmallLatencyPerGPU.Seconds())
	c.Memory = (t - 1) * bytes / float64(a.SmallBandwidth)
	if two {
		c.Overhead += a.SecondShotLatency.Seconds() + float64(t*a.SecondShotPerGPU.Seconds())
		c.Memory = 2 * (t - 1) / t * bytes / float64(a.SecondShotBandwidth)
	}
	return c.combine(0)
}

// MethodCost is AllReduceCost with the method that a measurement names: nccl, one_shot, two_shot, or direct for the faster of the latter
// two.
func (s *Spec) MethodCost(method string, gpus int, n units.Bytes) Cost {
	t, bytes := float64(gpus), float64(n)
	c := Cost{Bytes: 2 * (t - 1) / t * bytes}
	switch method {
	case "one_shot", "two_shot":
		return s.Collective.shot(c, t, bytes, method == "two_shot")
	case "direct":
		return s.Collective.direct(c, t, bytes)
	case "nccl":
		return s.Collective.cost(c, t, bytes/t)
	}
	return s.AllReduceCost(gpus, n)
}
