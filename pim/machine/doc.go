// Package machine runs the attention of KV heads on one rank with processing units, command by command.
//
// The attention of a head is a program: a stream of instructions (activate, multiply-accumulate read, read results, write the shared
// buffer, precharge, append) with two interpretations. The machine of this package issues it against the timing state of package dram;
// package pim/values executes it on bytes. A mistake in the mapping thus shows in both.
//
// Read instruction.go (operations), then program.go and generate.go (dependencies), then machine.go. refresh.go has the refresh manager,
// receive.go interrupts by transfers, and repeat.go skips repetitions. Measure reports one layer's heads in detail, MeasureTransfer the
// cost of a transfer for the rank that it interrupts. lab/docs/model-dimm.md derives the numbers. Next: pim/tables.
package machine
