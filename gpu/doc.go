// Package gpu turns the operations of a transformer into seconds on a GPU: a
// roofline with efficiencies, fitted to measured kernels, for matrix products,
// prefill and decode attention, element-wise kernels and all-reduce.
//
// Spec holds the parameters (configs/gpus/*.toml gives each one's source).
// Its methods cost single kernels; ModelCost composes them into the operations
// of one layer of one tensor-parallel replica, which is what a node simulator
// needs. ReadMeasured, Validate and Fit compare with and fit to measurements.
// All cost functions are pure: same arguments, same seconds.
//
// Start at Spec, then gemm.go; docs/lab/gpu.md derives the formulas and reports
// how well they predict.
package gpu
