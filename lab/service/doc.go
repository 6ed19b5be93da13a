// Package service judges the GPU side of the simulator by whole servers: it runs static
// batches and closed loops through the system gpu-only and compares the latency with what
// was measured.
//
//   - Row is one measured batch or loop, Table supplies what files leave out. Read reads both.
//   - Run gives each row to a node of its own, and what a framework adds is fitted to
//     every fifth row that fits in memory.
//   - Report is the errors over the other rows, by series, and whether the memory model
//     finds the rows that do not fit.
//
// A file has the columns gpu, gpus (which share every layer), framework, model, in_tokens and out_tokens (of each
// request), batch (requests) and latency_s (of the whole batch). A closed loop has ttft_ms and tpot_ms, means over its
// requests, in place of latency_s; batch is its users, each of whom sends a request and the next when it has been
// answered. A loop runs for six rounds; the third to the fifth are measured, since all prompts come at once in the first
// and users leave in the last. A file service.toml beside the measurements explains names and gives what a file lacks:
// data/service.toml has all that it may say.
//
// A row does not fit in memory (spill_rows) where weights, and keys and values of the whole batch at its end, are more
// than the framework may use (gpu.memory_share). It does not either where they are more than 0.8 of the GPUs' memory and
// the latency is more than a tenth above a bound from smaller rows of its series that fit: the lower of the line through
// the two next smaller batches, as a further request takes at most as long as one before it, and of steps times keys
// and values. The simulator says that a row does not fit where requests waited for memory, lost it, or were never
// served: spill_correct and spill_false count how often that is right and wrong.
//
// lab/docs/validation.md has the errors and what is known to be missing.
//
// Start at Read (read.go), then run.go and fit.go.
package service
