package scheduler

import (
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
// section 5.3). All keys but Kind apply only to learned predictors.
type PredictorSpec struct {
	Kind string `toml:"kind"` // PredictExact or PredictLearned
	// WarmUp is the number of observations that a model needs before it answers.
	WarmUp int `toml:"warm_up"`
	// RefitEvery is the number of changes of a model's data after which it is fitted
	// again.
	RefitEvery int `toml:"refit_every"`
	// Window is the number of observations that a model is fitted to: distinct
	// feature points for the forests, sub-batches for the linear model.
	Window   int `toml:"window"`
	Trees    int `toml:"trees"`     // trees of each forest
	MaxDepth int `toml:"max_depth"` // largest depth of a tree
	MinLeaf  int `toml:"min_leaf"`  // least number of rows in a leaf of a tree
	// Noise is the relative standard deviation of multiplicative measurement
	// noise, of mean 1, on every time observed.
	Noise float64 `toml:"noise"`
}

// Check has the rules of the section [predictor].
func (p *PredictorSpec) Check(c *input.Check) {
	input.OneOf(c, "kind", p.Kind, PredictExact, PredictLearned)
	input.Within(c, "window", p.Window, 4, 1<<16)
	input.Within(c, "warm_up", p.WarmUp, 1, 1<<16)
	input.Within(c, "refit_every", p.RefitEvery, 1, 1<<30)
	input.Within(c, "trees", p.Trees, 1, 1024)
	input.Within(c, "max_depth", p.MaxDepth, 1, 64)
	input.Within(c, "min_leaf", p.MinLeaf, 1, 1<<16)
	input.Within(c, "noise", p.Noise, 0, 1)
}
