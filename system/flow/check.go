package flow

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Law names an invariant of every run; lab/docs/laws-and-metrics.md states each.
type Law = dataflow.Law

// The laws that Options.Check verifies.
const (
	LawTokens     Law = "tokens"           // every token is emitted once
	LawMemory     Law = "memory"           // no memory holds more than it can, and all is free at the end
	LawCausality      = dataflow.Causality // no operation starts before its inputs are there
	LawExclusive      = dataflow.Exclusive // no resource does two things at once
	LawIdle           = dataflow.Idle      // no resource idles while a ready operation waits for it
	LawAdmission  Law = "admission"        // no request that fits is held back
	LawWaits      Law = "waits"            // a request on the host waits no longer than the turns of others allow
	LawTraffic        = dataflow.Traffic   // links, channels and ranks carry and compute what the requests need
	LawIteration      = dataflow.Length    // an iteration takes at least its busiest resource's time, and at most all operations in sequence
	LawRequests   Law = "requests"         // the scheduler has exactly the requests in the system, and a router sees their tokens
	LawProgress   Law = "progress"         // a token is emitted before the prefilled tokens exceed the sum of all requests' tokens
	LawThroughput Law = "throughput"       // no run beats the bandwidth of PIM or HBM

	// LawBusy is verified in every run.
	LawBusy Law = "busy" // no resource's busy time is negative or exceeds the time of the run
	// LawEnergy is verified in every run, and of every table of attention.
	LawEnergy Law = "energy" // no part of the energy is negative, parts add up to the total, and the total is within its band
)

// Violation is a law that a run broke: an error of the simulator, not of its
// user.
type Violation struct {
	Law    Law
	Time   units.Duration
	Detail string // the operations involved
}

// Error names the law, the time and the operations.
func (v *Violation) Error() string {
	return fmt.Sprintf("law %q is broken at %v: %s", v.Law, v.Time, v.Detail)
}

// Violations is all laws that one iteration broke, or the end of a run.
type Violations []*Violation

// Error joins all violations into one line.
func (v Violations) Error() string {
	var text []string
	for _, one := range v {
		text = append(text, one.Error())
	}
	return strings.Join(text, "; ")
}

// Checker verifies the laws of a replica and keeps the violations.
type Checker struct {
	violations Violations
	Here       int   // requests in the system
	prefilled  int64 // tokens prefilled since the last token was emitted
	longest    int64 // prompt and output tokens of all requests so far
}

// Fail records a violation.
func (c *Checker) Fail(law Law, at units.Duration, format string, args ...any) {
	c.violations = append(c.violations, &Violation{law, at, fmt.Sprintf(format, args...)})
}

// Err returns the violations, nil for none.
func (c *Checker) Err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations
}

// Comes records an arriving request.
func (c *Checker) Comes(q *traces.Request) {
	c.Here++
	c.longest += int64(q.Input + q.Output)
}

// Progress verifies that prompts do not run endlessly without emitting a token.
func (c *Checker) Progress(b *scheduler.Batch, now units.Duration) {
	emitting := 0
	for s := range b.Sub {
		c.prefilled += int64(b.Sub[s].PrefillTokens())
		emitting += b.Sub[s].Emitting()
	}
	if c.prefilled > c.longest {
		c.Fail(LawProgress, now, "prompts of %d tokens emit nothing, all requests have %d", c.prefilled, c.longest)
	}
	if emitting > 0 {
		c.prefilled = 0
	}
}

// schedule verifies the iteration that a flow has just run. It checks the spans of an
// event-by-event run, and that they end when the flow's run did, which may have skipped repeats.
func (c *Checker) schedule(f *Flow, start, end units.Duration) {
	waits := *f.Engine.Waits()
	again, found := f.Engine.Check(&f.Iteration, start)
	for _, v := range found {
		c.Fail(v.Law, v.Time, "%s", v.Detail)
	}
	if again != end {
		c.Fail(LawIteration, end, "the iteration takes %v, and %v event by event", end-start, again-start)
	}
	if more := *f.Engine.Waits(); more != waits {
		c.Fail(LawIteration, end, "the iteration waits %v, and %v event by event", waits, more)
	}
}
