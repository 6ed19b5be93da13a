// Package predict learns how long sub-batches take from those that have run (L3, section 5.3). Two random forests (package forest)
// predict T_GPU, a linear model predicts T_PIM. A Learned is a batching.Predictor; HoldOut measures its errors (L3, Fig 10b).
//
// Read learned.go, which has the two equations, then learned_forest.go and learned_linear.go.
package predict
