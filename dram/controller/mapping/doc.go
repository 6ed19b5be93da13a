// Package mapping splits the addresses of a memory system into channel, rank, bank group, bank, row and column.
//
// Start at New.
package mapping
