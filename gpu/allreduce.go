package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// AllReduceModel selects how an all-reduce is costed.
type AllReduceModel string

// The all-reduce models.
const (
	// AllReduceMeasured has the shape of what serving systems run: a one- or
	// two-shot kernel for small sizes, NCCL's ring or tree beyond.
	AllReduceMeasured AllReduceModel = "measured"
	// AllReduceAttAcc is the model of AttAcc's simulator: T−1 steps of
	// max(latency + slope · s, s/bandwidth), s = bytes/T. A ring takes 2(T−1).
	AllReduceAttAcc AllReduceModel = "attacc"
)

// AllReduceSpec holds the parameters of an all-reduce over NVLink. Bandwidths
// count one direction of one GPU's links; a "per GPU" time is multiplied by
// the number of GPUs.
type AllReduceSpec struct {
	Model AllReduceModel `toml:"model"` // how these kernels are costed
	// Up to SmallLimit bytes a kernel reads its peers' memory directly: either
	// all of it from T−1 peers (one-shot), or its own share and then the others'
	// results (two-shot, one more synchronisation).
	SmallLimit          units.Bytes     `toml:"small_limit"`
	SmallLatency        units.Duration  `toml:"small_latency"`               // direct: one synchronisation
	SmallLatencyPerGPU  units.Duration  `toml:"small_latency_per_gpu"`       // its growth with each GPU
	SmallBandwidth      units.Bandwidth `toml:"small_bandwidth"`             // direct: reading the peers' copies
	SecondShotLatency   units.Duration  `toml:"second_shot_latency"`         // direct: the second synchronisation of two shots
	SecondShotPerGPU    units.Duration  `toml:"second_shot_latency_per_gpu"` // its growth with each GPU
	SecondShotBandwidth units.Bandwidth `toml:"second_shot_bandwidth"`       // direct: moving shares in two shots
	// Beyond SmallLimit: NCCL. Launch is what a call takes at least; latency and
	// transfer add up and hide behind it.
	Launch        units.Duration  `toml:"launch"`
	Latency       units.Duration  `toml:"latency"`         // NCCL: added to the transfer
	LatencyPerGPU units.Duration  `toml:"latency_per_gpu"` // its growth with each GPU
	Bandwidth     units.Bandwidth `toml:"bandwidth"`       // NCCL: of the bytes that a GPU sends
	// LatencySlope is AllReduceAttAcc's latency growth, in nanoseconds per byte of
	// a step.
	LatencySlope float64 `toml:"latency_slope_ns_per_byte"`
}

// Check has the rules of the section [gpu.all_reduce].
func (a *AllReduceSpec) Check(c *input.Check) {
	input.OneOf(c, "model", a.Model, AllReduceMeasured, AllReduceAttAcc)
	c.That(a.SmallLimit >= 0, "small_limit", a.SmallLimit, "at least 0B")
	duration(c, "small_latency", a.SmallLatency)
	duration(c, "small_latency_per_gpu", a.SmallLatencyPerGPU)
	duration(c, "second_shot_latency", a.SecondShotLatency)
	duration(c, "second_shot_latency_per_gpu", a.SecondShotPerGPU)
	duration(c, "launch", a.Launch)
	duration(c, "latency", a.Latency)
	duration(c, "latency_per_gpu", a.LatencyPerGPU)
	if a.SmallLimit > 0 {
		bandwidth(c, "small_bandwidth", a.SmallBandwidth)
		bandwidth(c, "second_shot_bandwidth", a.SecondShotBandwidth)
	}
	bandwidth(c, "bandwidth", a.Bandwidth)
	atLeast(c, "latency_slope_ns_per_byte", a.LatencySlope, 0)
}

// launchRidge is the p-norm that joins NCCL's launch and its transfer: the
// measured corner at 1 to 8 MB is a little round.
const launchRidge = 4

// allReduce returns the seconds of summing n bytes over the given number of
// GPUs, each ending with the result; zero for one GPU or no bytes.
func (s *Spec) allReduce(gpus int, n units.Bytes) float64 { return s.AllReduceCost(gpus, n).Seconds }

// AllReduceCost is allReduce with its parts: Bytes is what each GPU sends,
// 2(T−1)/T · n in the bandwidth-optimal schedule (Patarasuk and Yuan, 2009,
// https://doi.org/10.1016/j.jpdc.2008.09.002) and half of it in AttAcc's, and
// Memory its time.
func (s *Spec) AllReduceCost(gpus int, n units.Bytes) Cost {
	if gpus <= 1 || n <= 0 {
		return Cost{}
	}
	a := &s.Collective
	t, bytes := float64(gpus), float64(n)
	c := Cost{Bytes: 2 * (t - 1) / t * bytes}
	switch {
	case a.Model == AllReduceAttAcc:
		steps, step := t-1, bytes/t
		c.Bytes = steps * step
		c.Latency = steps * (a.Latency.Seconds() + float64(a.LatencySlope*1e-9*step))
		c.Memory = steps * step / float64(a.Bandwidth)
		return c.combine(0)
	case n <= a.SmallLimit:
		return a.small(c, t, bytes)
	}
	c.Latency = a.Launch.Seconds()
	c.Memory = c.Bytes/float64(a.Bandwidth) + a.Latency.Seconds() + float64(t*a.LatencyPerGPU.Seconds())
	c = c.combine(launchRidge)
	if a.SmallLimit > 0 { // no cheaper than the largest that goes the other way
		c.Seconds = max(c.Seconds, a.small(Cost{}, t, float64(a.SmallLimit)).Seconds)
	}
	return c
}

// small costs the direct kernel, by the faster of its two schedules.
func (a *AllReduceSpec) small(c Cost, t, bytes float64) Cost {
	c.Overhead = a.SmallLatency.Seconds() + float64(t*a.SmallLatencyPerGPU.Seconds())
	oneShot := (t - 1) * bytes / float64(a.SmallBandwidth)
	sync := a.SecondShotLatency.Seconds() + float64(t*a.SecondShotPerGPU.Seconds())
	twoShot := 2 * (t - 1) / t * bytes / float64(a.SecondShotBandwidth)
	if sync+twoShot < oneShot {
		c.Memory = twoShot
		c.Overhead += sync
	} else {
		c.Memory = oneShot
	}
	return c.combine(0)
}
