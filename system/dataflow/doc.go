// Package dataflow runs the layers of one iteration on the resources of a replica
// as discrete events, in integer picoseconds. It knows no system: a system lists
// its resources once (Resource), fills the operations of each iteration (Op), and
// asks the engine when the iteration ends.
//
// Read iteration.go for what a system describes, then Engine.Run in engine.go.
// fifo.go serves one operation after another. link.go serves transfers in pieces.
// lanes.go serves side by side, and lets transfers interrupt. repeat.go skips layers that
// repeat. check.go verifies the laws of a schedule.
// waits.go says which resource waits for which.
//
// Hot paths write a struct field by field in place, and read it there. A copy of a struct whose
// fields were just written stalls on store forwarding: the processor cannot read several small
// stores as one large load before they reach the cache. With literals of Op in place of
// Iteration.Add, a run of l3 takes 7% longer (BenchmarkRun/l3 of package system).
//
// alone.go and lockstep.go (its shape in lockstep_shape.go) run iterations of a simpler shape
// faster. They return the same end time, and the engine gives the same results without
// them. A change of when an operation may start is made in these files, too; property
// tests compare them with the events.
package dataflow
