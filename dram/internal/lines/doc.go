// Package lines reads the lines of traces and command logs, each bounded in length. Its
// readers are dram/controller (traces) and dram/check (logs).
//
// Start at Reader; dram/check/log.go and dram/controller/trace.go use it.
package lines
