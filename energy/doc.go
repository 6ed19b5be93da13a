// Package energy has the constants that turn a run's activity into joules, watts and dollars. Each has a source, a band and a
// grade. lab/docs/energy.md says what is counted.
//
// Start at Spec (spec.go) and Prices (prices.go). Package system/power multiplies them by the activity of a run; dram/energy.go
// has the joules of DRAM commands, gpu/power.go those of kernels.
package energy
