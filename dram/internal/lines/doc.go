// Package lines reads the lines of traces and command logs, each bounded in length. Its
// readers are dram/controller (traces) and dram/check (logs).
package lines
