// Package scheduler decides what each iteration of a replica runs: which
// requests are admitted to the memory of the DIMMs, which decode in which
// sub-batch, and how many prompt tokens are prefilled beside them (L3, section
// 5.3).
//
// It knows no device. The KV memory is a Ledger of allocation units on
// ranksets, the GPU's memory a byte count, and the time that a sub-batch would
// take comes from a Predictor, which package system implements on its device
// models.
//
// Offload is a Scheduler with a second memory, the host's, whose CPUs attend for the
// requests that it holds (NEO, FastDecode).
//
// Start at Scheduler.Next, which forms a Batch, and Scheduler.Complete, which
// applies what it did. Package system runs the batches.
package scheduler
