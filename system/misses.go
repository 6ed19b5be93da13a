package system

import (
	"errors"
	"sync/atomic"

	"github.com/l3sim/l3sim/results"
)

// ErrMissed is of a run that ended early by Options.Misses.
var ErrMissed = errors.New("more requests miss their targets of latency than the run allows")

// Misses counts the requests from one place in the trace to before another that miss their targets of latency, those turned away among
// them. The count is of one run, whose replicas may share it.
type Misses struct {
	From, To int
	Most     int64        // that the run allows
	Came     atomic.Int64 // requests of the whole trace that have come
	seen     atomic.Int64
}

// more counts a request that leaves, at its place in the trace, and says whether more have missed than the run allows.
func (m *Misses) more(place int, q *results.Request) bool {
	return !q.Attained && place >= m.From && place < m.To && m.seen.Add(1) > m.Most
}
