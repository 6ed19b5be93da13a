// Package vectors holds attention of FP16 inputs that PyTorch computed in float64 for this project, and the tests that hold
// l3sim's reference, its safetensors reader and its units in memory to them. testdata/attention_reference.safetensors has NAME.q, NAME.k,
// NAME.v, NAME.out and NAME.lse of decode steps, causal prefill, a chunk of one, grouped queries, a single token, and outliers, all with
// d = 128; 'l3sim pim verify --vectors' reads it.
package vectors
