// Package energy has the constants that turn what a run does into joules, watts and dollars: each with its source, a
// band and a grade. docs/energy.md and docs/cost.md say what is counted.
package energy
