// Package forest implements random-forest regression: the mean of regression trees. Each tree is
// grown on a bootstrap sample of the data. All features compete for every split: with two features,
// a forest that chooses one at random wastes half of its splits (lab/docs/model-node.md has the
// errors).
//
//	L. Breiman, "Random Forests", Machine Learning 45(1), 2001, 5–32,
//	https://doi.org/10.1023/A:1010933404324
//
// The trees are those of L. Breiman, J. Friedman, R. Olshen and C. Stone,
// "Classification and Regression Trees", 1984: binary splits of one feature that
// reduce the variance of the target most.
//
// A forest is built for predictors that learn while a system runs: Refit replaces
// the oldest trees by trees grown on the current data and keeps the others, and
// Predict allocates nothing.
//
// A forest does not extrapolate: beyond the data it continues with the value at
// the edge. Forest.Range returns the range in which its trees have data. The caller
// decides how to predict beyond it (see predict.Learned).
//
// Start at Fit, then read tree.go.
package forest
