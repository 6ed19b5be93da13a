package controller

import "github.com/l3sim/l3sim/dram"

// idleState reports whether the channel is in the state that repeats every
// tREFI while no request comes: nothing queued, all banks precharged, and each
// rank with the debt that refreshing as it falls due keeps up.
func (c *controller) idleState() bool {
	if c.queued+len(c.reads.entries)+len(c.writes.entries) > 0 || c.refresh.forced != 0 {
		return false
	}
	for rank := range c.openBanks {
		if c.openBanks[rank] != 0 || c.refresh.ranks[rank].debt != -c.refresh.pullIn {
			return false
		}
	}
	return true
}

// skipIdlePeriods moves the clock on by as many whole tREFI as pass before the
// next request while the channel repeats itself, one REF a rank each, and
// returns the clocks. The result is that of visiting every REF.
func (c *controller) skipIdlePeriods(t int64) int64 {
	if c.next == len(c.requests) || c.requests[c.next].Clock-t < 3*c.refresh.interval || !c.idleState() {
		return 0
	}
	periods := (c.requests[c.next].Clock-t)/c.refresh.interval - 2
	clocks := periods * c.refresh.interval
	c.state.Shift(clocks)
	c.refresh.shift(clocks)
	n := periods * int64(len(c.openBanks))
	c.stats.commands[dram.REF] += n
	c.energy.Add(dram.REF, n)
	return clocks
}

// shift moves every clock of the refresh on.
func (r *refreshState) shift(clocks int64) {
	r.nextDue += clocks
	for i := range r.ranks {
		r.ranks[i].due += clocks
		r.ranks[i].idle += clocks
	}
}
