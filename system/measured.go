package system

import (
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Measured is what some requests of a run say about a level of service, those in the middle
// of it: the first ones meet an empty node, and the last ones find it emptying.
type Measured struct {
	Requests        int // turned away or served
	Attainment      float64
	GoodputTokens   float64 // output tokens of those that attain the targets, a second of the time over which all come
	TTFT, TPOT, E2E results.Latency
	TBT             results.Latency // all gaps that end in that time, whosever they are
	Saturated       bool            // the whole run
}

// Middle returns the time over which the requests of a trace from one place to before another
// come. Its requests are in the order of arrival.
func Middle(trace *traces.Trace, from, to int) Window {
	return Window{From: trace.Requests[from].Arrival, To: trace.Requests[to-1].Arrival}
}

// Measured returns what the requests from one place in the trace to before another say. Gaps
// are those of Options.Measure.
func (r *Result) Measured(from, to int, over Window) Measured {
	part := Result{Requests: r.Requests[from:to]}
	o := part.outcomes()
	m := Measured{
		Requests: to - from, Attainment: float64(o.attained) / float64(to-from), Saturated: r.saturated,
		TTFT: o.ttft.Milliseconds(), TPOT: o.tpot.Milliseconds(), E2E: o.e2e.Milliseconds(), TBT: r.measured.Milliseconds(),
	}
	if seconds := (over.To - over.From).Seconds(); seconds > 0 {
		// Gaps between arrivals are one fewer than requests.
		m.GoodputTokens = float64(o.good) / (seconds * float64(to-from) / float64(to-from-1))
	}
	return m
}

// within says whether a time is in a window.
func (w *Window) within(t units.Duration) bool { return t >= w.From && t <= w.To }
