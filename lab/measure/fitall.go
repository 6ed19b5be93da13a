package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
)

// Fitted is FitAll's result for one kind of samples.
type Fitted struct {
	Kind    Kind
	Samples int
	// Held are the errors on shapes, or models, held out of the fits. HeldOut is false if nothing
	// could be held out, since there is a single one.
	Held    Errors
	HeldOut bool
	Range   string // of the samples' sizes, "" if unknown
}

// Entry returns the entry of the kind in a fit's file.
func (f *Fitted) Entry() configs.FitKind {
	k := configs.FitKind{Rows: f.Samples, Range: f.Range}
	if e := &f.Held; f.HeldOut {
		k.Mean, k.Median, k.P90 = 100*e.MAPE, 100*e.Median, 100*e.P90
	}
	return k
}

// rangeOf returns the smallest and the largest value of each size over samples of kernels.
func rangeOf(samples []Sample) string {
	var texts []string
	for _, size := range []struct {
		name string
		of   func(s *Sample) int
	}{
		{"m", func(s *Sample) int { return s.m }}, {"n", func(s *Sample) int { return s.n }}, {"k", func(s *Sample) int { return s.k }},
		{"batch", func(s *Sample) int { return s.batch }}, {"context", func(s *Sample) int { return s.context }},
		{"gpus", func(s *Sample) int { return s.gpus }}, {"bytes", func(s *Sample) int { return int(s.bytes) }},
		{"prompt", func(s *Sample) int { return s.chunk }}, {"prefix", func(s *Sample) int { return s.finished }},
		{"tokens", func(s *Sample) int { return s.shares.tokens }}, {"hidden", func(s *Sample) int { return s.ffn.Hidden }},
		{"width", func(s *Sample) int { return s.ffn.Width }}, {"experts", func(s *Sample) int { return s.shares.experts }},
	} {
		least, most := math.MaxInt, 0
		for i := range samples {
			v := size.of(&samples[i])
			least, most = min(least, v), max(most, v)
		}
		if most > 0 {
			texts = append(texts, fmt.Sprintf("%s %d to %d", size.name, least, most))
		}
	}
	return strings.Join(texts, ", ")
}

// FitAll fits all parameters that the samples determine, in the order of their dependencies:
// kernels, their power, whole iterations (which show the power limit and the gaps between kernels),
// and power again, with the times of iterations. Samples of attention and iterations belong to the
// suite of t.GPU. It returns the held-out errors of each fitted kind, in the order of Kinds.
func (t *Target) FitAll(samples []Sample, o Options) ([]Fitted, error) {
	held := map[Kind]Fitted{}
	report := func(kind Kind, e Errors, ok bool, n int) {
		held[kind] = Fitted{Kind: kind, Samples: n, Held: e, HeldOut: ok}
	}
	for _, kind := range []Kind{GEMM, NarrowGEMM, Elementwise, Decode, NarrowDecode, Prefill, Extend, AllReduce, PageSparse, PCIe, Small} {
		if s := kernelSamples(kind, samples); len(s) > 0 {
			e, ok, err := t.FitHeldOut(kind, s, o)
			if err != nil {
				return nil, err
			}
			report(kind, e, ok, len(s))
		}
	}
	for _, step := range []fitStep{powerStep, iterationStep, powerStep} {
		fit, always := step.samples(samples)
		if len(fit) == 0 {
			continue
		}
		e, ok, err := t.heldOut(step.parameters, fit, len(fit), always, o)
		if err != nil {
			return nil, err
		}
		if err := t.fit(step.parameters, append(always, fit...), o); err != nil {
			return nil, err
		}
		points := map[Kind][]Point{}
		for _, p := range e.Relative {
			points[p.Sample.kind] = append(points[p.Sample.kind], p)
		}
		for kind, s := range ByKind(fit) {
			report(kind, pooled(points[kind]), ok, len(s))
		}
	}
	var fitted []Fitted
	for _, kind := range Kinds() {
		if f, ok := held[kind]; ok {
			fitted = append(fitted, f)
		}
	}
	return fitted, nil
}

