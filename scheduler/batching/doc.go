// Package batching forms the iterations of one replica: which requests get memory, which decode in which sub-batch, and how many
// prompt tokens they prefill (L3, section 5.3).
//
// State is the requests of the replica and the memory that they hold. A Former forms the next Batch from it; that one method is
// all that differs between schedulers. FormerOf returns L3's sub-batches or continuous batching. A Scheduler is a State with its
// Former: Next forms a batch, Complete applies its effects. The package knows no device: times come from a Predictor. Package
// system implements one with the costs that it will charge, package predict one with observed times.
//
// Read state.go, then subbatches.go and prefill.go (L3) or continuous.go (vLLM, Sarathi-Serve). admission.go says who gets memory,
// preempt.go who gives it up, check.go what must hold in every iteration. host.go holds the requests of a second memory, which
// scheduler/offload uses.
package batching
