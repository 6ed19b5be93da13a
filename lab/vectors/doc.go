// Package vectors holds attention results that PyTorch computed in float64 from FP16 inputs for this project, and the tests that compare
// l3sim's reference, its safetensors reader and its units in memory with them. testdata/attention_reference.safetensors has NAME.q,
// NAME.k, NAME.v, NAME.out and NAME.lse of decode steps, causal prefill, a chunk of one, grouped queries, a single token, and outliers,
// all with d = 128; 'l3sim pim verify --vectors' reads it.
package vectors
