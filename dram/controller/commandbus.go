package controller

import "github.com/l3sim/l3sim/dram"

// gate returns the first step, at least t, at which the command's bus takes it. With one bus and commands
// of one step, tick itself issues at most one a step.
func (c *controller) gate(cmd dram.Command, t int64) int64 {
	if c.simpleBus {
		return t
	}
	return c.commandBuses.Earliest(cmd, t)
}

// simpleBuses reports whether the standard has one command bus and every command that the
// controller gives takes one step and no second half; each clock has one step.
func simpleBuses(s *dram.Standard, p *Policy) bool {
	if len(s.Buses) > 1 || s.StepsPerClock > 1 {
		return false
	}
	for _, cmd := range asked(s, p) {
		if a := s.Action(cmd); a.Steps > 1 || a.Second > 0 {
			return false
		}
	}
	return true
}

// asked returns the commands that the controller gives, without those whose constraints are
// another's (RDA, WRA).
func asked(s *dram.Standard, p *Policy) []dram.Command {
	list := []dram.Command{dram.ACT, dram.PRE, dram.PREA, dram.RD, dram.WR}
	for _, r := range s.Refreshes {
		list = append(list, r.Command)
	}
	if sync, ok := s.DataClockCommand(); ok {
		list = append(list, sync)
	}
	if p.PowerDown != "off" {
		list = append(list, dram.PDE, dram.PDX, dram.SRE, dram.SRX)
	}
	return list
}

// startClock gives the command that starts the data clock before a column access that finds it
// stopped; the access then issues at c.syncedAt. It reports whether the access can issue at t; if not, c.ready
// is when to go on.
func (c *controller) startClock(p choice, t int64) (runs bool) {
	rank := c.places[p.bank].Rank
	if c.state.ClockRuns(needCommands[p.need], int(rank), t) {
		return true
	}
	a := dram.Address{Rank: rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	if at := c.earliestOf(c.sync, a, t); at > t {
		c.ready = at
		return false
	}
	c.issue(c.sync, a, t)
	c.synced, c.syncedAt = p, t+int64(c.spec.Rules().Action(c.sync).Steps)
	return false
}
