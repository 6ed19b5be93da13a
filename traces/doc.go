// Package traces gives the requests of a run: their lengths in tokens and
// when they arrive.
//
// Load reads a file, in any of the formats in format.go: Azure's and plain
// CSV, LLMServingSim's lengths and Mooncake's JSON lines, gzipped or not.
// Synthetic draws from the built-in length distributions of the L3 paper
// (Table 4), whose per-sample lengths are not public.
//
// Start at Trace. Package scheduler queues the requests, package results
// reports on them.
package traces
