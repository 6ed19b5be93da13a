package measure

import (
	"cmp"
	"math"
	"sort"
	"strconv"

	"gonum.org/v1/gonum/optimize"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

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

// fit moves the parameters of one kind of t to lower the mean absolute
// logarithm of predicted over measured: a relative error that weighs too slow
// like too fast, and in the first power, so that kernels outside the model's
// form do not bend the rest. The search is Nelder and Mead's (gonum/optimize),
// over logarithms of the parameters within their ranges; it is deterministic,
// and parameters that the samples do not determine stay as they are.
func (t *Target) fit(kind Kind, samples []Sample, o Options) error {
	if len(samples) > cmp.Or(o.MaxSamples, 2000) {
		samples = thin(samples, cmp.Or(o.MaxSamples, 2000))
	}
	trial := *t
	trial.takeForm(kind)
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

// takeForm makes a kind be costed by the form that has parameters to fit.
func (t *Target) takeForm(kind Kind) {
	switch g := &t.GPU; kind {
	case GEMM:
		g.MatMul.Model = gpu.GEMMTiles
	case Decode:
		g.Decode.Model = gpu.AttentionFlash
	case Prefill:
		g.Prefill.Model = gpu.AttentionFlash
	case AllReduce:
		g.Collective.Model = gpu.AllReduceMeasured
	case Elementwise:
		g.Pointwise.Model = gpu.ElementwiseRoofline
	}
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
			if err := part.fit(kind, train, o); err != nil {
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
	return held, ok, t.fit(kind, samples, o)
}

// deal numbers the shapes in the order of their names and returns the number of
// each sample's. Neighbours in that order fall into different folds.
func deal(samples []Sample) (number []int, shapes int) {
	index := map[string]int{}
	for i := range samples {
		index[samples[i].shape()] = 0
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
		number[i] = index[samples[i].shape()]
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
		if s.bytes <= limit {
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
		if s.bytes <= limit && s.File == below || s.bytes > limit && s.File == above {
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
		if s := &out[i]; s.kind == AllReduce && s.bytes <= limit {
			s.Seconds = max(s.Seconds-launch.Seconds(), s.Seconds/10)
		}
	}
	return out
}
