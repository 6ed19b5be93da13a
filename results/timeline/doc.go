// Package timeline writes timelines that https://ui.perfetto.dev opens: Chrome's trace-event format in JSON.
//
// Writer (writer.go) writes slices, counters, arrows and asynchronous events as they come, and keeps none of
// them. The same events in the same order give the same bytes. The timeline of a node is written by package
// system, that of DRAM commands and of the units of a DIMM-PIM by Commands (commands.go).
package timeline
