package system

import (
	"errors"

	"github.com/l3sim/l3sim/results"
)

// ErrMissed is returned by a run that Options.Misses ended early.
var ErrMissed = errors.New("more requests miss their targets of latency than the run allows")

// Misses counts the requests From ≤ place < To in the trace that miss their latency targets or are turned away. It serves one run. The
// run's replicas then run in one loop over time, so the run ends with the same request on any number of processors.
type Misses struct {
	From, To int
	Most     int64                    // that the run allows
	Missed   func(q *results.Request) // is called with each of them; nil: not called
	Came     int64                    // requests of the whole trace that have arrived
	seen     int64
}

// more counts a request that misses its targets, and says whether more have missed than the run allows. place is its place in the
// trace.
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
