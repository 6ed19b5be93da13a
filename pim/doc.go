// Package pim models the DIMM-PIM of L3 (section 4 of the paper): a rank of DDR4, or of a sub-channel of DDR5, whose banks
// each have a processing unit and whose buffer chip has one, too: the buffer unit.
//
// The attention of one KV head is a program: a stream of instructions for the rank (activate, multiply-accumulate read, read
// results, write the shared buffer, precharge, append). It is generated once and has two interpretations. The machine issues
// it, command by command, against the timing state of package dram; the value machine executes it on the bytes that the
// mapping stored. A mistake in the mapping then shows in both.
//
// Read Spec (what can be configured) and Geometry (which token lies where)
// first, then program.go, machine.go and values.go. KernelTable is what the node
// simulator uses: the clocks of a head by context length, exact and looked up at once.
// TransferTable is the same for keys and values on their way into a rank.
// Measure reports one layer's heads in detail, MeasureTransfer what a transfer
// costs the rank that it interrupts. docs/lab/pim-timing.md derives the numbers.
package pim
