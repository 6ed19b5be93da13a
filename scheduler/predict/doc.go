// Package predict learns how long sub-batches take from those that have run (L3, section 5.3): T_GPU by two random forests (package
// forest), T_PIM by a linear model. A Learned is a forming.Predictor; HoldOut measures its errors (L3, Fig 10b).
//
// Read learned.go, which has the two equations, then learned_forest.go and learned_linear.go.
package predict
