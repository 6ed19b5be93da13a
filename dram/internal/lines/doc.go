// Package lines reads the lines of traces and command logs, with a bound on their length. dram/controller reads traces with it, and
// dram/check logs.
//
// Start at Reader; dram/check/log.go and dram/controller/trace.go use it.
package lines
