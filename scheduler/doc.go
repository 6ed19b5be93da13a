// Package scheduler is the words that all of scheduling shares: what one iteration of a replica runs (Batch, SubBatch, Decoding,
// Chunk), the sections of the configuration that decide it (Spec, BatchingSpec, MemorySpec, CommSpec, CacheSpec, PredictorSpec,
// ServingSpec, SLO), why a request is rejected, and what a sub-batch was measured to take (Sample). It decides nothing and imports
// no other package below scheduler.
//
// Read batch.go first. Then scheduler/forming, which forms batches; it stands on scheduler/memory, which says whether a request's
// keys and values have room. scheduler/offload forms batches for GPUs with a host's CPUs beside them, and scheduler/predict learns
// how long sub-batches take.
package scheduler
