// Package parts has the DRAM parts used by tests of ranks with processing units.
package parts
