// Package llm describes transformer models by their shape and counts what
// their operations cost: parameters, floating-point operations, bytes of
// weights, activations and KV cache.
//
// It knows no device: package gpu turns these counts into time, package
// scheduler/memory plans with the footprints. Start at Model.
package llm
