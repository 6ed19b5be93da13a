// Package energy has the constants that turn what a run does into joules, watts and dollars: each with its source, a
// band and a grade. lab/docs/energy.md says what is counted.
//
// Start at Spec (spec.go) and Prices (prices.go). Package system/power multiplies them by what
// a run has done; dram/energy.go has the joules of DRAM commands, gpu/power.go those of kernels.
package energy
