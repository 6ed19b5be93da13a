package sim

import "github.com/l3sim/l3sim/units"

// Time is an instant, or a span, in integer picoseconds.
type Time = units.Duration

// Priority orders the events of one instant; the lower goes first. Events of
// one instant and one priority go in the order in which they were pushed.
type Priority uint8

// The priorities of one instant, first to last.
const (
	// Complete ends work. First, so that whatever ends at an instant has freed
	// its resource and delivered its result before anything else looks.
	Complete Priority = iota
	// Arrive brings in work from outside the node (a request). After
	// completions, so that it finds the memory and the slots that they freed.
	Arrive
	// Decide lets a scheduler act. After completions and arrivals, so that it
	// decides once, knowing all that has happened at the instant.
	Decide
	// Observe samples counters. Last, so that it sees the state in which the
	// instant is left.
	Observe
)

// Event is something that happens at an instant. Kind says what, and A and B
// are its operands (indices of tasks, requests or resources); the package that
// pushes an event gives the three their meaning.
//
// It has four fields so that the compiler keeps it in registers.
type Event struct {
	Time       Time
	Kind, A, B int32
}
