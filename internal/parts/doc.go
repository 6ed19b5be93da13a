// Package parts has the DRAM parts that tests of ranks with processing units run on.
package parts
