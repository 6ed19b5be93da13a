// Package lm runs a small language model on a simulated node: the dense parts in
// float32, as its GPU would, and the attention of decode steps by the programs of
// package pim on the bytes in the simulated DIMMs.
//
// Weights (weights.go) are a safetensors file. Model (model.go) is one position's way
// through them. What a layer attends with is an attender: Host (host.go) computes on
// float32 keys and values in memory, DIMMs (dimms.go) on what the re-layout unit has
// stored in the ranks, chosen (chosen.go) on the tokens that an attention policy chooses: in
// float64, or on ranks and GPUs (homes.go). A Session (session.go) prefills prompts on the host and decodes
// on either of the first. Evaluate and EvaluatePolicy (evaluate.go) measure how well a text is
// predicted, attended.go compares a policy's choices with attention to everything,
// MeasureSteps (traffic.go) says what the steps take. docs/lab/language-model.md and
// docs/lab/sparse.md report results.
//
// Start at Session, then dimms.go and package pim's rank.go.
package lm
