package measure

import (
	"math"

	"github.com/l3sim/l3sim/units"
)

// parameter is one number that a fit moves between low and high. Fits begin at
// start, an ordinary value, whatever the specification held: a fit that began
// at an earlier one's result would carry over what that had seen.
type parameter struct {
	name             string
	low, start, high float64
	get              func(*Target) float64
	set              func(*Target, float64)
}

// number, duration, rate and bytes make a parameter of a field.
func number(name string, low, start, high float64, field func(*Target) *float64) parameter {
	return parameter{name, low, start, high,
		func(t *Target) float64 { return *field(t) },
		func(t *Target, v float64) { *field(t) = v }}
}

// duration is a parameter in microseconds.
func duration(name string, low, start, high float64, field func(*Target) *units.Duration) parameter {
	return parameter{name, low, start, high,
		func(t *Target) float64 { return field(t).Microseconds() },
		func(t *Target, v float64) { *field(t) = units.Duration(math.Round(v * 1e6)) }}
}

// rate is a parameter in GB/s.
func rate(name string, low, start, high float64, field func(*Target) *units.Bandwidth) parameter {
	return parameter{name, low, start, high,
		func(t *Target) float64 { return float64(*field(t)) / 1e9 },
		func(t *Target, v float64) { *field(t) = units.Bandwidth(math.Round(v * 1e9)) }}
}

// Parameters of an Efficiency lie in these ranges: the p-norm above 1, and
// efficiencies that the roofline allows.
const (
	lowEfficiency, highEfficiency   = 0.05, 1
	lowRidge, startRidge, highRidge = 1.02, 3, 30
)

// parameters returns what a kind's samples determine.
func parameters(kind Kind) []parameter {
	switch kind {
	case GEMM:
		return gemmParameters()
	case Decode:
		return decodeParameters()
	case Prefill:
		return prefillParameters()
	case AllReduce:
		return allReduceParameters()
	case PCIe:
		return pcieParameters()
	case PageSparse:
		return pageSparseParameters()
	default:
		return elementwiseParameters()
	}
}

func gemmParameters() []parameter {
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &t.GPU.MatMul.Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &t.GPU.MatMul.Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &t.GPU.MatMul.Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &t.GPU.MatMul.Overhead }),
		number("tile_knee", 0.1, 20, 500, func(t *Target) *float64 { return &t.GPU.MatMul.TileKnee }),
		number("k_ramp", 1, 100, 5000, func(t *Target) *float64 { return &t.GPU.MatMul.KRamp }),
		number("step_latency_ns", 0.01, 5, 50, func(t *Target) *float64 { return &t.GPU.MatMul.StepLatency }),
		number("split_overhead_us", 0.01, 3, 50, func(t *Target) *float64 { return &t.GPU.MatMul.SplitOverhead }),
		number("split_traffic", 0.001, 0.1, 10, func(t *Target) *float64 { return &t.GPU.MatMul.SplitTraffic }),
	}
}

func decodeParameters() []parameter {
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &t.GPU.Decode.Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &t.GPU.Decode.Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &t.GPU.Decode.Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &t.GPU.Decode.Overhead }),
		duration("item_time", 0.01, 4, 1000, func(t *Target) *units.Duration { return &t.GPU.Decode.ItemTime }),
		duration("split_overhead", 0.01, 5, 100, func(t *Target) *units.Duration { return &t.GPU.Decode.SplitOverhead }),
		duration("group_overhead", 0.01, 2, 100, func(t *Target) *units.Duration { return &t.GPU.Decode.GroupOverhead }),
		{"split_ramp", 1, 500, 65536,
			func(t *Target) float64 { return float64(t.GPU.Decode.SplitRamp) },
			func(t *Target, v float64) { t.GPU.Decode.SplitRamp = int(math.Round(v)) }},
		number("unsplit_share", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &t.GPU.Decode.UnsplitShare }),
		rate("block_bandwidth", 1, 30, 1000, func(t *Target) *units.Bandwidth { return &t.GPU.Decode.BlockBandwidth }),
	}
}

func prefillParameters() []parameter {
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &t.GPU.Prefill.Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &t.GPU.Prefill.Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &t.GPU.Prefill.Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &t.GPU.Prefill.Overhead }),
		number("startup_keys", 1, 50, 5000, func(t *Target) *float64 { return &t.GPU.Prefill.Startup }),
		number("causal_tail", 0.01, 1, 8, func(t *Target) *float64 { return &t.GPU.Prefill.CausalTail }),
		duration("finished_overhead", 0.01, 3, 100, func(t *Target) *units.Duration { return &t.GPU.Prefill.FinishedOverhead }),
		number("kv_traffic", 1, 2, 100, func(t *Target) *float64 { return &t.GPU.Prefill.KVTraffic }),
	}
}

func allReduceParameters() []parameter {
	return []parameter{
		duration("small_latency", 0.01, 5, 200, func(t *Target) *units.Duration { return &t.GPU.Collective.SmallLatency }),
		duration("small_latency_per_gpu", 0.001, 0.2, 50, func(t *Target) *units.Duration { return &t.GPU.Collective.SmallLatencyPerGPU }),
		rate("small_bandwidth", 1, 200, 2000, func(t *Target) *units.Bandwidth { return &t.GPU.Collective.SmallBandwidth }),
		duration("second_shot_latency", 0.01, 5, 200, func(t *Target) *units.Duration { return &t.GPU.Collective.SecondShotLatency }),
		duration("second_shot_latency_per_gpu", 0.001, 0.5, 50, func(t *Target) *units.Duration { return &t.GPU.Collective.SecondShotPerGPU }),
		rate("second_shot_bandwidth", 1, 300, 2000, func(t *Target) *units.Bandwidth { return &t.GPU.Collective.SecondShotBandwidth }),
		duration("launch", 0.1, 20, 200, func(t *Target) *units.Duration { return &t.GPU.Collective.Launch }),
		duration("latency", 0.01, 10, 200, func(t *Target) *units.Duration { return &t.GPU.Collective.Latency }),
		duration("latency_per_gpu", 0.001, 1, 50, func(t *Target) *units.Duration { return &t.GPU.Collective.LatencyPerGPU }),
		rate("bandwidth", 1, 200, 2000, func(t *Target) *units.Bandwidth { return &t.GPU.Collective.Bandwidth }),
	}
}

func pcieParameters() []parameter {
	return []parameter{
		number("efficiency", lowEfficiency, 0.85, highEfficiency, func(t *Target) *float64 { return &t.Link.Efficiency }),
		duration("latency", 0.01, 10, 1000, func(t *Target) *units.Duration { return &t.Link.Latency }),
	}
}

func elementwiseParameters() []parameter {
	return []parameter{
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &t.GPU.Pointwise.Memory }),
		number("activation_memory_efficiency", lowEfficiency, 0.7, highEfficiency, func(t *Target) *float64 { return &t.GPU.Pointwise.ActivationMemory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &t.GPU.Pointwise.Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &t.GPU.Pointwise.Overhead }),
		duration("norm_overhead", 0.1, 4, 100, func(t *Target) *units.Duration { return &t.GPU.Pointwise.NormOverhead }),
		duration("norm_element_latency", 1e-6, 0.0005, 1, func(t *Target) *units.Duration { return &t.GPU.Pointwise.NormLatency }),
	}
}
