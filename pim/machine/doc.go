// Package machine runs the attention of KV heads on one rank with processing units, command by command.
//
// The attention of a head is a program: a stream of instructions (activate, multiply-accumulate read, read results, write the shared
// buffer, precharge, append) that is generated once and has two interpretations. The machine of this package issues it against the
// timing state of package dram; package pim/values executes it on bytes. A mistake in the mapping then shows in both.
//
// Read instruction.go (what an operation is), then program.go and generate.go (who waits for whom), then machine.go. The refresh manager
// is refresh.go, a transfer that interrupts receive.go, repeats that are skipped repeat.go. Measure reports one layer's heads in
// detail, MeasureTransfer what a transfer costs the rank that it interrupts. lab/docs/model-dimm.md derives the numbers. Next: pim/tables.
package machine
