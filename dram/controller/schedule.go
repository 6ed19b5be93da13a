package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// choice is the command that the scheduler has picked.
type choice struct {
	bank int
	need need
	age  int64 // when the request that it is for was accepted
}

// nothing is no choice: every other is older.
var nothing = choice{age: forever}

// scheduler decides which of the banks' commands goes next. Each is a file of its own.
type scheduler struct {
	name string
	// pick returns the command that issues at t for a data bus, or nothing; it then leaves in c.ready at
	// most the first step at which one may.
	pick func(c *controller, b *bus, t int64) choice
	// allBuses says that it picks for all data buses at once.
	allBuses bool
	// eitherRow lets a closed bank open the row of its oldest read or of its oldest write,
	// not only of its oldest request.
	eitherRow bool
	// hitsPassLimit lets hits that are ready go on in a row that is due to close.
	hitsPassLimit bool
}

var schedulers = []*scheduler{&batch, &frFCFS, &roundRobin}

// schedulerNames returns the names that a policy may give.
func schedulerNames() (names []string) {
	for _, s := range schedulers {
		names = append(names, s.name)
	}
	return names
}

// findScheduler returns the scheduler of that name, nil without one.
func findScheduler(name string) *scheduler {
	for _, s := range schedulers {
		if s.name == name {
			return s
		}
	}
	return nil
}

// schedule issues one command of the bank queues at t, if any is ready. If not, it sets c.ready to the first step at which one may be.
func (c *controller) schedule(t int64) bool {
	c.ready = forever
	if c.queued == 0 {
		return false
	}
	p := c.pick(t)
	switch {
	case p.age == forever:
		c.ready = max(c.ready, t+1)
		return false
	case c.hasSync && p.need <= needWrite && !c.startClock(p, t):
		c.ready = max(c.ready, t+1)
		return c.synced.age < forever
	}
	c.serve(p, t)
	return true
}

// pick asks the scheduler, for the data buses by turns, the one after that which was served last first.
func (c *controller) pick(t int64) choice {
	if len(c.buses) == 1 || c.scheduler.allBuses {
		return c.scheduler.pick(c, &c.buses[0], t)
	}
	for range c.buses {
		b := &c.buses[c.nextBus]
		if c.nextBus++; c.nextBus == len(c.buses) {
			c.nextBus = 0
		}
		if p := c.scheduler.pick(c, b, t); p.age < forever {
			return p
		}
	}
	return nothing
}

// readyBanks returns the banks of rank whose need n may issue at t, and the first clock
// at which one may. It sets best to the one for the oldest request, if that is older.
func (c *controller) readyBanks(n need, rank int, t int64, best *choice) (ready uint64, first int64) {
	cmd := needCommands[n] & (dram.Slots - 1)
	if gate := c.rankNodes[rank][cmd]; gate > t {
		return 0, gate
	}
	base := rank * c.banksPerRank
	banks, groups, ages := c.bankNodes[base:], c.groupNodes[base>>c.groupShift:], c.needs[n].ages[base:]
	first = forever
	oldest, found := best.age, -1
	for m := c.needs[n].banks[rank] &^ c.refresh.blocked[rank]; m != 0; m &= m - 1 {
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

// oldestReady returns how many banks of the bus may issue need n at t, and the one for the oldest
// request: of all, and of the rank that had the bus last.
func (c *controller) oldestReady(n need, b *bus, t int64) (best, ofRank choice, banks int) {
	best, ofRank = nothing, nothing
	state := &c.needs[n]
	wake := state.wake[b.index]
	if wake <= t {
		if at := c.gate(needCommands[n], t); at > t {
			c.ready = min(c.ready, at)
			return best, ofRank, 0
		}
		wake = forever
		for r := b.first; r < b.end; r++ {
			if state.banks[r]&^c.refresh.blocked[r] == 0 {
				continue
			}
			if state.wakes[r] <= t {
				to := &best
				if r == b.rank {
					to = &ofRank
				}
				ready, first := c.readyBanks(n, r, t, to)
				state.wakes[r] = first
				banks += bits.OnesCount64(ready)
			}
			wake = min(wake, state.wakes[r])
		}
		state.wake[b.index] = wake
	}
	c.ready = min(c.ready, wake)
	if ofRank.age < best.age {
		best = ofRank
	}
	return best, ofRank, banks
}

// oldestRow returns the ready ACT for the oldest request, or nothing.
func (c *controller) oldestRow(b *bus, t int64) choice {
	row, _, _ := c.oldestReady(needReadRow, b, t)
	if write, _, _ := c.oldestReady(needWriteRow, b, t); write.age < row.age {
		return write
	}
	return row
}

// oldestClose returns the ready PRE for the oldest request, or nothing.
func (c *controller) oldestClose(b *bus, t int64) choice {
	p, _, _ := c.oldestReady(needPrecharge, b, t)
	return p
}
