package controller

import "github.com/l3sim/l3sim/dram"

// dataClock is the clock that data move with where it is not CK: a command starts it, and it stops by itself some time after the last access.
type dataClock struct {
	known  bool         // the standard has one
	start  dram.Command // that starts it
	access choice       // column access whose data clock is being started, nothing without one
	runsAt int64        // step at which that access may issue
}

// starting reports whether an access waits for the clock. Nothing may close its row, or the rank, meanwhile.
func (d *dataClock) starting() bool { return d.access.age < forever }

// startClock gives the command that starts the data clock before a column access that finds it stopped; the access then issues at c.dataClock.runsAt.
// It reports whether the access can issue at t; if not, c.sched.next is when to go on.
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

// serveClocked issues the access whose data clock has been started, and reports whether it has. Where the second half of an ACT
// has the bus, it waits while the clock runs; after that the clock must be started again.
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
