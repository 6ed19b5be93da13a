// Package timeline writes timelines that https://ui.perfetto.dev opens: Chrome's trace-event format in JSON.
//
// Writer (writer.go) writes slices, counters, arrows and asynchronous events as they come, and keeps none of
// them. The same events in the same order give the same bytes. Package system writes the timeline of a node,
// Commands (commands.go) that of DRAM commands, and Rank (units.go) that of a DIMM-PIM's units.
package timeline
