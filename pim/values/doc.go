// Package values executes attention programs on stored bytes. It is the second interpretation of a program (pim/machine has the first).
//
// HostRank is a rank as its host sees it: store tokens, attend. It uses the value machine (values.go), which has units at the banks
// (bank_units.go) and the buffer unit (buffer_unit.go), or instead a rank-level unit (rank_level_unit.go). Verify compares a program's
// results with a float64 reference, and bit for bit with direct (verify_direct.go). direct follows lab/docs/model-dimm.md and shares no
// code with the machine; keep it that way when you change either. MeasurePages scores pages on the units and attends to the best. Read
// host_rank.go, then values.go.
package values
