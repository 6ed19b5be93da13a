// Package dataflow runs the layers of one iteration on the resources of a replica
// as discrete events, in integer picoseconds. It knows no system: a system lists
// its resources once (Resource), fills the operations of each iteration (Op), and
// asks the engine when the iteration ends.
//
// Read iteration.go for what a system describes, then Engine.Run in engine.go.
// fifo.go serves one operation after another, link.go serves in pieces, lanes.go is
// ranksets that a transfer interrupts. repeat.go skips layers that repeat. check.go
// verifies the laws of a schedule.
//
// Three files run iterations of a simpler shape faster, with the same end: alone.go,
// plain.go and lockstep.go. Read them last; the engine is right without them.
package dataflow
