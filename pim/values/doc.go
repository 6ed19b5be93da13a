// Package values executes attention programs on the bytes that the mapping stored, the second interpretation of a program
// (pim/machine has the first).
//
// HostRank is a rank as its host sees it: store tokens, attend. Behind it the value machine (values.go) has units beside the banks
// (bank_units.go), the buffer unit (buffer_unit.go) and, in their place, a rank-level unit (rank_level_unit.go). Verify compares
// what a program computes with a float64 reference, and bit for bit with direct (verify_direct.go), which is written from
// lab/docs/model-dimm.md and shares no code with the machine: change one without the other. MeasurePages has the units score
// pages and attends to the best. Read host_rank.go, then values.go.
package values
