package traces

import (
	"math"
	"slices"

	"github.com/l3sim/l3sim/units"
)

// Request is one request to the serving system.
type Request struct {
	ID      int            // index in its trace
	Arrival units.Duration // from the trace's first request
	Input   int            // prompt tokens, at least 1
	Output  int            // tokens to generate, at least 1
}

// Trace is a list of requests in order of arrival.
type Trace struct {
	Name     string // built-in name, or path of the file
	Requests []Request
	Arrivals Arrivals // how they come, once that has been said
}

// AtOnce returns the trace with all arrivals at time 0: a queue that is full
// from the start, which measures throughput.
func (t *Trace) AtOnce() *Trace {
	requests := slices.Clone(t.Requests)
	for i := range requests {
		requests[i].Arrival = 0
	}
	return &Trace{Name: t.Name, Requests: requests}
}

// OutputTokens returns the number of tokens that all requests generate.
func (t *Trace) OutputTokens() int64 {
	sum := int64(0)
	for _, r := range t.Requests {
		sum += int64(r.Output)
	}
	return sum
}

// Moments are the size of a trace and the moments of its lengths, in tokens.
// The standard deviations are those of the trace itself (division by n).
type Moments struct {
	Requests                  int
	InputTokens, OutputTokens int64 // sums
	InputMean, InputStd       float64
	OutputMean, OutputStd     float64
	InputMax, OutputMax       int
}

// Moments returns the trace's moments; all zero where it is empty.
func (t *Trace) Moments() Moments {
	m := Moments{Requests: len(t.Requests)}
	if m.Requests == 0 {
		return m
	}
	m.OutputTokens = t.OutputTokens()
	for _, r := range t.Requests {
		m.InputTokens += int64(r.Input)
		m.InputMax = max(m.InputMax, r.Input)
		m.OutputMax = max(m.OutputMax, r.Output)
	}
	n := float64(m.Requests)
	m.InputMean = float64(m.InputTokens) / n
	m.OutputMean = float64(m.OutputTokens) / n
	var in, out float64
	for _, r := range t.Requests {
		di, do := float64(r.Input)-m.InputMean, float64(r.Output)-m.OutputMean
		in += float64(di * di)
		out += float64(do * do)
	}
	m.InputStd = math.Sqrt(in / n)
	m.OutputStd = math.Sqrt(out / n)
	return m
}
