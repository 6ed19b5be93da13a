// Package search looks for the best trade-offs in a design space that is too large to
// try whole: NSGA-II, and beside it random and Latin hypercube samples, which a search
// must beat to be worth its name.
//
//   - Problem is the axes and a function that scores a batch of candidates.
//   - Run carries out one method with one seed and returns all that it evaluated.
//   - Hypervolume measures a front.
//
// A candidate is a gene for each axis, a number from 0 to 1: the quantile of its value.
// The same problem and options give the same candidates in the same order on every machine.
//
// Start at Run. internal/sweep/search.go is the Problem of a sweep file.
package search
