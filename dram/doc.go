// Package dram is a cycle-level model of DDR memory: what a device is (Spec),
// what its standard forbids (Constraint), and when the next command may issue
// (State). On these stand the energy of a run, a memory controller (package
// controller) and an independent checker of command logs (package check).
//
// A standard is data: Spec holds organisation and timing in clocks, and
// Constraints lists every rule as a row (scope, command, next command, clocks,
// window). State compiles the rows to flat arrays; nothing else in the package
// knows what tRCD is.
//
// The processing-in-memory commands (ACTA, MACA, RDRES, WRBUF) are rows of the
// same table: a PIM program of package pim runs on the State of one rank.
//
// Times are integer clocks of tCK. Start at Spec, then State, then package controller.
package dram
