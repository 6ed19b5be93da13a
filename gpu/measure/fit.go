package measure

import (
	"cmp"
	"math"
	"sort"
	"strconv"

	"gonum.org/v1/gonum/optimize"

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
	case Decode:
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
	case Prefill:
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
	case AllReduce:
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
	case PCIe:
		return []parameter{
			number("efficiency", lowEfficiency, 0.85, highEfficiency, func(t *Target) *float64 { return &t.Link.Efficiency }),
			duration("latency", 0.01, 10, 1000, func(t *Target) *units.Duration { return &t.Link.Latency }),
		}
	}
	return []parameter{
		number("memory_efficiency", lowEfficiency, 0.8, highEfficiency, func(t *Target) *float64 { return &t.GPU.Pointwise.Memory }),
		number("activation_memory_efficiency", lowEfficiency, 0.7, highEfficiency, func(t *Target) *float64 { return &t.GPU.Pointwise.ActivationMemory }),
		number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &t.GPU.Pointwise.Ridge }),
		duration("overhead", 0.1, 5, 100, func(t *Target) *units.Duration { return &t.GPU.Pointwise.Overhead }),
		duration("norm_overhead", 0.1, 4, 100, func(t *Target) *units.Duration { return &t.GPU.Pointwise.NormOverhead }),
		duration("norm_element_latency", 1e-6, 0.0005, 1, func(t *Target) *units.Duration { return &t.GPU.Pointwise.NormLatency }),
	}
}

// Options bound the work of a fit.
type Options struct {
	// Evaluations is the number of evaluations of the loss per start of the
	// search; 0 means 500.
	Evaluations int
	// MaxSamples is the number of samples a loss looks at, spread evenly over
	// those given; 0 means 2,000.
	MaxSamples int
}

// determined puts all parameters at their start and returns those that change
// the time of any sample. The others get back their values: no measurement
// says more about them.
func (t *Target) determined(all []parameter, samples []Sample) []parameter {
	before := make([]float64, len(all))
	for i, p := range all {
		before[i] = p.get(t)
		p.set(t, p.start)
	}
	base := make([]float64, len(samples))
	for i := range samples {
		base[i] = t.Cost(&samples[i]).Seconds
	}
	var moving []parameter
	for n, p := range all {
		moves := false
		for _, v := range []float64{max(p.low, p.start/4), min(p.high, p.start*4)} {
			p.set(t, v)
			for i := 0; i < len(samples) && !moves; i++ {
				moves = math.Abs(t.Cost(&samples[i]).Seconds/base[i]-1) > 1e-9
			}
		}
		p.set(t, p.start)
		if moves {
			moving = append(moving, p)
			continue
		}
		defer p.set(t, before[n])
	}
	return moving
}

// Loss returns the mean absolute logarithm of predicted over measured time.
func (t *Target) Loss(samples []Sample) float64 {
	sum := 0.0
	for i := range samples {
		sum += math.Abs(math.Log(t.Cost(&samples[i]).Seconds / samples[i].Seconds))
	}
	return sum / float64(len(samples))
}

// simplexes are the sizes (in logarithms) of the simplexes from which the
// search begins, and begins anew where it ended: one of Nelder and Mead's
// collapses before it has converged in ten dimensions, and a large one leaves
// a local minimum.
var simplexes = [...]float64{0.5, 0.2, 0.8, 0.2}

// Fit moves the parameters of one kind of t to lower the mean absolute
// logarithm of predicted over measured: a relative error that weighs too slow
// like too fast, and in the first power, so that kernels outside the model's
// form do not bend the rest. The search is Nelder and Mead's (gonum/optimize),
// over logarithms of the parameters within their ranges; it is deterministic,
// and parameters that the samples do not determine stay as they are.
func (t *Target) Fit(kind Kind, samples []Sample, o Options) error {
	if len(samples) > cmp.Or(o.MaxSamples, 2000) {
		samples = thin(samples, cmp.Or(o.MaxSamples, 2000))
	}
	trial := *t
	ps := trial.determined(parameters(kind), samples)
	place := func(x []float64) (outside float64) {
		for i, p := range ps {
			v := math.Exp(x[i])
			inside := min(p.high, max(p.low, v))
			outside += math.Abs(math.Log(v / inside))
			p.set(&trial, inside)
		}
		return outside
	}
	loss := func(x []float64) float64 { return place(x) + trial.Loss(samples) }
	x := make([]float64, len(ps))
	for i, p := range ps {
		x[i] = math.Log(p.start)
	}
	for _, size := range simplexes {
		result, err := optimize.Minimize(optimize.Problem{Func: loss}, x,
			&optimize.Settings{FuncEvaluations: cmp.Or(o.Evaluations, 500)}, &optimize.NelderMead{SimplexSize: size})
		if result == nil {
			return err
		}
		x = result.X
	}
	place(x)
	*t = trial
	for _, p := range ps {
		p.set(t, round4(p.get(t)))
	}
	return nil
}

