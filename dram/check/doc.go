// Package check reads and writes logs of DRAM commands, and finds every rule of the
// standard that a log breaks. It shares nothing with the state and the controllers that
// issue commands but the part's tables (package dram).
//
// Start at Checker, or at NewLogReader and Log for a whole log.
package check
