package controller

import (
	"context"
	"errors"
	"math"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller/mapping"
	"github.com/l3sim/l3sim/input"
)

// forever is a clock that is never reached.
const forever = math.MaxInt64

// controller is the memory controller of one channel. It is a pipeline of three stages, each moving at most one request or command a clock.
// Requests are accepted into the read queue or the write buffer (front), move to the queue of their bank (queues), and issue as commands on
// the channel (sched). Refreshes, refresh management and power states block banks of sched and issue their own commands.
//
// The simulation is event-driven: run visits only the steps at which something can happen.
type controller struct {
	policy     *Policy
	closedPage bool // of policy
	channel    channel
	front      front
	queues     queues
	sched      sched
	dataClock  dataClock
	refresh    refreshState
	management managementState
	power      powerState
	waits      waits
	check      *checkBits // nil without ECC
	stats      Stats

	skipIdle bool  // skip idle refresh periods at once; a log needs each
	endStep  int64 // end of the last data burst
}

// newController returns an idle controller of one channel with the given number of ranks. The mapping may cover several channels, but the
// requests of run must belong to this one. The command log may be nil.
func newController(spec *dram.Spec, policy *Policy, to *mapping.Mapping, ranks int, log dram.Observe) *controller {
	c := &controller{
		policy: policy, closedPage: policy.Page == "closed", skipIdle: log == nil,
		channel: newChannel(spec, policy, ranks, log), queues: newQueues(spec, policy, ranks),
		dataClock: dataClock{access: nothing}, check: newCheckBits(spec, ranks*spec.Banks()),
		power: newPowerState(spec, policy, ranks), management: newManagementState(spec, policy, ranks),
		stats: Stats{Ranks: make([]RankStats, ranks), Banks: make([]BankStats, ranks*spec.Banks())},
	}
	c.dataClock.start, c.dataClock.known = spec.Rules().DataClockCommand()
	c.sched = newSched(&c.channel, &c.queues, policy, c.stats.Ranks)
	c.waits = newWaits(&c.channel, policy, c.sched.busOf)
	c.front = newFront(&c.channel, &c.queues, &c.sched, policy, to, &c.stats)
	c.refresh = newRefreshState(spec, policy, c.sched.ranks)
	if c.management.most > 0 {
		c.refresh.margin += spec.BusSteps(spec.TRFC * ranks) // an RFM may be under way
	}
	c.refresh.margin += c.power.exitSteps
	return c
}

// errNoProgress is a defect of the controller: requests wait, and no event is left.
var errNoProgress = errors.New("memory controller: requests wait but no command will become ready")

// ticksPerCheck is the number of ticks between checks for cancellation.
const ticksPerCheck = 1 << 16

// run replays the requests in order, accepting at most one burst a clock, and returns the statistics when the last request's data has
// ended. A controller runs only once.
func (c *controller) run(ctx context.Context, requests []Request) (*Stats, error) {
	for i, r := range requests {
		if r.Clock < 0 || r.Clock > dram.MaxClock || i > 0 && r.Clock < requests[i-1].Clock {
			return nil, input.Errorf("request %d at clock %d: clocks lie in 0 to %d and do not go backwards", i+1, r.Clock, int64(dram.MaxClock))
		}
	}
	c.front.requests = requests
	c.stats.expect(requests)
	ticks := 0
	for t := int64(0); ; {
		if ticks++; ticks%ticksPerCheck == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next := c.tick(t)
		if c.finished() {
			break
		}
		if next == forever {
			return nil, errNoProgress
		}
		t = next
		if c.skipIdle && c.queues.entries == 0 {
			t += c.skipIdlePeriods(t)
		}
	}
	return c.result(), nil
}

// result returns the statistics.
func (c *controller) result() *Stats {
	c.stats.EndClock = c.channel.clocks(c.endStep)
	for i := range c.stats.Banks {
		c.stats.RowHits += c.stats.Banks[i].RowHits
	}
	c.stats.Energy = c.channel.energy.Energy(c.endStep)
	for rank := range c.sched.ranks {
		of := &c.stats.Ranks[rank]
		for state, steps := range c.channel.energy.Standby(rank, c.endStep) {
			of.Standby[state] = steps / c.channel.steps
		}
		of.OpenBanks = c.channel.energy.OpenBanks(rank, c.endStep) / c.channel.steps
		entries := c.channel.energy.Entries(rank)
		of.PowerDowns, of.SelfRefreshes = entries[dram.ActivePowerDown]+entries[dram.PrechargedPowerDown], entries[dram.SelfRefresh]
	}
	c.stats.commands = c.channel.issued
	c.stats.Waits = c.waits.result()
	return &c.stats
}

