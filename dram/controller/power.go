package controller

import (
	"math"

	"github.com/l3sim/l3sim/dram"
)

// powerState is which ranks are in power-down or self-refresh, and when the others go there.
//
// A rank goes by its idle time. Rows that are open stay so in power-down (active power-down); the next refresh closes
// them, and after it the rank is in precharged power-down. Self-refresh closes them first.
type powerState struct {
	on           bool
	after, sleep int64 // idle steps before power-down, before self-refresh; forever for never
	exitSteps    int64 // steps that leaving power-down adds to a forced refresh at worst
	units        []powerUnit
	unitOf       []int // by bank over all ranks
}

// powerUnit is the ranks of one PDE or SRE: one, or all of a pseudo-channel.
type powerUnit struct {
	span
	down  dram.Command // PDE or SRE while there, else nowhere
	since int64
}

// nowhere stands for a rank that is awake.
const nowhere = dram.ACT

// newPowerState groups the ranks that go into power-down together: those of a channel where the command concerns
// all of it.
func newPowerState(spec *dram.Spec, policy *Policy, ranks int) powerState {
	p := powerState{on: policy.PowerDown != "off"}
	if !p.on {
		return p
	}
	steps := func(clocks int) int64 {
		if clocks == never {
			return forever
		}
		return spec.Steps(clocks)
	}
	p.after, p.sleep = steps(policy.PowerDownAfter), steps(policy.SelfRefreshAfter)
	spans, unitOf := spansOf(spec, dram.PDE, ranks)
	p.unitOf = unitOf
	for _, k := range spans {
		p.units = append(p.units, powerUnit{span: k})
	}
	for _, row := range spec.Constraints() {
		if row.Command == dram.PDE && row.Next == dram.PDX || row.Command == dram.PDX && row.Next == dram.PREA {
			p.exitSteps += int64(row.Clocks * ranks)
		}
	}
	return p
}

// wakeRanks takes a rank that has a request, or a refresh that must be, out of power-down. If none can leave at t, wake is
// the step at which one can.
func (c *controller) wakeRanks(t int64) (issued bool, wake int64) {
	return firstOf(len(c.power.units), t, func(i int) int64 {
		u := &c.power.units[i]
		if u.down == nowhere || !c.queuedIn(&u.span) && !c.refreshDue(u) {
			return forever
		}
		return c.leave(u, t)
	})
}

// firstOf has n units or ranks try, one after another, until one can issue at t. Each returns the step at which it could, at
// most t if it did. If none can, wake is the first of these steps.
func firstOf(n int, t int64, try func(i int) int64) (issued bool, wake int64) {
	wake = forever
	for i := range n {
		at := try(i)
		if at <= t {
			return true, forever
		}
		wake = min(wake, at)
	}
	return false, wake
}

// refreshDue reports whether a bank of the unit must refresh, or be managed.
func (c *controller) refreshDue(u *powerUnit) bool {
	for rank := u.first; rank < u.end; rank++ {
		if c.sched.ranks[rank].due|c.sched.ranks[rank].managed != 0 {
			return true
		}
	}
	return false
}

// leave issues PDX or SRX for a unit if it can at t, and returns the step at which it could.
func (c *controller) leave(u *powerUnit, t int64) int64 {
	exit := dram.PDX
	if u.down == dram.SRE {
		exit = dram.SRX
	}
	at := c.channel.earliestOf(exit, u.address, t)
	if at > t {
		return at
	}
	c.issue(exit, u.address, t)
	if exit == dram.SRX {
		c.refreshAgain(u, t)
	}
	u.down = nowhere
	c.block(u, 0)
	return at
}

// block sets the banks of the unit's ranks that take no command.
func (c *controller) block(u *powerUnit, banks uint64) {
	for rank := u.first; rank < u.end; rank++ {
		of := &c.sched.ranks[rank]
		of.down = banks
		of.block()
		c.sched.rescan(rank)
	}
}

// refreshAgain lets refreshes of a unit fall due as before its self-refresh, of whose time nothing is owed.
func (c *controller) refreshAgain(u *powerUnit, t int64) {
	for i := range c.refresh.units {
		if k := &c.refresh.units[i]; k.asleep && k.first >= u.first && k.first < u.end {
			k.asleep, k.extra = false, true
			k.due += t - u.since
		}
	}
	c.refresh.nextDue = c.refresh.nextEvent()
}

// sleepRanks takes a rank that has been idle for long enough into power-down or self-refresh. If none can go at t, wake is
// the step at which one can.
func (c *controller) sleepRanks(t int64) (issued bool, wake int64) {
	return firstOf(len(c.power.units), t, func(i int) int64 { return c.sleepRank(&c.power.units[i], t) })
}

// sleepRank issues the next command on a unit's way down if it can at t, and returns the step at which it could, forever
// where it stays as it is until something else happens.
func (c *controller) sleepRank(u *powerUnit, t int64) int64 {
	if u.down == dram.SRE || c.queuedIn(&u.span) || c.refreshDue(u) {
		return forever
	}
	down, sleep := c.timeouts(u)
	if t >= sleep {
		return c.refreshItself(u, t)
	}
	if u.down == dram.PDE {
		return sleep
	}
	if t >= down {
		return min(c.enter(dram.PDE, u, t), sleep)
	}
	return min(down, sleep)
}

