// Package check reads and writes logs of DRAM commands, and finds every rule of the standard that a log breaks. It is independent of the
// state and the controllers that issue commands: they share only the part's tables (package dram).
//
// Start at Checker, or at NewLogReader and Log for a whole log.
package check
