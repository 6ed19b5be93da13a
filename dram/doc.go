// Package dram is a cycle-level model of DRAM: a standard (Standard), a device (Spec), its timing rules (Constraint), and the step at which
// the next command may issue (State). The energy model, a memory controller (package controller) and an independent checker of command logs
// (package check) build on these.
//
// A standard is a table, a file of standards/ or the user's (ReadStandard): commands, rules as rows (level, commands, next commands,
// clocks, window), refreshes, and the values of its parts. Spec holds a part's organisation and timing in clocks. State compiles the rows
// to flat arrays. No code depends on a standard's name.
//
// The processing-in-memory commands (ACTA, MACA, RDRES, WRBUF) are rows of the same table: a PIM program of package pim runs on the State
// of one rank.
//
// Times are integer steps, in most standards clocks of tCK. Start at Spec, then State, then package controller.
package dram