// refreshItself is sleepRank on the way to self-refresh.
func (c *controller) refreshItself(u *powerUnit, t int64) int64 {
	for i := range c.refresh.units {
		k := &c.refresh.units[i]
		if k.first >= u.end || k.end <= u.first || k.debt <= 0 && !k.extra {
			continue
		}
		if c.refresh.waitsForRound(k) { // another of its rank goes first
			for i = c.refresh.unitOf[k.first*c.channel.banksPerRank]; c.refresh.waitsForRound(&c.refresh.units[i]); i++ {
			}
		}
		return c.tryRefresh(i, t)
	}
	if u.down == dram.PDE {
		return c.leave(u, t)
	}
	if at, closed := c.closeRows(&u.span, t); !closed {
		return at
	}
	return c.enter(dram.SRE, u, t)
}

// timeouts returns the steps from which on a unit goes into power-down and into self-refresh.
func (c *controller) timeouts(u *powerUnit) (down, sleep int64) {
	var idle int64
	for rank := u.first; rank < u.end; rank++ {
		idle = max(idle, c.refresh.units[c.refresh.unitOf[rank*c.channel.banksPerRank]].idle)
	}
	down, sleep = forever, forever
	if c.power.after < forever {
		down = idle + c.power.after
	}
	if c.power.sleep < forever {
		sleep = idle + c.power.sleep
	}
	return down, sleep
}

// enter issues PDE or SRE if it can at t, and returns the step at which it could. Neither goes before the rank could
// refresh itself: a refresh or access under way draws its current whatever the clock does.
func (c *controller) enter(cmd dram.Command, u *powerUnit, t int64) int64 {
	at := max(c.channel.earliestOf(cmd, u.address, t), c.channel.state.Earliest(dram.SRE, u.address))
	if at > t {
		return at
	}
	c.issue(cmd, u.address, t)
	u.down, u.since = cmd, t
	c.block(u, u.banks)
	if cmd == dram.PDE {
		return at
	}
	c.takeOff(&u.span, math.MaxInt) // the device refreshes all rows
	for i := range c.refresh.units {
		if k := &c.refresh.units[i]; k.first >= u.first && k.first < u.end {
			k.asleep = true
		}
	}
	c.refresh.nextDue = c.refresh.nextEvent()
	return at
}

// settled returns the step up to which the units stay as they are but for refreshes, at most t if one is on its way.
func (c *controller) settled(t int64) int64 {
	until := int64(forever)
	for i := range c.power.units {
		u := &c.power.units[i]
		down, sleep := c.timeouts(u)
		if u.down == dram.SRE {
			continue
		}
		if u.down == nowhere {
			until = min(until, down)
		}
		until = min(until, sleep)
	}
	return until
}

// idleState reports whether the channel is in the state that repeats every
// tREFI while no request comes: nothing queued, all banks precharged, and each
// rank with the debt that refreshing as it falls due keeps up.
func (c *controller) idleState() bool {
	if c.queues.entries+len(c.front.held[needRead].entries)+len(c.front.held[needWrite].entries) > 0 || len(c.refresh.forced)+len(c.management.due) > 0 {
		return false
	}
	for _, open := range c.channel.openBanks {
		if open != 0 {
			return false
		}
	}
	for i := range c.refresh.units {
		if k := &c.refresh.units[i]; !k.asleep && k.debt != -c.refresh.pullIn {
			return false
		}
	}
	return true
}

// skipIdlePeriods moves the clock on by as many whole tREFI as pass before the next request, or before a rank goes to sleep, while
// the channel repeats itself: what one tREFI brings is counted for all of them. It returns the steps. The result is that of
// visiting every refresh.
func (c *controller) skipIdlePeriods(t int64) int64 {
	interval := c.refresh.interval
	if c.front.next == len(c.front.requests) || c.front.requests[c.front.next].Clock*c.channel.steps-t < 4*interval || !c.idleState() {
		return 0
	}
	horizon := min(c.front.requests[c.front.next].Clock*c.channel.steps, c.settled(t))
	if horizon-t < 4*interval {
		return 0
	}
	energy, commands := c.channel.energy.Clone(), c.channel.issued
	end, at := t+interval, t
	for at < end {
		at = c.tick(at)
	}
	if at != end || !c.idleState() || c.settled(end) <= end { // not yet in step, or a rank is awake that was not
		return at - t
	}
	n := (horizon-end)/interval - 1
	steps := n * interval
	c.channel.state.Shift(steps)
	c.refresh.shift(steps)
	c.channel.energy.Repeat(energy, t, end, n)
	c.takeOffAll(n)
	for i := range c.channel.issued {
		c.channel.issued[i] += n * (c.channel.issued[i] - commands[i])
	}
	return end + steps - t
}

// shift moves what falls due on.
func (r *refreshState) shift(steps int64) {
	r.nextDue += steps
	for i := range r.units {
		if !r.units[i].asleep {
			r.units[i].due += steps
		}
	}
}
