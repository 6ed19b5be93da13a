// Package dram is a cycle-level model of DRAM: what a standard says (Standard), what a
// device of it is (Spec), what that forbids (Constraint), and when the next command may
// issue (State). On these stand the energy of a run, a memory controller (package
// controller) and an independent checker of command logs (package check).
//
// A standard is a table, a file of standards/ or the user's (ReadStandard): commands, rules
// as rows (level, commands, next commands, clocks, window), refreshes, and the values of its
// parts. Spec holds a part's organisation and timing in clocks. State compiles the rows to
// flat arrays; nothing knows a standard by name.
//
// The processing-in-memory commands (ACTA, MACA, RDRES, WRBUF) are rows of the
// same table: a PIM program of package pim runs on the State of one rank.
//
// Times are integer steps, in most standards clocks of tCK. Start at Spec, then State, then package controller.
package dram
