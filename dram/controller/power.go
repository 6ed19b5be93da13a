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
	on                   bool
	downAfter, selfAfter int64 // idle steps before power-down, before self-refresh; forever for never
	exitSteps            int64 // steps that leaving power-down adds to a forced refresh at worst
	units                []powerUnit
	unitOf               []int // by bank over all ranks
}

// powerUnit is the ranks of one PDE or SRE: one, or all of a pseudo-channel.
type powerUnit struct {
	span
	down  dram.Command // PDE or SRE while there, else awake
	since int64
}

// awake stands for a rank in neither state.
const awake = dram.ACT

// newPowerState groups the ranks that go into power-down together: those of a channel where the command concerns all of it.
func newPowerState(spec *dram.Spec, policy *Policy, ranks int) powerState {
	p := powerState{on: policy.PowerDown != "off"}
	if !p.on {
		return p
	}
	steps := func(clocks int) int64 {
		if clocks == never {
			return forever
		}
		return spec.BusSteps(clocks)
	}
	p.downAfter, p.selfAfter = steps(policy.PowerDownAfter), steps(policy.SelfRefreshAfter)
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

// leavePowerDown takes a rank that has a request, or a refresh that must be, out of power-down. If none can leave at t, next is
// the step at which one can.
func (c *controller) leavePowerDown(t int64) (issued bool, next int64) {
	return firstOf(len(c.power.units), t, func(i int) int64 {
		u := &c.power.units[i]
		if u.down == awake || !c.queuedIn(&u.span) && !c.refreshDue(u) {
			return forever
		}
		return c.leave(u, t)
	})
}

// firstOf has n units or ranks try, one after another, until one can issue at t. Each returns the step at which it could, at
// most t if it did. If none can, next is the first of these steps.
func firstOf(n int, t int64, try func(i int) int64) (issued bool, next int64) {
	next = forever
	for i := range n {
		at := try(i)
		if at <= t {
			return true, forever
		}
		next = min(next, at)
	}
	return false, next
}

// refreshDue reports whether a bank of the unit must refresh, or be managed.
func (c *controller) refreshDue(u *powerUnit) bool {
	for rank := u.first; rank < u.end; rank++ {
		if c.sched.ranks[rank].forced|c.sched.ranks[rank].exhausted != 0 {
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
	u.down = awake
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
		if k := &c.refresh.units[i]; k.selfRefreshing && k.first >= u.first && k.first < u.end {
			k.selfRefreshing, k.extra = false, true
			k.due += t - u.since
		}
	}
	c.refresh.nextDue = 0
}

// enterPowerDown takes a rank that has been idle for long enough into power-down or self-refresh. If none can go at t, next is
// the step at which one can.
func (c *controller) enterPowerDown(t int64) (issued bool, next int64) {
	return firstOf(len(c.power.units), t, func(i int) int64 { return c.powerDown(&c.power.units[i], t) })
}

// powerDown issues the next command on a unit's way down if it can at t, and returns the step at which it could, forever
// where it stays as it is until something else happens.
func (c *controller) powerDown(u *powerUnit, t int64) int64 {
	if u.down == dram.SRE || c.queuedIn(&u.span) || c.refreshDue(u) {
		return forever
	}
	down, sleep := c.timeouts(u)
	if t >= sleep {
		return c.selfRefresh(u, t)
	}
	if u.down == dram.PDE {
		return sleep
	}
	if t >= down {
		return min(c.enter(dram.PDE, u, t), sleep)
	}
	return min(down, sleep)
}

// selfRefresh is powerDown on the way to self-refresh.
func (c *controller) selfRefresh(u *powerUnit, t int64) int64 {
	for i := range c.refresh.units {
		k := &c.refresh.units[i]
		if k.first >= u.end || k.end <= u.first || k.debt <= 0 && !k.extra {
			continue
		}
		if c.refresh.aheadOfRound(k) { // another of its rank goes first
			for i = c.refresh.unitOf[k.first*c.channel.banksPerRank]; c.refresh.aheadOfRound(&c.refresh.units[i]); i++ {
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
	if c.power.downAfter < forever {
		down = idle + c.power.downAfter
	}
	if c.power.selfAfter < forever {
		sleep = idle + c.power.selfAfter
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
			k.selfRefreshing = true
		}
	}
	c.refresh.nextDue = 0
	return at
}
