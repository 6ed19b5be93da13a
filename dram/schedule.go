package dram

import "math/bits"

// choice is the command that the scheduler has picked.
type choice struct {
	bank int
	need need
	age  int64
}

// schedule issues one command of the bank queues at t, if any is ready. If not, it sets c.ready to the first clock at which one may be.
func (c *controller) schedule(t int64) bool {
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

// readyBanks sets readyMask to the banks of rank whose needs may issue at t and
// returns the first later clock at which another may.
func (c *controller) readyBanks(rank int, t int64) int64 {
	s, next := c.state, int64(forever)
	base := rank * c.banksPerRank
	for n := range c.needs {
		c.readyMask[n] = 0
		mask := c.needs[n].banks[rank]
		if mask == 0 {
			continue
		}
		cmd := needCommands[n] & (slots - 1)
		if e := s.ranks[rank][cmd]; e > t {
			next = min(next, e)
			continue
		}
		for m := mask; m != 0; m &= m - 1 {
			bank := base + bits.TrailingZeros64(m)
			if e := max(s.banks[bank][cmd], s.groups[bank>>c.groupShift][cmd]); e > t {
				next = min(next, e)
			} else {
				c.readyMask[n] |= m & -m
			}
		}
	}
	return next
}

// pickOldest is FR-FCFS: of the ready column accesses the oldest; without one,
// of the ready ACTs the one for the oldest request, and then of the PREs. An ACT goes before
// a lone column access: where column accesses do not queue for the data bus,
// activations (tFAW) are what bounds the rank, and a clock lost to an ACT is
// lost for good.
func (c *controller) pickOldest(t int64) (choice, bool) {
	var oldest [needs]choice
	for n := range oldest {
		oldest[n].age = forever
	}
	columns, next := 0, int64(forever)
	for rank := range c.openBanks {
		if c.refresh.forced>>rank&1 != 0 {
			continue
		}
		next = min(next, c.readyBanks(rank, t))
		columns += bits.OnesCount64(c.readyMask[needRead] | c.readyMask[needWrite])
		for n := range needs {
			for m := c.readyMask[n]; m != 0; m &= m - 1 {
				bank := rank*c.banksPerRank + bits.TrailingZeros64(m)
				if age := c.needs[n].ages[bank]; age < oldest[n].age {
					oldest[n] = choice{bank, n, age}
				}
			}
		}
	}
	column := oldest[needRead]
	if oldest[needWrite].age < column.age {
		column = oldest[needWrite]
	}
	switch row := oldest[needActivate]; {
	case row.age < forever && columns < 2:
		return row, true
	case columns > 0:
		return column, true
	case oldest[needPrecharge].age < forever:
		return oldest[needPrecharge], true
	}
	c.ready = next
	return column, false
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
	next := int64(forever)
	var found choice
	distance := len(c.banks) + 1
	start := c.lastServed + 1
	for rank := range c.openBanks {
		if c.refresh.forced>>rank&1 != 0 {
			continue
		}
		next = min(next, c.readyBanks(rank, t))
		base := rank * c.banksPerRank
		any := c.readyMask[needActivate] | c.readyMask[needPrecharge] | c.readyMask[needRead] | c.readyMask[needWrite]
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
			found = choice{bank: first, need: c.firstReady(first)}
		}
	}
	if distance > len(c.banks) {
		c.ready = next
		return found, false
	}
	c.lastServed = found.bank
	return found, true
}

// firstReady returns, of what bank needs and readyMask allows, what the request
// that is foremost in its queue needs.
func (c *controller) firstReady(bank int) need {
	bit := c.places[bank].bit
	if c.readyMask[needActivate]&bit != 0 {
		return needActivate
	}
	if c.readyMask[needPrecharge]&bit != 0 {
		return needPrecharge
	}
	b := &c.banks[bank]
	if c.readyMask[needRead]&bit != 0 && (c.readyMask[needWrite]&bit == 0 || b.read < b.write) {
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
	next := int64(forever)
	if !refreshing {
		if next = c.earliest(wants, bank); next <= t {
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
					next = min(next, e)
				} else if age := c.needs[n].ages[o]; age < best.age {
					best = choice{o, n, age}
				}
			}
		}
	}
	c.ready = next
	return best, best.age < forever
}

// starvingNeed returns the next command of the starving request.
func (c *controller) starvingNeed() need {
	oldest := &c.banks[c.starving].entries[0]
	switch row := c.state.rows[c.starving]; {
	case row < 0:
		return needActivate
	case row != oldest.row:
		return needPrecharge
	case oldest.write:
		return needWrite
	}
	return needRead
}
