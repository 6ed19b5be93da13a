// Package service judges the GPU side of the simulator by whole servers: it runs static
// batches and closed loops through the system gpu-only and compares the latency with what
// was measured.
//
//   - Row is one measured batch or loop, Table says what files leave out. Read reads both.
//   - Run gives each row to a node of its own, and what a framework adds is fitted to
//     every fifth row that fits in memory.
//   - Report is the errors over the other rows, by series, and whether the memory model
//     finds the rows that do not fit.
//
// lab/docs/services.md explains the columns, the law of the overhead, and what a row is
// taken to show about memory.
//
// Start at Read (read.go), then run.go and fit.go.
package service
