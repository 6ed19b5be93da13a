package validation

import (
	"math"
	"slices"
)

// fit says how much of an anchor the parameters were fitted to.
type fit string

const (
	fitted  fit = "fitted"
	partly  fit = "in part"
	heldOut fit = "held out"
)

// anchor is measured numbers and the simulator's predictions of them.
type anchor struct {
	group, name string
	seen        fit
	unit        string // of measured and predicted
	pairs       []pair
}

// pair is one measurement.
type pair struct {
	what                string
	measured, predicted float64
}

func (p *pair) error() float64 { return p.predicted/p.measured - 1 }

// errors of an anchor, as fractions.
type errors struct {
	Rows   int     `json:"rows"`
	Mean   float64 `json:"mean_ape"`
	Median float64 `json:"median_ape"`
	P90    float64 `json:"p90_ape"` // nearest rank
	Bias   float64 `json:"bias"`
	worst  pair
}

func (a *anchor) errors() errors {
	e := errors{Rows: len(a.pairs), worst: a.pairs[0]}
	absolute := make([]float64, len(a.pairs))
	for i := range a.pairs {
		relative := a.pairs[i].error()
		absolute[i] = math.Abs(relative)
		e.Mean += absolute[i] / float64(e.Rows)
		e.Bias += relative / float64(e.Rows)
		if absolute[i] > math.Abs(e.worst.error()) {
			e.worst = a.pairs[i]
		}
	}
	slices.Sort(absolute)
	rank := func(q float64) float64 { return absolute[int(math.Ceil(q*float64(e.Rows)))-1] }
	e.Median, e.P90 = rank(0.5), rank(0.9)
	return e
}
