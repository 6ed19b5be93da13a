// Package traces gives the requests of a run: their lengths in tokens, when they arrive, and what they share.
//
// Load reads a file in any of the formats of docs/reference/traces.md, compressed or not, and recognises the format from the file's
// beginning. Trace.Write writes them. Synthetic draws from the built-in length distributions of the L3 paper (Table 4), whose per-sample
// lengths are not public.
//
// Start at Trace. Package scheduler/batching queues the requests, package results reports on them.
package traces
