// Package gpu turns the operations of a transformer into seconds on a GPU: a roofline with efficiencies, fitted to measured kernels, for
// matrix products, prefill and decode attention, element-wise kernels and all-reduce.
//
// Spec holds the parameters (configs/gpus/*.toml gives each one's source). Its methods cost single kernels with one of two models behind
// one interface (kernels.go): the measured one, with a file for each kind of kernel, and AttAcc's (attacc.go). ModelCost composes kernels
// into the operations of one layer of one tensor-parallel replica, which is what a node simulator needs. All cost functions are pure: same
// arguments, same seconds.
//
// Start at Spec, then kernels.go and gemm.go; lab/docs/model-gpu.md derives the formulas and reports how well they predict.
package gpu
