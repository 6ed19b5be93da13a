// Package scheduler decides what each iteration of a replica runs: which requests are
// admitted to the memory of the DIMMs, which requests decode in which sub-batch, and
// how many prompt tokens are prefilled beside them (L3, section 5.3).
//
// It knows no device. The KV memory is a Ledger of allocation units on
// ranksets. The GPU's memory is a number of bytes. The times of iterations come from
// outside: a Predictor, or OffloadCosts, which package system implements with its device models.
//
// A Scheduler is the State of a replica, its requests and memories, and a Former, which
// forms the next iteration from the State. FormerOf returns the sub-batches of L3 or continuous
// batching. An Offload is a Former for a replica with a second memory, that of the host. The
// host's CPUs compute attention for the requests in it (NEO, FastDecode).
//
// Start at Scheduler.Next, which forms a Batch, and State.Complete, which applies
// its effects. Package system runs the batches.
package scheduler
