// Package scheduler holds the types that all of scheduling shares: what one iteration of a replica runs (Batch, SubBatch,
// Decoding, Chunk), the sections of the configuration that decide it (Spec, BatchingSpec, MemorySpec, CommSpec, CacheSpec,
// PredictorSpec, ServingSpec, SLO), why a request is rejected, and the measured times of a sub-batch (Sample). It decides nothing
// and imports no other package below scheduler.
//
// Read batch.go first. Then read scheduler/batching, which forms batches, and scheduler/memory, which accounts for keys and values.
// scheduler/offload forms batches where the host's CPUs compute some of the attention, and scheduler/predict learns how long
// sub-batches take.
package scheduler