// round4 rounds to four significant digits: more would claim a precision that
// no measurement has.
func round4(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// thin returns n samples spread evenly.
func thin(samples []Sample, n int) []Sample {
	kept := make([]Sample, n)
	for i := range kept {
		kept[i] = samples[i*len(samples)/n]
	}
	return kept
}

// folds is the number of parts in which shapes are held out in turn.
const folds = 4

// FitHeldOut fits one kind on all samples, and returns the error on shapes
// held out: the shapes are dealt into folds, each is judged by a fit to the
// others, and the errors are pooled. A single shape cannot be held out, and ok
// is false.
func (t *Target) FitHeldOut(kind Kind, samples []Sample, o Options) (held Errors, ok bool, err error) {
	if kind == AllReduce {
		samples = onePath(samples, t.GPU.Collective.SmallLimit)
	}
	fold, shapes := deal(samples)
	if n := min(folds, shapes); n > 1 {
		var absolute []float64
		for f := range n {
			var train, test []Sample
			for i := range samples {
				if fold[i]%n == f {
					test = append(test, samples[i])
				} else {
					train = append(train, samples[i])
				}
			}
			part := *t
			if err := part.Fit(kind, train, o); err != nil {
				return Errors{}, false, err
			}
			e := part.Judge(test)
			held.Relative = append(held.Relative, e.Relative...)
		}
		for _, p := range held.Relative {
			absolute = append(absolute, math.Abs(p.Error))
		}
		held.Points, ok = len(absolute), true
		held.summarise(absolute)
	}
	return held, ok, t.Fit(kind, samples, o)
}

// deal numbers the shapes in the order of their names and returns the number of
// each sample's. Neighbours in that order fall into different folds.
func deal(samples []Sample) (number []int, shapes int) {
	index := map[string]int{}
	for i := range samples {
		index[samples[i].Shape()] = 0
	}
	names := make([]string, 0, len(index))
	for name := range index {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		index[name] = i
	}
	number = make([]int, len(samples))
	for i := range samples {
		number[i] = index[samples[i].Shape()]
	}
	return number, len(names)
}

// onePath keeps the all-reduce measurements that a fit can mean: systems pick
// the direct kernel or NCCL by size, but files may measure either at any size.
// Up to limit it keeps the file with the lowest mean, beyond it the one with
// the most samples.
func onePath(samples []Sample, limit units.Bytes) []Sample {
	type tally struct {
		count int
		sum   float64
	}
	small, large := map[string]tally{}, map[string]tally{}
	for i := range samples {
		s, into := &samples[i], large
		if s.Bytes <= limit {
			into = small
		}
		t := into[s.File]
		into[s.File] = tally{t.count + 1, t.sum + s.Seconds}
	}
	pick := func(of map[string]tally, better func(a, b tally) bool) (best string) {
		for i := range samples { // in order: ties go to the first file
			f := samples[i].File
			if t, ok := of[f]; ok && (best == "" || better(t, of[best])) {
				best = f
			}
		}
		return best
	}
	below := pick(small, func(a, b tally) bool { return a.sum*float64(b.count) < b.sum*float64(a.count) })
	above := pick(large, func(a, b tally) bool { return a.count > b.count })
	var kept []Sample
	for _, s := range samples {
		if s.Bytes <= limit && s.File == below || s.Bytes > limit && s.File == above {
			kept = append(kept, s)
		}
	}
	return kept
}

// WithoutLaunch returns the samples with launch taken off the all-reduces of
// up to limit bytes, which were measured one call at a time: a captured graph
// or a stream that is never empty hides it. What is left is at least a tenth.
func WithoutLaunch(samples []Sample, launch units.Duration, limit units.Bytes) []Sample {
	out := append([]Sample(nil), samples...)
	for i := range out {
		if s := &out[i]; s.Kind == AllReduce && s.Bytes <= limit {
			s.Seconds = max(s.Seconds-launch.Seconds(), s.Seconds/10)
		}
	}
	return out
}
