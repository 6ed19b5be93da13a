package measure

import (
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// parameter is a number that a fit moves between low and high. Fits begin at start, an ordinary
// value, whatever the specification held: an earlier result would carry over the data that it was
// fitted to.
type parameter struct {
	name             string
	low, start, high float64
	get              func(*Target) float64
	set              func(*Target, float64)
}

// number is a parameter without a unit.
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

// Ranges of the parameters of an Efficiency: the p-norm is above 1, and efficiencies within the
// roofline.
const (
	lowEfficiency, highEfficiency   = 0.05, 1
	lowRidge, startRidge, highRidge = 1.02, 3, 30
)

// movable returns the parameters that the target's samples of a kind determine. Only tables of AIConfigurator tell kernels of KV heads with
// one query head from others, and sums in a switch from rings. They also have plain NCCL, so that frameworks' all-reduces determine their
// own kernels.
func (t *Target) movable(kind Kind) []parameter {
	return slices.DeleteFunc(parameters(kind), func(p parameter) bool {
		if t.tables {
			return kind == AllReduce && t.GPU.Collectives.AllReduce != (gpu.Protocols{}) && slices.Contains(protocolNames, p.name)
		}
		return p.name == "lone_element_time" || p.name == "last_step" || strings.HasPrefix(p.name, "all_reduce_switch.")
	})
}

// parameters returns the parameters that a kind's samples determine.
func parameters(kind Kind) []parameter {
	if kind.latent() {
		return latentParameters(kind)
	}
	if k := tabledOf(kind); k != nil {
		return slices.Clone(k.parameters) // callers delete from the list
	}
	if e := expertsOf(kind); e != nil {
		return expertParameters(e)
	}
	switch kind {
	case GEMM:
		return gemmParameters()
	case FP8GEMM:
		return typedParameters(func(t *Target) *gpu.TypedGEMMSpec { return &t.GPU.FP8 })
	case FP8BlockGEMM:
		return typedParameters(func(t *Target) *gpu.TypedGEMMSpec { return &t.GPU.FP8Block })
	case NVFP4GEMM:
		return typedParameters(func(t *Target) *gpu.TypedGEMMSpec { return &t.GPU.NVFP4 })
	case Decode:
		return decodeParameters(func(t *Target) *gpu.DecodeSpec { return &attention(t).Decode })
	case FP8Decode:
		return decodeParameters(func(t *Target) *gpu.DecodeSpec { return &t.GPU.DecodeFP8 })
	case FP8Prefill:
		return prefillParameters(func(t *Target) *gpu.PrefillSpec { return &t.GPU.PrefillFP8 })
	case NarrowGEMM:
		return []parameter{number("compute_share_8bit", lowEfficiency, 0.9, 1, func(t *Target) *float64 { return &t.GPU.MatMul.Narrow })}
	case NarrowDecode:
		return narrowParameters()
	case Prefill:
		return prefillParameters(func(t *Target) *gpu.PrefillSpec { return &attention(t).Prefill })
	case Extend:
		return extendParameters()
	case PCIe:
		return pcieParameters()
	case PageSparse:
		return pageSparseParameters()
	case Small:
		return smallParameters()
	case DecodeIteration, PrefillIteration, MixedIteration:
		return iterationParameters()
	case IterationEnergy, Power:
		return powerParameters()
	default:
		return elementwiseParameters()
	}
}

func tilingParameters(spec func(*Target) *gpu.Tiling) []parameter {
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		number("tile_knee", 0.1, 20, 500, func(t *Target) *float64 { return &spec(t).TileKnee }),
		number("k_ramp", 1, 100, 5000, func(t *Target) *float64 { return &spec(t).KRamp }),
		number("step_latency_ns", 0.01, 5, 50, func(t *Target) *float64 { return &spec(t).StepLatency }),
		number("split_overhead_us", 0.01, 3, 50, func(t *Target) *float64 { return &spec(t).SplitOverhead }),
		number("split_traffic", 0.001, 0.1, 10, func(t *Target) *float64 { return &spec(t).SplitTraffic }),
	}
}

