// Package loop judges the dataflow of the system l3 against measured decode iterations: a real GPU
// ran the products of a model and moved vectors to pinned memory and back, and a stand-in of known
// latency replaced the units in memory.
//
//   - Read reads the measurements: a Row is one iteration, a Series those that differ in the
//     stand-in's latency alone.
//   - Judge runs each row through l3's own operations and engine (kinds.StandIn) and compares: once
//     with the measured time of the GPU's part, once with the preset's own kernels.
//   - Fit finds the four parameters of the link that the rows show, on every fifth of them.
//   - Report is the errors as text, JSON, and a figure.
//
// lab/docs/validation.md has the results and what they say of the L3 paper's overlap.
//
// Start at Read (read.go), then judge.go.
package loop
