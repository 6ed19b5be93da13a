package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// choice is the command that the scheduler has picked.
type choice struct {
	bank int
	need need
	age  int64
}

// schedule issues one command of the bank queues at t, if any is ready. If not, it sets c.ready to the first clock at which one may be.
func (c *controller) schedule(t int64) bool {
	c.ready = forever
	if t >= c.starvationCheck {
		c.findStarving(t)
	}
	var best choice
	var ok bool
	switch {
	case c.starving >= 0:
		best, ok = c.pickStarving(t)
	case c.roundRobin:
		best, ok = c.pickRoundRobin(t)
	default:
		best, ok = c.pickOldest(t)
	}
	if !ok {
		c.ready = min(c.ready, max(t+1, c.starvationCheck)) // the oldest request may go first from then on
		return false
	}
	c.serve(best, t)
	return true
}

// readyBanks returns the banks of rank whose need n may issue at t, and the first clock
// at which one may. It sets best to the one for the oldest request, if that is older.
func (c *controller) readyBanks(n need, rank int, t int64, best *choice) (ready uint64, first int64) {
	cmd := needCommands[n] & (dram.Slots - 1)
	if gate := c.rankNodes[rank][cmd]; gate > t {
		return 0, gate
	}
	base := rank * c.banksPerRank
	banks, groups, ages := c.bankNodes[base:], c.groupNodes[rank*c.spec.BankGroups:], c.needs[n].ages[base:]
	first = forever
	oldest, found := best.age, -1
	for m := c.needs[n].banks[rank]; m != 0; m &= m - 1 {
		bank := bits.TrailingZeros64(m)
		at, age, bit := max(banks[bank][cmd], groups[bank>>c.groupShift][cmd]), ages[bank], m&-m
		first = min(first, at)
		if at > t { // compiled without a branch, which would be mispredicted: a fifth of the time
			age, bit = forever, 0
		}
		ready |= bit
		if age < oldest {
			oldest, found = age, base+bank
		}
	}
	if found >= 0 {
		*best = choice{found, n, oldest}
	}
	return ready, first
}

// oldestReady returns how many banks may issue need n at t, and of these the one for the
// oldest request.
func (c *controller) oldestReady(n need, t int64) (best choice, banks int) {
	best.age = forever
	state := &c.needs[n]
	if state.wake <= t {
		wake := int64(forever)
		for rank, waiting := range state.banks {
			if waiting != 0 && c.refresh.forced>>rank&1 == 0 {
				ready, first := c.readyBanks(n, rank, t, &best)
				wake = min(wake, first)
				banks += bits.OnesCount64(ready)
			}
		}
		state.wake = wake
	}
	c.ready = min(c.ready, state.wake)
	return best, banks
}

// pickOldest is FR-FCFS: of the ready column accesses the oldest; without one,
// of the ready ACTs the one for the oldest request, and then of the PREs. An ACT goes before
// a lone column access: where column accesses do not queue for the data bus,
// activations (tFAW) are what bounds the rank, and a clock lost to an ACT is
// lost for good.
func (c *controller) pickOldest(t int64) (choice, bool) {
	column, reads := c.oldestReady(needRead, t)
	write, writes := c.oldestReady(needWrite, t)
	if lone := reads+writes < 2 || reads == 1 && writes == 1 && column.bank == write.bank; lone {
		if row, rows := c.oldestReady(needActivate, t); rows > 0 {
			return row, true
		}
	}
	if write.age < column.age {
		column = write
	}
	if reads+writes > 0 {
		return column, true
	}
	row, rows := c.oldestReady(needPrecharge, t)
	return row, rows > 0
}

// candidate returns the entry of bank that need n concerns.
func (c *controller) candidate(bank int, n need) int32 {
	switch n {
	case needRead:
		return c.banks[bank].read
	case needWrite:
		return c.banks[bank].write
	}
	return 0
}

