package attention

import _ "embed"

// referenceVectors were computed for this project by PyTorch: attention of FP16
// inputs in float64.
//
//go:embed testdata/attention_reference.safetensors
var referenceVectors []byte

// ReferenceVectors returns the project's own test vectors, as NAME.q, NAME.k,
// NAME.v, NAME.out and NAME.lse: decode steps, causal prefill, a chunk of one,
// grouped queries, a single token, and outliers, all with d = 128.
func ReferenceVectors() (*Safetensors, error) { return ParseSafetensors(referenceVectors) }
