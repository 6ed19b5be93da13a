package gpu

import "github.com/l3sim/l3sim/units/portable"

// Cost is the cost of one kernel on one GPU, split by cause. Seconds combines the parts: the p-norm of Compute, Memory and Latency, plus
// Overhead.
type Cost struct {
	FLOPs float64 // useful floating-point operations, a multiply-add as two
	// Executed is FLOPs including the padding of tiles, which also draws power; 0 for kernels with negligible arithmetic. An 8-bit
	// operation counts as half of a 16-bit one.
	Executed float64
	Bytes    float64 // bytes that have to move at least once
	// Compute, Memory and Latency are the seconds that each limit alone would impose: arithmetic (including padding and idle SMs), memory
	// traffic, and the longest chain of work that cannot be spread over the SMs.
	Compute, Memory, Latency float64
	Overhead                 float64 // seconds of launch, prologue and tail that do not overlap
	Seconds                  float64 // in a graph, below the GPU's power limit

	ridge float64
}

// Limit returns the largest of the four parts: "compute", "memory", "latency" or "overhead".
func (c Cost) Limit() string {
	switch largest := max(c.Compute, c.Memory, c.Latency, c.Overhead); largest {
	case c.Compute:
		return "compute"
	case c.Memory:
		return "memory"
	case c.Latency:
		return "latency"
	default:
		return "overhead"
	}
}

// combine sets Seconds. The p-norm (Σ tᵢ^p)^(1/p) is the roofline's maximum for p = 0 (read as infinity), and rounds its corner for finite
// p ≥ 1: near the ridge, neither limit is fully hidden by the other.
func (c Cost) combine(p float64) Cost {
	c.combined(p)
	return c
}

// combined is combine in place.
func (c *Cost) combined(p float64) {
	c.ridge = p
	c.Seconds = pnorm(p, c.Compute, c.Memory, c.Latency) + c.Overhead
}

func (c Cost) times(n float64) Cost {
	for _, v := range []*float64{&c.FLOPs, &c.Executed, &c.Bytes, &c.Compute, &c.Memory, &c.Latency, &c.Overhead, &c.Seconds} {
		*v *= n
	}
	return c
}

// then returns the cost of two kernels in sequence.
func (c Cost) then(d Cost) Cost {
	c.FLOPs, c.Executed, c.Bytes = c.FLOPs+d.FLOPs, c.Executed+d.Executed, c.Bytes+d.Bytes
	c.Compute, c.Memory, c.Latency = c.Compute+d.Compute, c.Memory+d.Memory, c.Latency+d.Latency
	c.Overhead, c.Seconds = c.Overhead+d.Overhead, c.Seconds+d.Seconds
	return c
}

// pnorm returns the p-norm of three times, at least the largest; p = 0 stands for infinity.
func pnorm(p, a, b, c float64) float64 {
	top := max(a, b, c)
	if p == 0 || top == 0 {
		return top
	}
	return root(p, top, powers(p, top, a, b, c))
}

// powers returns the sum of the p-th powers of three times, relative to the largest (top).
func powers(p, top, a, b, c float64) float64 {
	sum := 0.0
	for _, t := range [3]float64{a, b, c} {
		if t > 0 {
			sum += portable.Pow(t/top, p)
		}
	}
	return sum
}

// root returns the p-norm from the largest time (top) and the sum of powers.
func root(p, top, sum float64) float64 { return float64(top * max(1, portable.Pow(sum, 1/p))) }

// ceilDiv returns a/b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a, b int) int { return (a + b - 1) / b }

func elementBytes(n float64, bits int) float64 { return n * float64(bits) / 8 }
