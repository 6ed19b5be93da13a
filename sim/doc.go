// Package sim is the event engine: integer time, a queue of value events,
// first-come-first-served resources and the spans that a run leaves on a
// timeline. It knows nothing of what is simulated.
//
// A simulation owns one Queue and a switch over Event.Kind:
//
//	for {
//		e, ok := queue.Pop()
//		if !ok {
//			break
//		}
//		switch e.Kind { ... queue.Push(...) ... }
//	}
//	return queue.Err()
//
// Events are values, ordered by (time, priority, sequence): there is no
// interface, closure or allocation an event, and the same pushes always give
// the same pops.
//
// Start at Queue, then Resource; package system wires them into a node.
package sim
