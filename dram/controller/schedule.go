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
	waits, groups := c.needs[n].waits[base:], c.groupNodes[base>>c.groupShift:]
	first = forever
	oldest, found := best.age, -1
	for m := c.ranks[rank].banks[n] &^ c.ranks[rank].blocked; m != 0; m &= m - 1 {
		bank := bits.TrailingZeros64(m)
		w := &waits[bank]
		at, age, bit := max(w.at, groups[bank>>c.groupShift][cmd]), w.age, m&-m
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
	if c.asleep(n, b, t) {
		return best, ofRank, 0
	}
	wake := int64(forever)
	for r := b.first; r < b.end; r++ {
		k := &c.ranks[r]
		if k.banks[n]&^k.blocked == 0 {
			continue
		}
		first := k.wakes[n]
		if first <= t {
			to := &best
			if r == b.rank {
				to = &ofRank
			}
			var ready uint64
			ready, first = c.readyBanks(n, r, t, to)
			k.wakes[n] = first
			banks += bits.OnesCount64(ready)
		}
		wake = min(wake, first)
	}
	b.wake[n] = wake
	c.ready = min(c.ready, wake)
	if ofRank.age < best.age {
		best = ofRank
	}
	return best, ofRank, banks
}

// asleep reports whether no bank of the bus may issue need n at t; c.ready is then at most the first
// step at which one may.
func (c *controller) asleep(n need, b *bus, t int64) bool {
	if wake := b.wake[n]; wake > t {
		c.ready = min(c.ready, wake)
		return true
	}
	return !c.simpleBus && c.busy(n, t)
}

// busy is asleep for the command bus.
func (c *controller) busy(n need, t int64) bool {
	free := c.commandBuses.Earliest(needCommands[n], t)
	if free > t {
		c.ready = min(c.ready, free)
	}
	return free > t
}

// oldest is oldestReady for one choice alone.
func (c *controller) oldest(n need, b *bus, t int64) choice {
	best := nothing
	wake := int64(forever)
	for r := b.first; r < b.end; r++ {
		k := &c.ranks[r]
		if k.banks[n]&^k.blocked == 0 {
			continue
		}
		first := k.wakes[n]
		if first <= t {
			_, first = c.readyBanks(n, r, t, &best)
			k.wakes[n] = first
		}
		wake = min(wake, first)
	}
	b.wake[n] = wake
	c.ready = min(c.ready, wake)
	return best
}

// oldestRow returns the ready ACT for the oldest request, or nothing.
func (c *controller) oldestRow(b *bus, t int64) choice {
	row := nothing
	for _, n := range [...]need{needReadRow, needWriteRow} {
		if !c.asleep(n, b, t) {
			if p := c.oldest(n, b, t); p.age < row.age {
				row = p
			}
		}
	}
	return row
}

// oldestClose returns the ready PRE for the oldest request, or nothing.
func (c *controller) oldestClose(b *bus, t int64) choice {
	if c.asleep(needPrecharge, b, t) {
		return nothing
	}
	return c.oldest(needPrecharge, b, t)
}
