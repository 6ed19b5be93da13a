// Package gpus is what the GPUs of a replica do for a sub-batch: dense layers, attention of prompts, the part of decode
// attention that they have, and the memory for keys and values on them. Every system has GPUs.
//
// Read gpu_side.go first, then stage.go, which lays the layers of a sub-batch into a flow. group.go reads shared
// prefixes once, swap.go moves blocks of a cache to the host, iteration_parts.go takes an iteration apart.
// The times of kernels are those of package gpu.
package gpus