// gemmParameters are the parameters of matrix products, each with its lowest, start and highest
// value.
func gemmParameters() []parameter {
	p := tilingParameters(func(t *Target) *gpu.Tiling { return &t.GPU.MatMul.Tiling })
	return slices.Insert(p, 8, number("alone.flush_share", 0.001, 0.5, 1, func(t *Target) *float64 { return &t.GPU.Alone.FlushShare }))
}

func typedParameters(spec func(*Target) *gpu.TypedGEMMSpec) []parameter {
	return append(tilingParameters(func(t *Target) *gpu.Tiling { return &spec(t).Tiling }),
		duration("convert_overhead", 0.01, 2, 50, func(t *Target) *units.Duration { return &spec(t).Convert }),
		number("convert_memory_efficiency", 0.01, 0.5, 10, func(t *Target) *float64 { return &spec(t).ConvertMemory }))
}

// attention returns the attention kernels of the target's suite.
func attention(t *Target) *gpu.AttentionSpec {
	if t.GPU.Suite == gpu.SuitePyTorch {
		return &t.GPU.PyTorch
	}
	return &t.GPU.AttentionSpec
}

func decodeParameters(spec func(*Target) *gpu.DecodeSpec) []parameter {
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("overhead", 0.1, 3, 100, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		duration("block_startup", 0.01, 3, 1000, func(t *Target) *units.Duration { return &spec(t).BlockStartup }),
		duration("fill_time", 0.01, 2, 100, func(t *Target) *units.Duration { return &spec(t).FillTime }),
		duration("stream_time", 0.01, 20, 1000, streamTime(spec)),
		duration("group_overhead", 0.01, 2, 100, func(t *Target) *units.Duration { return &spec(t).GroupOverhead }),
		duration("merge_overhead", 0.01, 2, 100, func(t *Target) *units.Duration { return &spec(t).MergeOverhead }),
		duration("merge_part", 0.001, 0.2, 10, func(t *Target) *units.Duration { return &spec(t).MergePart }),
		rate("block_bandwidth", 1, 30, 1000, func(t *Target) *units.Bandwidth { return &spec(t).BlockBandwidth }),
		duration("lone_element_time", 1e-6, 2e-5, 0.01, func(t *Target) *units.Duration { return &spec(t).LoneElement }),
		duration("unequal_time", 0.01, 2, 100, func(t *Target) *units.Duration { return &spec(t).UnequalTime }),
		number("unequal_share", 0.001, 0.05, 1, func(t *Target) *float64 { return &spec(t).UnequalShare }),
		number("unequal_target", 0.5, 10, 100, func(t *Target) *float64 { return &spec(t).UnequalTarget }),
		rate("unequal_bandwidth", 1, 50, 1000, func(t *Target) *units.Bandwidth { return &spec(t).UnequalBandwidth }),
	}
}

// streamTime returns the field stream_time, which kernels of servers have. PyTorch's are fitted without it: their rows cannot tell it
// from fill_time within their noise.
func streamTime(spec func(*Target) *gpu.DecodeSpec) func(*Target) *units.Duration {
	return func(t *Target) *units.Duration {
		if t.GPU.Suite == gpu.SuitePyTorch {
			return new(units.Duration)
		}
		return &spec(t).StreamTime
	}
}

func prefillParameters(spec func(*Target) *gpu.PrefillSpec) []parameter {
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.6, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("overhead", 0.1, 3, 100, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		number("lone_block_share", 0.2, 0.8, 1, func(t *Target) *float64 { return &spec(t).LoneBlock }),
		number("startup_keys", 1, 50, 5000, func(t *Target) *float64 { return &spec(t).Startup }),
		number("causal_tail", 0.01, 1, 8, func(t *Target) *float64 { return &spec(t).CausalTail }),
		duration("merge_overhead", 0.01, 3, 100, func(t *Target) *units.Duration { return &spec(t).MergeOverhead }),
		duration("merge_row", 1e-6, 0.0005, 0.1, func(t *Target) *units.Duration { return &spec(t).MergeRow }),
		number("head_knee", 0.01, 20, 500, func(t *Target) *float64 { return &spec(t).HeadKnee }),
		number("kv_traffic", 1, 2, 100, func(t *Target) *float64 { return &spec(t).KVTraffic }),
	}
}

