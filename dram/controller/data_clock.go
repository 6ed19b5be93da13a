package controller

import "github.com/l3sim/l3sim/dram"

// dataClock is the clock of data transfers in standards that do not use CK for them. A command starts it, and it stops some time after the
// last access.
type dataClock struct {
	known  bool         // the standard has one
	start  dram.Command // the command that starts it
	access choice       // column access for which the data clock is starting, or nothing
	runsAt int64        // step at which that access may issue
}

// starting reports whether an access waits for the clock. Meanwhile nothing may close its row or put its rank to sleep.
func (d *dataClock) starting() bool { return d.access.age < forever }

// startClock issues the command that starts the data clock, if it has stopped, before a column access. The access then issues at
// c.dataClock.runsAt. It reports whether the access can issue at t; if not, c.sched.next is the step at which to continue.
func (c *controller) startClock(p choice, t int64) (runs bool) {
	rank := c.channel.places[p.bank].Rank
	if c.channel.state.ClockRuns(needCommands[p.need], int(rank), t) {
		return true
	}
	a := dram.Address{Rank: rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	if at := c.channel.earliestOf(c.dataClock.start, a, t); at > t {
		c.sched.next = at
		return false
	}
	c.issue(c.dataClock.start, a, t)
	c.dataClock.access, c.dataClock.runsAt = p, t+int64(c.channel.spec.Rules().Action(c.dataClock.start).Steps)
	return false
}

// serveClocked issues the access for which the data clock has been started, and reports whether it has. If the second half of an ACT has
// the bus, it waits while the clock runs; after that, the clock must be started again.
func (c *controller) serveClocked(t int64) bool {
	p := c.dataClock.access
	at := c.channel.gate(needCommands[p.need], t)
	if at > t && c.channel.state.ClockRuns(needCommands[p.need], int(c.channel.places[p.bank].Rank), at) {
		c.dataClock.runsAt = at
		return false
	}
	c.dataClock.access = nothing
	if at <= t {
		c.serve(p, t)
	}
	return at <= t
}