// pickRoundRobin visits the bank queues in order from the one after the last
// served and takes the first that has anything ready, and of it what its oldest
// request needs.
func (c *controller) pickRoundRobin(t int64) (choice, bool) {
	var found choice
	distance := len(c.banks) + 1
	start := c.lastServed + 1
	for rank := range c.openBanks {
		if c.refresh.forced>>rank&1 != 0 {
			continue
		}
		var ready [needs]uint64
		var any uint64
		for n := range needs {
			banks, first := c.readyBanks(n, rank, t, &choice{})
			ready[n], any, c.ready = banks, any|banks, min(c.ready, first)
		}
		base := rank * c.banksPerRank
		if any == 0 {
			continue
		}
		// The first ready bank at or after start, else the first of the rank.
		first := base + bits.TrailingZeros64(any)
		if from := start - base; from > 0 && any>>from != 0 {
			first = start + bits.TrailingZeros64(any>>from)
		}
		d := first - start
		if d < 0 {
			d += len(c.banks)
		}
		if d < distance {
			distance = d
			found = choice{bank: first, need: c.firstReady(first, &ready)}
		}
	}
	if distance > len(c.banks) {
		return found, false
	}
	c.lastServed = found.bank
	return found, true
}

// firstReady returns, of what bank needs and may issue, what the request that is foremost
// in its queue needs.
func (c *controller) firstReady(bank int, ready *[needs]uint64) need {
	bit := c.places[bank].bit
	if ready[needActivate]&bit != 0 {
		return needActivate
	}
	if ready[needPrecharge]&bit != 0 {
		return needPrecharge
	}
	b := &c.banks[bank]
	if ready[needRead]&bit != 0 && (ready[needWrite]&bit == 0 || b.read < b.write) {
		return needRead
	}
	return needWrite
}

// findStarving looks for a bank whose oldest request has waited too long.
func (c *controller) findStarving(t int64) {
	oldest, bank := int64(forever), -1
	for i := range c.banks {
		if q := c.banks[i].entries; len(q) > 0 && q[0].accepted < oldest {
			oldest, bank = q[0].accepted, i
		}
	}
	c.starving = -1
	limit := int64(c.policy.StarvationClocks)
	switch {
	case bank < 0:
		c.starvationCheck = forever
	case t-oldest > limit:
		c.starving, c.starvationCheck = bank, forever
	default:
		c.starvationCheck = oldest + limit + 1
	}
}

// pickStarving picks what the starving request needs. Until that can issue,
// others go on only where they do not put it off: no command to its bank, no
// ACT of its rank while it waits for one (tFAW), no column access of any bank
// while it waits for one (the data bus).
func (c *controller) pickStarving(t int64) (choice, bool) {
	bank := c.starving
	rank := int(c.places[bank].Rank)
	wants := c.starvingNeed()
	column := wants == needRead || wants == needWrite
	refreshing := c.refresh.forced>>rank&1 != 0
	if !refreshing {
		c.ready = c.earliest(wants, bank)
		if c.ready <= t {
			if column {
				c.starving, c.starvationCheck = -1, t+1
			}
			return choice{bank: bank, need: wants}, true
		}
	}
	best := choice{age: forever}
	for n := range needs {
		if column && !refreshing && (n == needRead || n == needWrite) {
			continue
		}
		for r := range c.openBanks {
			if c.refresh.forced>>r&1 != 0 || r == rank && n == needActivate && wants == needActivate {
				continue
			}
			for m := c.needs[n].banks[r]; m != 0; m &= m - 1 {
				o := r*c.banksPerRank + bits.TrailingZeros64(m)
				if o == bank {
					continue
				}
				if e := c.earliest(n, o); e > t {
					c.ready = min(c.ready, e)
				} else if age := c.needs[n].ages[o]; age < best.age {
					best = choice{o, n, age}
				}
			}
		}
	}
	return best, best.age < forever
}

// starvingNeed returns the next command of the starving request.
func (c *controller) starvingNeed() need {
	oldest := &c.banks[c.starving].entries[0]
	switch row := c.rows[c.starving]; {
	case row < 0:
		return needActivate
	case row != oldest.row:
		return needPrecharge
	case oldest.write:
		return needWrite
	}
	return needRead
}
