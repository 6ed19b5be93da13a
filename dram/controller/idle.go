package controller

// idleState reports whether the channel is in the state that repeats every
// tREFI while no request comes: nothing queued, all banks precharged, and each
// rank with the debt that refreshing as it falls due keeps up.
func (c *controller) idleState() bool {
	if c.queued+len(c.reads.entries)+len(c.writes.entries) > 0 || len(c.refresh.forced) > 0 {
		return false
	}
	for _, open := range c.openBanks {
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

// skipIdlePeriods moves the clock on by as many whole tREFI as pass before the
// next request while the channel repeats itself, one refresh a unit each, and
// returns the steps. The result is that of visiting every REF.
func (c *controller) skipIdlePeriods(t int64) int64 {
	if c.next == len(c.requests) || c.requests[c.next].Clock*c.steps-t < 3*c.refresh.interval || !c.idleState() {
		return 0
	}
	if c.power.on {
		return c.skipPowered(t, c.requests[c.next].Clock*c.steps)
	}
	periods := (c.requests[c.next].Clock*c.steps-t)/c.refresh.interval - 2
	steps := periods * c.refresh.interval
	c.state.Shift(steps)
	c.refresh.shift(steps)
	n := periods * int64(len(c.refresh.units))
	c.stats.commands[c.refresh.command] += n
	c.energy.Add(c.refresh.command, n)
	return steps
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
