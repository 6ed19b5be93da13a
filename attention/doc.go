// Package attention computes softmax attention on the host in float64, and has the number formats and files needed to compare the
// functional PIM model with it:
//
//   - reference.go: attention of one query and of causal blocks, float64, and the distance of a result from its reference;
//   - latent.go: keys and values of latent attention, expanded and absorbed;
//   - half.go: IEEE 754 binary16 and bfloat16, conversion and rounding;
//   - safetensors.go, safetensors_write.go: the file format of test vectors and weights, and the project's own vectors by PyTorch.
//
// Vectors are row-major slices: a matrix of n keys of dimension d is a slice of n·d values, key i at [i·d, (i+1)·d).
//
// The package does not depend on DRAM; read package pim next, which computes the same on bytes in memory banks.
package attention
