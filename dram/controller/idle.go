package controller

import "github.com/l3sim/l3sim/dram"

// settled returns the step until which power units change only by refreshes; at most t if one is changing state.
func (c *controller) settled(t int64) int64 {
	until := int64(forever)
	for i := range c.power.units {
		u := &c.power.units[i]
		down, sleep := c.timeouts(u)
		if u.down == dram.SRE {
			continue
		}
		if u.down == awake {
			until = min(until, down)
		}
		until = min(until, sleep)
	}
	return until
}

// idleState reports whether the channel is in the state that repeats every tREFI while no request arrives: nothing queued, all banks
// precharged, and each rank's refresh debt constant if it refreshes on time.
func (c *controller) idleState() bool {
	if c.queues.entries+len(c.front.held[needRead].entries)+len(c.front.held[needWrite].entries) > 0 || len(c.refresh.forced)+len(c.management.pending) > 0 {
		return false
	}
	for _, open := range c.channel.openBanks {
		if open != 0 {
			return false
		}
	}
	for i := range c.refresh.units {
		if k := &c.refresh.units[i]; !k.selfRefreshing && k.debt != -c.refresh.pullIn {
			return false
		}
	}
	return true
}

// skipIdlePeriods advances the clock by all whole tREFI before the next request, or before a rank enters power-down or self-refresh, while
// the channel's behaviour repeats. It multiplies the counts of one tREFI, and returns the steps skipped. The result equals that of visiting
// every refresh.
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
	if at != end || !c.idleState() || c.settled(end) <= end { // not yet periodic, or a rank has left power-down
		return at - t
	}
	n := (horizon-end)/interval - 1
	steps := n * interval
	c.channel.state.Shift(steps)
	c.waits.shift(steps)
	c.refresh.shift(steps)
	c.channel.energy.Repeat(energy, t, end, n)
	c.takeOffAll(n)
	for i := range c.channel.issued {
		c.channel.issued[i] += n * (c.channel.issued[i] - commands[i])
	}
	return end + steps - t
}

// shift moves all due times by steps.
func (r *refreshState) shift(steps int64) {
	r.nextDue += steps
	for i := range r.units {
		if !r.units[i].selfRefreshing {
			r.units[i].due += steps
		}
	}
}
