package controller

import (
	"math"

	"github.com/l3sim/l3sim/dram"
)

// powerState tracks which ranks are in power-down or self-refresh, and when others enter.
//
// The idle time of a rank decides. Rows that are open stay open in power-down (active power-down) until the next refresh closes them; then
// the rank is in precharged power-down. Before self-refresh all rows are closed.
type powerState struct {
	on                   bool
	downAfter, selfAfter int64 // idle steps before power-down and before self-refresh; forever for never
	exitSteps            int64 // maximum steps that leaving power-down adds to a forced refresh
	units                []powerUnit
	unitOf               []int // by bank over all ranks
}

// powerUnit is the ranks on which one PDE or SRE acts: one rank, or all of a pseudo-channel.
type powerUnit struct {
	span
	down  dram.Command // PDE or SRE while in that state, else awake
	since int64
}

// awake marks a rank in neither state.
const awake = dram.ACT

// newPowerState groups the ranks that enter power-down together: all of a channel if the command acts on all of it.
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

// leavePowerDown takes a rank with a request or a forced refresh out of power-down. If none can leave at t, next is the step at which one
// can.
func (c *controller) leavePowerDown(t int64) (issued bool, next int64) {
	return firstOf(len(c.power.units), t, func(i int) int64 {
		u := &c.power.units[i]
		if u.down == awake || !c.queuedIn(&u.span) && !c.refreshDue(u) {
			return forever
		}
		return c.leave(u, t)
	})
}

// firstOf calls try for n units or ranks in turn until one issues a command at t. try returns the step at which it could, at most t if it
// did. If none can, next is the first of these steps.
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

// refreshDue reports whether a bank of the unit has a forced refresh or needs an RFM.
func (c *controller) refreshDue(u *powerUnit) bool {
	for rank := u.first; rank < u.end; rank++ {
		if c.sched.ranks[rank].forced|c.sched.ranks[rank].exhausted != 0 {
			return true
		}
	}
	return false
}

// leave issues PDX or SRX for a unit if it can at t, and returns the first step at which it can.
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

// block sets the blocked banks of the unit's ranks.
func (c *controller) block(u *powerUnit, banks uint64) {
	for rank := u.first; rank < u.end; rank++ {
		of := &c.sched.ranks[rank]
		of.down = banks
		of.block()
		c.sched.rescan(rank)
	}
}

// refreshAgain restarts the unit's refresh schedule after self-refresh, for whose duration it owes no refresh.
func (c *controller) refreshAgain(u *powerUnit, t int64) {
	for i := range c.refresh.units {
		if k := &c.refresh.units[i]; k.selfRefreshing && k.first >= u.first && k.first < u.end {
			k.selfRefreshing, k.extra = false, true
			k.due += t - u.since
		}
	}
	c.refresh.nextDue = 0
}

// enterPowerDown puts a rank that has been idle long enough into power-down or self-refresh. If none can enter at t, next is the step at
// which one can.
func (c *controller) enterPowerDown(t int64) (issued bool, next int64) {
	return firstOf(len(c.power.units), t, func(i int) int64 { return c.powerDown(&c.power.units[i], t) })
}

// powerDown issues the next command towards a unit's power-down if it can at t. It returns the first step at which it can, or forever if
// the unit stays as it is until another event.
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

// selfRefresh is powerDown for a unit on the way to self-refresh.
func (c *controller) selfRefresh(u *powerUnit, t int64) int64 {
	for i := range c.refresh.units {
		k := &c.refresh.units[i]
		if k.first >= u.end || k.end <= u.first || k.debt <= 0 && !k.extra {
			continue
		}
		if c.refresh.aheadOfRound(k) { // another unit of the round goes first
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

// timeouts returns the steps from which a unit may enter power-down and self-refresh.
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

// enter issues PDE or SRE if it can at t, and returns the first step at which it can. That is not before the rank could be refreshed: a
// refresh or access in progress draws its current regardless of the clock.
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
	c.takeOff(&u.span, math.MaxInt) // in self-refresh the device refreshes all rows
	for i := range c.refresh.units {
		if k := &c.refresh.units[i]; k.first >= u.first && k.first < u.end {
			k.selfRefreshing = true
		}
	}
	c.refresh.nextDue = 0
	return at
}
