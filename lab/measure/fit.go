package measure

import (
	"cmp"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units/portable"
)

// Options bound the work of a fit.
type Options struct {
	// Evaluations is the number of evaluations of the loss per start of the search; 0: enough for the
	// kind's parameters, 400 to 1,500.
	Evaluations int
	// MaxSamples is the number of samples in a loss, taken evenly from those given; 0 means 2,000.
	MaxSamples int
}

// determined sets all parameters to their start values and returns those that change the time of
// any sample. The others keep their old values: no measurement determines them.
func (t *Target) determined(all []parameter, samples []Sample) []parameter {
	before := make([]float64, len(all))
	for i, p := range all {
		before[i] = p.get(t)
		p.set(t, p.start)
	}
	base := make([]float64, len(samples))
	for i := range samples {
		base[i] = t.Predict(&samples[i])
	}
	var moving []parameter
	for n, p := range all {
		moves := false
		for _, v := range []float64{max(p.low, p.start/4), min(p.high, p.start*4)} {
			p.set(t, v)
			for i := 0; i < len(samples) && !moves; i++ {
				moves = math.Abs(t.Predict(&samples[i])/base[i]-1) > 1e-9
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

// Loss returns the weighted mean of |log(predicted/measured)|.
func (t *Target) Loss(samples []Sample) float64 {
	sum, weights := 0.0, 0.0
	for i := range samples {
		w := samples[i].weight()
		sum += float64(w * math.Abs(math.Log(t.Predict(&samples[i])/samples[i].Seconds)))
		weights += w
	}
	return sum / weights
}

// weight is the weight of a sample in a fit. Samples in a graph resemble runs most. Energies of
// single kernels are few compared with those of iterations.
func (s *Sample) weight() float64 {
	switch {
	case s.where == InGraph && s.kind != AllReduce:
		return 3
	case s.kind == Power:
		return 2
	}
	return 1
}

// simplexes are the sizes (in logarithms) of the simplexes from which the search starts, and
// restarts at its end point. In ten dimensions one run of Nelder and Mead collapses before it
// converges, and a large simplex escapes a local minimum.
var simplexes = [...]float64{0.5, 0.2, 0.8, 0.2}

// fit moves the parameters of one kind to lower the mean of |log(predicted/measured)|. This
// relative error weighs too slow and too fast alike; in the first power, outliers do not distort
// the rest. The search is Nelder and Mead's (gonum/optimize), over logarithms of the parameters
// within their ranges. It is deterministic, and parameters that the samples do not determine keep
// their values.
func (t *Target) fit(kind Kind, samples []Sample, o Options) error {
	if len(samples) > cmp.Or(o.MaxSamples, 2000) {
		samples = thin(samples, cmp.Or(o.MaxSamples, 2000))
	}
	if kind == AllReduce && !t.tables {
		samples = methodsBySize(samples, t.GPU.Collective.SmallLimit)
	}
	trial := *t
	trial.takeForm(kind)
	ps := trial.determined(trial.movable(kind), samples)
	if err := search(&trial, ps, cmp.Or(o.Evaluations, evaluations(kind)), func() float64 { return trial.Loss(samples) }); err != nil {
		return err
	}
	*t = trial
	t.measured(kind, samples)
	for _, p := range ps {
		p.set(t, portable.Significant(p.get(t), 4)) // more digits would claim more precision than the measurements have
	}
	return nil
}

// search moves parameters of a target, each from its start, to where the loss is lowest.
func search(t *Target, ps []parameter, evaluations int, loss func() float64) error {
	place := func(x []float64) (outside float64) {
		for i, p := range ps {
			v := math.Exp(x[i])
			inside := min(p.high, max(p.low, v))
			outside += math.Abs(math.Log(v / inside))
			p.set(t, inside)
		}
		return outside
	}
	x := make([]float64, len(ps))
	for i, p := range ps {
		x[i] = math.Log(p.start)
	}
	for _, size := range simplexes {
		result, err := optimize.Minimize(optimize.Problem{Func: func(x []float64) float64 { return place(x) + loss() }}, x,
			&optimize.Settings{FuncEvaluations: evaluations}, &optimize.NelderMead{SimplexSize: size})
		if result == nil {
			return err
		}
		x = result.X
	}
	place(x)
	return nil
}

// measured records the range of the samples of a kind.
func (t *Target) measured(kind Kind, samples []Sample) {
	m := &t.GPU.Measured
	for i := range samples {
		first, s := i == 0, &samples[i]
		grow := func(most *int, size int) {
			if first {
				*most = 0
			}
			*most = max(*most, size)
		}
		switch kind {
		case GEMM:
			grow(&m.ProductRows, s.m)
			grow(&m.ProductWidth, max(s.n, s.k))
		case Decode:
			grow(&m.DecodeRequests, s.batch)
			grow(&m.DecodeContext, s.context)
		case Prefill:
			grow(&m.PrefillTokens, s.chunk+s.finished)
		case AllReduce:
			grow(&m.AllReduceGPUs, s.gpus)
			grow(&m.AllReduceBytes, int(s.bytes))
		case Experts, FP8Experts, FP8BlockExperts, NVFP4Experts, MXFP4Experts, MXFP4FP8Experts, Int4Experts: // the largest over all types
			m.ExpertTokens, m.ExpertWidth = max(m.ExpertTokens, s.shares.tokens), max(m.ExpertWidth, s.ffn.Width)
		case Elementwise, Small:
			grow(&m.SmallRows, s.m)
		}
	}
}

// evaluations returns the number of evaluations per start for a kind's parameters.
func evaluations(kind Kind) int {
	switch kind {
	case AllReduce:
		return 1500
	case GEMM:
		return 900
	case Decode, Prefill, Extend:
		return 800
	case DecodeIteration:
		return 400
	}
	if expertsOf(kind) != nil || kind.latent() {
		return 200
	}
	return 500
}

// takeForm selects the cost model of a kind that has parameters to fit.
func (t *Target) takeForm(kind Kind) {
	switch g := &t.GPU; kind {
	case GEMM:
		g.MatMul.Model = gpu.GEMMTiles
	case Decode:
		attention(t).Decode.Model = gpu.AttentionFlash
	case Prefill:
		attention(t).Prefill.Model = gpu.AttentionFlash
	case Extend:
		if g.Extend.MaxSplits == 0 { // as measured on the H200
			g.Extend.BlocksPerSM, g.Extend.SplitKeys, g.Extend.MaxSplits = 2, 256, 64
		}
	case AllReduce:
		g.Collective.Model = gpu.AllReduceMeasured
	case Elementwise:
		g.Pointwise.Model = gpu.ElementwiseRoofline
	}
}

func thin(samples []Sample, n int) []Sample {
	kept := make([]Sample, n)
	for i := range kept {
		kept[i] = samples[i*len(samples)/n]
	}
	return kept
}
