package system

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// Law is the name of something that holds in every run; docs/laws.md states each.
type Law = dataflow.Law

// The laws that Options.Check verifies.
const (
	LawTokens     Law = "tokens"           // every token is emitted once
	LawMemory     Law = "memory"           // no memory holds more than it can, and all is free at the end
	LawCausality      = dataflow.Causality // no operation starts before its inputs are there
	LawExclusive      = dataflow.Exclusive // no resource does two things at once
	LawIdle           = dataflow.Idle      // no resource idles while an operation that is ready waits for it
	LawAdmission  Law = "admission"        // no request that fits is held back
	LawTraffic        = dataflow.Traffic   // links, channels and ranks move and compute what the requests need
	LawIteration      = dataflow.Length    // an iteration takes its busiest resource's time at least, all operations in turn at most
	LawThroughput Law = "throughput"       // no run beats the bandwidth of PIM or HBM

	// LawBusy is verified in every run.
	LawBusy Law = "busy" // no resource works for less than none or for more than all of the time
)

// Violation is a law that a run broke: an error of the simulator, not of its
// user.
type Violation struct {
	Law    Law
	Time   units.Duration
	Detail string // the operations involved
}

func (v *Violation) Error() string {
	return fmt.Sprintf("law %q is broken at %v: %s", v.Law, v.Time, v.Detail)
}

// Violations is all laws that one iteration broke, or the end of a run.
type Violations []*Violation

func (v Violations) Error() string {
	var text []string
	for _, one := range v {
		text = append(text, one.Error())
	}
	return strings.Join(text, "; ")
}

// checker verifies the laws of a replica and keeps what is broken.
type checker struct{ violations Violations }

// fail notes a violation.
func (c *checker) fail(law Law, at units.Duration, format string, args ...any) {
	c.violations = append(c.violations, &Violation{law, at, fmt.Sprintf(format, args...)})
}

// err returns what is broken, nil for nothing.
func (c *checker) err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations
}

// schedule verifies the iteration that a flow has just run: the schedule by the spans
// that its events leave, and that these end when the run did, which may have been a
// shortcut.
func (c *checker) schedule(f *flow, start, end units.Duration) {
	again, found := f.engine.Check(&f.it, start)
	for _, v := range found {
		c.fail(v.Law, v.Time, "%s", v.Detail)
	}
	if again != end {
		c.fail(LawIteration, end, "the iteration takes %v, and %v event by event", end-start, again-start)
	}
}

// traffic verifies what an iteration of L3 has moved and computed against its batch.
func (c *checker) traffic(b *scheduler.Batch, costs *iterationCosts, end units.Duration, done *work) {
	var pim, channel units.Duration
	for s := range costs.sub {
		if !costs.sub[s].active {
			continue
		}
		requests, tokens := 0, 0
		for i := range costs.sub[s].groups {
			g := &costs.sub[s].groups[i]
			if requests += g.requests; g.requests > 0 {
				pim += g.compute
				channel += g.decode.data + g.upBus
				if !costs.buffered && g.decode.held() < g.decode.data {
					c.fail(LawTraffic, end, "the vectors of group %d of sub-batch %d go down in %v, the channels carry them for %v", i, s, g.decode.held(), g.decode.data)
				}
			}
			if tokens += g.promptTokens; g.promptTokens > 0 {
				channel += g.prompt.data
				if !costs.buffered && g.prompt.held() < g.prompt.data {
					c.fail(LawTraffic, end, "the prompts of group %d of sub-batch %d go down in %v, the channels carry them for %v", i, s, g.prompt.held(), g.prompt.data)
				}
			}
		}
		if sub := &b.Sub[s]; requests != len(sub.Decode) || tokens != sub.PrefillTokens() {
			c.fail(LawTraffic, end, "sub-batch %d moves vectors of %d requests and %d prompt tokens, want %d and %d", s, requests, tokens, len(sub.Decode), sub.PrefillTokens())
		}
	}
	layers := units.Duration(costs.layers)
	if done.pim != layers*pim || done.channel != layers*channel {
		c.fail(LawTraffic, end, "attention takes %v and the channels carry data for %v, want %v and %v", done.pim, done.channel, layers*pim, layers*channel)
	}
}
