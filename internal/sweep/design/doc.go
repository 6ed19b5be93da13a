// Package design reads sweep files: the axes of configuration keys that a sweep crosses, written
// out or sampled from a Latin hypercube, and the conditions that exclude combinations. It knows
// keys and their types, and neither runs nor results.
//
//   - File is a sweep file as written; ReadFile finds what is wrong in it, with the line.
//   - Axis and Choice are a dimension of the design space and a position on it.
//   - ParseCondition reads an expression over keys.
//
// Start at file.go, then axes.go; latin.go has the sampling. Package sweep makes points of a file
// and runs them.
package design
