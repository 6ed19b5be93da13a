package controller

import "math/bits"

// roundRobin visits the bank queues in order from the one after the last
// served and takes the first that has anything ready, and of it what its oldest
// request needs, as DRAMsim3 (https://github.com/umd-memsys/DRAMsim3, src/command_queue.cc).
var roundRobin = scheduler{name: "round-robin", pick: (*controller).pickRoundRobin, hitsPassLimit: true, allBuses: true}

// pickRoundRobin chooses by the rules of roundRobin. c.ready becomes the first step at which a command may issue
// that may not yet.
func (c *controller) pickRoundRobin(_ *bus, t int64) choice {
	found := nothing
	distance := len(c.banks)
	start := c.lastServed + 1
	for rank := range c.openBanks {
		var ready [needs]uint64
		var any uint64
		for n := range needs {
			if at := max(c.gate(needCommands[n], t), c.rankNodes[rank][needCommands[n]]); at > t {
				c.ready = min(c.ready, at)
				continue
			}
			banks, first, _ := c.readyBanks(n, rank, t)
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
		if d := (first - start + len(c.banks)) % len(c.banks); d < distance {
			distance = d
			found = choice{bank: first, need: c.firstReady(first, &ready)}
		}
	}
	if distance < len(c.banks) {
		c.lastServed = found.bank
	}
	return found
}

// firstReady returns the need of the first request in the bank's queue whose command
// may issue.
func (c *controller) firstReady(bank int, ready *[needs]uint64) need {
	bit := c.places[bank].bit
	for _, n := range []need{needReadRow, needWriteRow, needPrecharge} {
		if ready[n]&bit != 0 {
			return n
		}
	}
	b := &c.banks[bank]
	if ready[needRead]&bit != 0 && (ready[needWrite]&bit == 0 || b.read < b.write) {
		return needRead
	}
	return needWrite
}
