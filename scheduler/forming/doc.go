// Package forming forms the iterations of one replica: which requests are admitted to memory, which decode in which sub-batch, and
// how many prompt tokens are prefilled beside them (L3, section 5.3).
//
// State is the requests of the replica and the memory that they hold. A Former forms the next Batch from it; that one method is
// all that differs between schedulers. FormerOf returns L3's sub-batches or continuous batching. A Scheduler is a State with its
// Former: Next forms a batch, Complete applies its effects. No device is known here: times come from a Predictor, which package
// system implements with the costs that it will charge and package predict with what it has observed.
//
// Read state.go, then subbatches.go and prefill.go (L3) or continuous.go (vLLM, Sarathi-Serve). admission.go says who gets memory,
// preempt.go who gives it up, check.go what must hold in every iteration. host.go is the requests of a second memory; those who
// use it are in scheduler/offload.
package forming
