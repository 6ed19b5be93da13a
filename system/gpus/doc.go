// Package gpus models the GPUs of a replica, which every system has: dense layers, attention of prompts, their part of
// decode attention, and the memory for keys and values on them.
//
// Read gpu_side.go first, then stage.go, which adds the layers of a sub-batch to a flow. group.go reads shared
// prefixes once, swap.go moves blocks of a cache to the host, iteration_parts.go splits an iteration into parts. The
// times of kernels come from package gpu.
package gpus
