// Package scheduler decides what each iteration of a replica runs: which requests are
// admitted to the memory of the DIMMs, which requests decode in which sub-batch, and
// how many prompt tokens are prefilled beside them (L3, section 5.3).
//
// It knows no device. The KV memory is a Ledger of allocation units on
// ranksets. The GPU's memory is a number of bytes. The time of a sub-batch comes from a
// Predictor, which package system implements with its device models.
//
// Offload is a Scheduler with a second memory, that of the host. The host's CPUs compute
// attention for the requests in it (NEO, FastDecode).
//
// Start at Scheduler.Next, which forms a Batch, and Scheduler.Complete, which applies
// its effects. Package system runs the batches.
package scheduler
