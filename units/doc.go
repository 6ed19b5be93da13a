// Package units gives physical quantities their types: durations in integer
// picoseconds, byte counts, bandwidths and arithmetic rates. Each type reads
// and writes the unit in its text form ("625ps", "2TiB", "25.6GB/s",
// "312TFLOP/s"), which is how configuration files write it.
//
// Decimal prefixes are powers of 1,000 (GB = 10^9 bytes) and binary prefixes
// powers of 1,024 (GiB = 2^30 bytes).
//
// Nothing here knows what is simulated; read package llm next.
package units