// extendParameters are those of attention of short chunks over long caches.
func extendParameters() []parameter {
	spec := func(t *Target) *gpu.ExtendSpec { return &t.GPU.Extend }
	return []parameter{
		number("compute_efficiency", lowEfficiency, 0.4, highEfficiency, func(t *Target) *float64 { return &spec(t).Compute }),
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &spec(t).Memory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
		duration("overhead", 0.01, 2, 100, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		rate("block_bandwidth", 1, 30, 1000, func(t *Target) *units.Bandwidth { return &spec(t).BlockBandwidth }),
		duration("merge_row", 1e-6, 0.0005, 0.1, func(t *Target) *units.Duration { return &spec(t).MergeRow }),
	}
}

// allReduceParameters are those of all-reduces: one-shot, two-shot, with flags, and rings.
func allReduceParameters() []parameter {
	spec := func(t *Target) *gpu.AllReduceSpec { return &t.GPU.Collective }
	own := []parameter{
		duration("small_latency", 0.01, 5, 200, func(t *Target) *units.Duration { return &spec(t).SmallLatency }),
		duration("small_latency_per_gpu", 0.001, 0.2, 50, func(t *Target) *units.Duration { return &spec(t).SmallLatencyPerGPU }),
		rate("small_bandwidth", 1, 200, 2000, func(t *Target) *units.Bandwidth { return &spec(t).SmallBandwidth }),
		duration("second_shot_latency", 0.01, 5, 200, func(t *Target) *units.Duration { return &spec(t).SecondShotLatency }),
		duration("second_shot_latency_per_gpu", 0.001, 0.5, 50, func(t *Target) *units.Duration { return &spec(t).SecondShotPerGPU }),
		rate("second_shot_bandwidth", 1, 300, 2000, func(t *Target) *units.Bandwidth { return &spec(t).SecondShotBandwidth }),
	}
	own = append(own, protocolParameters(func(t *Target) *gpu.Protocols { return &spec(t).Protocols })...)
	return append(own, switchParameters()...)
}

// iterationParameters are those that only whole iterations determine: the small kernels.
func iterationParameters() []parameter {
	spec := func(t *Target) *gpu.FusedSpec { return &t.GPU.Fused }
	return []parameter{
		duration("fused.overhead", 0.1, 1.5, 20, func(t *Target) *units.Duration { return &spec(t).Overhead }),
		duration("fused.row_element_latency", 1e-6, 0.0003, 0.01, func(t *Target) *units.Duration { return &spec(t).RowElement }),
		number("power.throttle", 0.05, 0.5, 1, func(t *Target) *float64 { return &t.GPU.Power.Throttle }),
		number("all_reduce.skew", 0.001, 0.03, 0.5, func(t *Target) *float64 { return &t.GPU.Collective.Skew }),
	}
}

// powerParameters are those that energies determine. The limit comes from a data sheet. A running
// kernel draws at least the power of a gap.
func powerParameters() []parameter {
	spec := func(t *Target) *gpu.PowerSpec { return &t.GPU.Power }
	return []parameter{
		number("idle_w", 1, 80, 1000, func(t *Target) *float64 { return &spec(t).Idle }),
		number("active_idle_w", 1, 140, 1000, func(t *Target) *float64 { return &spec(t).ActiveIdle }),
		{"base_w", 1, 150, 1000,
			func(t *Target) float64 { return spec(t).Base },
			func(t *Target, v float64) { spec(t).Base = max(v, spec(t).ActiveIdle) }},
		number("pj_per_byte", 1, 100, 1000, func(t *Target) *float64 { return &spec(t).PerByte }),
		number("pj_per_flop", 0.01, 1, 100, func(t *Target) *float64 { return &spec(t).PerFLOP }),
	}
}

// pcieParameters are those of transfers between host and GPU.
func pcieParameters() []parameter {
	return []parameter{
		number("efficiency", lowEfficiency, 0.85, highEfficiency, func(t *Target) *float64 { return &t.Link.Efficiency }),
		duration("latency", 0.01, 10, 1000, func(t *Target) *units.Duration { return &t.Link.Latency }),
	}
}

// elementwiseParameters are those of element-wise kernels and norms.
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