// kernelSamples returns the samples to which the parameters of a kind of kernels are fitted: not
// sustained ones, which show the power limit.
func kernelSamples(kind Kind, samples []Sample) []Sample {
	return only(samples, func(s *Sample) bool { return s.kind == kind && s.where != Sustained })
}

// fitStep is a fit of parameters that depend on samples of several kinds.
type fitStep struct {
	parameters Kind                 // whose parameters are fitted
	held       func(s *Sample) bool // samples to hold out, one model or kernel at a time
	always     func(s *Sample) bool // samples that are in every fold
}

var (
	powerStep = fitStep{
		parameters: Power,
		held:       func(s *Sample) bool { return s.kind.Joules() },
		always:     func(*Sample) bool { return false },
	}
	// Products that run for seconds show the power limit without gaps between kernels.
	iterationStep = fitStep{
		parameters: DecodeIteration,
		held:       func(s *Sample) bool { return s.kind.whole() && !s.kind.Joules() },
		always:     func(s *Sample) bool { return s.kind == GEMM && s.where == Sustained },
	}
)

// samples returns the samples of a step: those from which some are held out, and those in every fold.
func (f *fitStep) samples(all []Sample) (held, always []Sample) {
	return only(all, f.held), only(all, f.always)
}

func only(samples []Sample, keep func(*Sample) bool) []Sample {
	var kept []Sample
	for i := range samples {
		if keep(&samples[i]) {
			kept = append(kept, samples[i])
		}
	}
	return kept
}

const folds = 4 // number of parts of the shapes, each held out in turn

// FitHeldOut fits one kind on all samples, and returns the error on shapes held out: the shapes are
// dealt into folds, each is judged by a fit to the others, and the errors are pooled. A single
// shape cannot be held out, and ok is false.
func (t *Target) FitHeldOut(kind Kind, samples []Sample, o Options) (held Errors, ok bool, err error) {
	if kind == AllReduce && !t.tables {
		samples = onePath(samples, t.GPU.Collective.SmallLimit)
	}
	held, ok, err = t.heldOut(kind, samples, folds, nil, o)
	if err != nil {
		return Errors{}, false, err
	}
	return held, ok, t.fit(kind, samples, o)
}

// heldOut divides samples by shape into n folds, or fewer if there are fewer shapes, and judges each fold by a fit to the other folds and
// to the samples of always.
func (t *Target) heldOut(kind Kind, samples []Sample, n int, always []Sample, o Options) (held Errors, ok bool, err error) {
	return t.heldOutBy(func(part *Target, train []Sample) error { return part.fit(kind, train, o) }, samples, n, always)
}

// heldOutBy is heldOut with any fit function.
func (t *Target) heldOutBy(fit func(part *Target, train []Sample) error, samples []Sample, n int, always []Sample) (held Errors, ok bool, err error) {
	fold, shapes := deal(samples)
	n = min(n, shapes)
	if n < 2 {
		return Errors{}, false, nil
	}
	for f := range n {
		train := append([]Sample(nil), always...)
		var test []Sample
		for i := range samples {
			if fold[i]%n == f {
				test = append(test, samples[i])
			} else {
				train = append(train, samples[i])
			}
		}
		part := *t
		if err := fit(&part, train); err != nil {
			return Errors{}, false, err
		}
		held.Relative = append(held.Relative, part.Judge(test).Relative...)
	}
	return pooled(held.Relative), true, nil
}

// pooled summarises points judged by several fits.
func pooled(points []Point) Errors {
	e := Errors{Points: len(points), Relative: points}
	absolute := make([]float64, len(points))
	for i, p := range points {
		absolute[i] = math.Abs(p.Error)
	}
	e.summarise(absolute)
	return e
}

// deal numbers the shapes in the order of their names and returns each sample's number. Neighbours
// in that order are in different folds.
func deal(samples []Sample) (number []int, shapes int) {
	index := map[string]int{}
	for i := range samples {
		index[samples[i].shape()] = 0
	}
	names := slices.Sorted(maps.Keys(index))
	for i, name := range names {
		index[name] = i
	}
	number = make([]int, len(samples))
	for i := range samples {
		number[i] = index[samples[i].shape()]
	}
	return number, len(names)
}
