package measure

import (
	"maps"
	"math"
	"slices"
)

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
	held, ok, err = t.heldOut(kind, samples, folds, nil, o)
	if err != nil {
		return Errors{}, false, err
	}
	return held, ok, t.fit(kind, samples, o)
}

// heldOut judges samples by fits to the others of them and to always, in n folds of
// shapes, or as many as there are shapes.
func (t *Target) heldOut(kind Kind, samples []Sample, n int, always []Sample, o Options) (held Errors, ok bool, err error) {
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
		if err := part.fit(kind, train, o); err != nil {
			return Errors{}, false, err
		}
		held.Relative = append(held.Relative, part.Judge(test).Relative...)
	}
	return pooled(held.Relative), true, nil
}

// pooled summarises points that several fits judged.
func pooled(points []Point) Errors {
	e := Errors{Points: len(points), Relative: points}
	absolute := make([]float64, len(points))
	for i, p := range points {
		absolute[i] = math.Abs(p.Error)
	}
	e.summarise(absolute)
	return e
}

// deal numbers the shapes in the order of their names and returns the number of
// each sample's. Neighbours in that order fall into different folds.
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
