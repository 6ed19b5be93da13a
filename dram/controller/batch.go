package controller

import "math/bits"

// batch moves reads and writes in runs, and those of a run by rank, since each turn of the data bus
// costs clocks that no burst can have: read to write 8 beyond the burst, write to read of one
// rank 24 (DDR4-3200), another rank tRTRS. It goes on
//
//   - with a column access of the run's direction that is ready, first of all one of the
//     rank that had the bus last, else the oldest;
//   - after them with the other direction, unless enough banks of the run's direction have their row
//     open and one may go on soon: the bus then waits;
//   - with an ACT before a lone column access, as fr-fcfs. The oldest request of the run's direction
//     gets its row before others.
//
// A request older than the policy's bound on age goes before the rank's, and a run as old as that
// ends for one of the other direction.
var batch = scheduler{name: "batch", pick: (*controller).pickBatch, eitherRow: true}

// runBanks is how many banks of a run's direction must have their row open for the bus to wait for
// one of them. With fewer the run is at its end: the other direction goes on, and meanwhile
// rows open for the next run. Our choice: 3 to 6 give the same within 1% on the reference traces.
const runBanks = 4

// bus is what had the data bus last.
type bus struct {
	need  need  // needRead or needWrite
	rank  int   // of the last burst
	since int64 // first column access of the run
	over  bool  // the run has gone on for long enough: the other direction is next
}

func (c *controller) pickBatch(t int64) choice {
	run, other := c.bus.need, c.bus.need^1
	over := c.bus.over && c.waits(other)
	if over {
		run, other = other, run
	}
	column, banks := c.runColumn(run, t)
	if banks == 0 && !over && !c.holds(run, t) {
		column, banks = c.runColumn(other, t)
	}
	if banks < 2 {
		row, _, _ := c.oldestReady(needReadRow+run, -1, t)
		if row.age == forever {
			row, _, _ = c.oldestReady(needReadRow+other, -1, t)
		}
		if row.age < forever {
			return row
		}
	}
	if banks > 0 {
		return column
	}
	return c.oldestClose(t)
}

// runColumn returns a ready column access of n and how many are ready: the oldest of the rank that
// had the bus last, or the oldest of all if no rank's has waited beyond the bound.
func (c *controller) runColumn(n need, t int64) (choice, int) {
	best, ofRank, banks := c.oldestReady(n, c.bus.rank, t)
	if ofRank.age < forever && t-best.age <= int64(c.policy.AgeBound) {
		return ofRank, banks
	}
	return best, banks
}

// moved notes that a column access of need n issues at t for a bank of rank.
func (c *controller) moved(n need, rank int, t int64) {
	b := &c.bus
	if n != b.need {
		b.need, b.since = n, t
	}
	b.rank = rank
	b.over = t-b.since > int64(c.policy.AgeBound) && c.overdue(n^1, t)
}

// overdue reports whether a column access of n, its row open, has waited beyond the bound.
func (c *controller) overdue(n need, t int64) bool {
	for rank, m := range c.needs[n].banks {
		for ; m != 0; m &= m - 1 {
			if t-c.needs[n].ages[rank*c.banksPerRank+bits.TrailingZeros64(m)] > int64(c.policy.AgeBound) {
				return true
			}
		}
	}
	return false
}

// waits reports whether any bank of a rank that accepts commands waits for n.
func (c *controller) waits(n need) bool {
	for rank, m := range c.needs[n].banks {
		if m != 0 && c.refresh.forced>>rank&1 == 0 {
			return true
		}
	}
	return false
}

// holds reports whether the bus waits for a column access of n: enough banks have one, and the first may issue
// within tCCD_L, after which even those of one bank group go on. If it does, c.ready is at most that clock.
func (c *controller) holds(n need, t int64) bool {
	banks, first := 0, int64(forever)
	for rank, m := range c.needs[n].banks {
		if c.refresh.forced>>rank&1 != 0 {
			continue
		}
		banks += bits.OnesCount64(m)
		for ; m != 0; m &= m - 1 {
			first = min(first, c.earliest(n, rank*c.banksPerRank+bits.TrailingZeros64(m)))
		}
	}
	if banks < runBanks || first > t+int64(c.spec.TCCDL) {
		return false
	}
	c.ready = min(c.ready, first)
	return true
}