// finished reports whether no request is left.
func (c *controller) finished() bool {
	return c.front.next == len(c.front.requests) && len(c.front.held[needRead].entries)+len(c.front.held[needWrite].entries)+c.queues.entries == 0 && !c.dataClock.starting() && c.check.idle()
}

// tick runs step t and returns the next step at which something can happen.
func (c *controller) tick(t int64) int64 {
	c.sched.now = t
	forced := len(c.refresh.forced)
	next := c.refresh.fallDue(t)
	if len(c.refresh.forced) != forced {
		c.sched.next = min(c.sched.next, t) // a run that waited for one of these banks continues without it
	}
	issued, at := c.commands(t)
	moved := c.front.transfer(t)
	accepted := c.check != nil && c.acceptChecked(t) || c.check == nil && c.accept(t)
	if issued {
		c.sched.next = t + 1
		if c.quiet() && c.check == nil {
			c.sched.next = c.sched.nextReady(t)
		}
	}
	if moved || accepted {
		return t + 1
	}
	return min(max(c.sched.next, t+1), next, at, c.front.arrival(t))
}

// nextReady returns a step after t before which no other command can issue, given that one has issued at t.
func (s *sched) nextReady(t int64) int64 {
	next := int64(forever)
	for i := range s.buses {
		b := &s.buses[i]
		for n := range needs {
			next = min(next, b.notBefore[n])
		}
	}
	return max(next, t+1)
}

// quiet reports whether only commands for requests can issue: no bank needs refresh or refresh management, and no power state may change.
func (c *controller) quiet() bool {
	return len(c.refresh.forced)+len(c.management.pending) == 0 && !c.refresh.idleUnits && !c.power.on
}

// commands issues the commands of step t: one, or one on each bus. It tries in this order until one issues: leave power-down, forced
// refreshes and refresh management, requests, refreshes of idle ranks, enter power-down. If none issues, next is the first step at which a
// refresh, refresh management, a power state or the data clock may proceed.
func (c *controller) commands(t int64) (issued bool, next int64) {
	if c.dataClock.starting() {
		if issued = t >= c.dataClock.runsAt && c.serveClocked(t); c.dataClock.starting() {
			return false, c.dataClock.runsAt
		}
	}
	next, at := int64(forever), int64(forever)
	if c.power.on && !issued {
		issued, next = c.leavePowerDown(t)
	}
	if len(c.refresh.forced) > 0 && !issued {
		issued, at = c.forcedRefresh(t)
		next = min(next, at)
	}
	if len(c.management.pending) > 0 && !issued {
		issued, at = c.manage(t)
		next = min(next, at)
	}
	for range c.channel.buses.count {
		if issued && c.channel.buses.simple || t < c.sched.next || c.dataClock.starting() || !c.schedule(t) {
			break
		}
		issued = true
	}
	if c.refresh.idleUnits && !issued {
		issued, at = c.idleRefresh(t)
		next = min(next, at)
	}
	if c.power.on && !issued {
		issued, at = c.enterPowerDown(t)
		next = min(next, at)
	}
	return issued, next
}

// arrival returns the step of the next request to arrive, or forever if it has arrived and waits for a queue.
func (f *front) arrival(t int64) int64 {
	if f.next < len(f.requests) && f.requests[f.next].Clock*f.channel.steps > t {
		return f.requests[f.next].Clock * f.channel.steps
	}
	return forever
}

// issue passes a command to the channel, and counts it for refresh management.
func (c *controller) issue(cmd dram.Command, a dram.Address, t int64) {
	c.channel.issue(cmd, a, t)
	c.waits.command(cmd, a, t)
	if c.management.most > 0 {
		c.countActivations(cmd, a)
	}
}
