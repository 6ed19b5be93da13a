package scheduler

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// Kinds of latency predictors.
const (
	// PredictExact knows the costs that the node will charge.
	PredictExact = "exact"
	// PredictLearned is Learned.
	PredictLearned = "learned"
)

// PredictorSpec is the configuration of the scheduler's latency predictors (L3,
// section 5.3). All keys but Kind are of the learned ones.
type PredictorSpec struct {
	Kind string `toml:"kind"` // PredictExact or PredictLearned
	// WarmUp is the number of observations that a model needs before it answers.
	WarmUp int `toml:"warm_up"`
	// RefitEvery is the number of observations that changed a model's data after
	// which it is fitted anew.
	RefitEvery int `toml:"refit_every"`
	// Window is the number of observations that a model is fitted to: distinct
	// feature points for the forests, sub-batches for the linear model.
	Window   int `toml:"window"`
	Trees    int `toml:"trees"`     // of each forest
	MaxDepth int `toml:"max_depth"` // of a tree
	MinLeaf  int `toml:"min_leaf"`  // least rows in a leaf of a tree
	// Noise is the relative standard deviation of multiplicative measurement
	// noise, of mean 1, on every time observed.
	Noise float64 `toml:"noise"`
}

// Validate reports values out of range; keys are relative to the section.
func (p *PredictorSpec) Validate() []*input.Error {
	var errs []*input.Error
	if kinds := []string{PredictExact, PredictLearned}; !slices.Contains(kinds, p.Kind) {
		errs = append(errs, input.UnknownName("kind", p.Kind, kinds))
	}
	within := func(key string, value, low, high int) {
		if value < low || value > high {
			errs = append(errs, &input.Error{Key: key, Value: fmt.Sprint(value), Expected: fmt.Sprintf("%d to %d", low, high)})
		}
	}
	within("window", p.Window, 4, 1<<16)
	within("warm_up", p.WarmUp, 1, 1<<16)
	within("refit_every", p.RefitEvery, 1, 1<<30)
	within("trees", p.Trees, 1, 1024)
	within("max_depth", p.MaxDepth, 1, 64)
	within("min_leaf", p.MinLeaf, 1, 1<<16)
	if !(p.Noise >= 0 && p.Noise <= 1) { // NaN fails
		errs = append(errs, &input.Error{Key: "noise", Value: fmt.Sprint(p.Noise), Expected: "0 to 1"})
	}
	return errs
}
