// Package llm describes transformer models by their shape and counts the cost of their operations: parameters, floating-point operations,
// bytes of weights, activations and KV cache.
//
// It is independent of devices: package gpu turns the counts into time, and package scheduler/memory plans with the footprints. Start at
// Model.
package llm
