// Package lm runs a small language model on a simulated node: the dense parts in
// float32, as its GPU would, and the attention of decode steps by programs of DRAM
// commands on the bytes in the simulated DIMMs (package pim/values).
//
// Weights (weights.go) are a safetensors file. Model (model.go) computes one position through all layers. A layer attends in one of three ways. Host
// (host.go) computes on float32 keys and values in memory. DIMMs (dimms.go) computes on what the re-layout unit has stored in the ranks. An attention
// policy chooses tokens (chosen.go) and attends to them in float64, or on the devices where its tokens lie (homes.go).
//
// A layer may have latent attention, whose tokens leave one row for all heads, and experts (latent.go,
// network.go, latent_weights.go); latent_attend.go attends to rows or to what is made of them,
// in float32 or float64, to everything or by the model's own indexer. latent_case.go compares with
// results in the model's file.
//
// A Session (session.go) prefills prompts on the host and decodes on Host or DIMMs. Evaluate and EvaluatePolicy (evaluate.go) measure how well a text is
// predicted, attended.go compares a policy's choices with attention to everything,
// MeasureSteps (traffic.go) says what the steps take. lab/docs/sparse.md reports results.
//
// Start at session.go, then dimms.go and pim/values/host_rank.go.
package lm
