package system

import (
	"errors"

	"github.com/l3sim/l3sim/results"
)

// ErrMissed is of a run that ended early by Options.Misses.
var ErrMissed = errors.New("more requests miss their targets of latency than the run allows")

// Misses counts the requests from one place in the trace to before another that miss their targets of latency, those turned away among
// them. The count is of one run. Its replicas run in one loop over time, so that the run ends with the same request on any number of
// processors.
type Misses struct {
	From, To int
	Most     int64                    // that the run allows
	Missed   func(q *results.Request) // is told of each of them; nil: nobody
	Came     int64                    // requests of the whole trace that have come
	seen     int64
}

// more counts a request that misses its targets, at its place in the trace, and says whether more have missed than the run allows.
func (m *Misses) more(place int, q *results.Request) bool {
	if place < m.From || place >= m.To {
		return false
	}
	if m.Missed != nil {
		m.Missed(q)
	}
	m.seen++
	return m.seen > m.Most
}
