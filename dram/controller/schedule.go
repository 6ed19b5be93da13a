package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// choice is the command picked by the scheduler.
type choice struct {
	bank int
	need need
	age  int64 // step at which its request was accepted
}

// nothing is no choice: every other choice is older.
var nothing = choice{age: forever}

// scheduler decides which bank's command issues next.
type scheduler struct {
	// pick returns the command to issue at t on a data bus, or nothing. In that case it sets c.sched.next to at most the first step at
	// which one may issue.
	pick func(s *sched, b *dataBus, t int64) choice
	// allBuses means that pick covers all data buses at once.
	allBuses bool
	// eitherRow lets a closed bank open the row of its oldest read or of its oldest write, not only that of its oldest request.
	eitherRow bool
	// readsPass lets reads enter their banks' queues while no write of a drain finds room in its own. No read enters a bank whose writes
	// share a row, since it would keep further writes of that row out.
	readsPass bool
	// writesWait lets writes stay in the buffer while that costs nothing. Without other work they drain when no request is about to arrive,
	// or when there are more of them than a bank's queue holds. A write older than writeAge times the age bound drains all. For scheduling,
	// a write's age counts from leaving the buffer.
	writesWait bool
	// headStart is added to the age of the first access to a row, in clocks.
	headStart int
	// hitsPassLimit lets ready hits issue in a row that is due to close.
	hitsPassLimit bool
}

// schedulers are the schedulers by name, as policies give it.
var schedulers = map[string]*scheduler{"batch": &batch, "fr-fcfs": &frFCFS, "round-robin": &roundRobin}

// schedule issues one ready command from the bank queues at t. If none is ready, it sets c.sched.next to the first step at which one may
// be.
func (c *controller) schedule(t int64) bool {
	c.sched.next = forever
	if c.queues.entries == 0 {
		return false
	}
	p := c.sched.pick(t)
	switch {
	case p.age == forever:
		c.sched.next = max(c.sched.next, t+1)
		return false
	case c.dataClock.known && p.need <= needWrite && !c.startClock(p, t):
		c.sched.next = max(c.sched.next, t+1)
		return c.dataClock.starting()
	}
	c.serve(p, t)
	return true
}

// pick asks the scheduler for each data bus in turn, beginning after the one served last.
func (s *sched) pick(t int64) choice {
	if len(s.buses) == 1 || s.scheduler.allBuses {
		return s.scheduler.pick(s, &s.buses[0], t)
	}
	for range s.buses {
		b := &s.buses[s.turn]
		if s.turn++; s.turn == len(s.buses) {
			s.turn = 0
		}
		if p := s.scheduler.pick(s, b, t); p.age < forever {
			return p
		}
	}
	return nothing
}

// late is all ones if at is after t, else 0. Masks replace branches that would be mispredicted and take a fifth of the time.
func late(at, t int64) int64 { return (t - at) >> 63 }

// readyBanks returns the number of a rank's banks that may issue n at t by the constraints of bank and bank group, the bank with the oldest
// request among them, and the first step at which one of the others may.
func (s *sched) readyBanks(n need, rank int, t int64) (ready int, oldest choice, later int64) {
	cmd, shift := needCommands[n]&(dram.Slots-1), s.channel.groupShift&63
	base := rank * s.channel.banksPerRank
	candidates, groups := &s.candidates[n][rank], s.channel.groupNodes[base>>shift:]
	age, found := int64(forever), 0
	later = forever
	for m := s.ranks[rank].banks[n] &^ s.ranks[rank].blocked; m != 0; m &= m - 1 {
		bank := bits.TrailingZeros64(m) & 63
		w := &candidates[bank]
		at := max(w.at, groups[bank>>shift][cmd])
		late := late(at, t)
		ready += 1 + int(late)
		later = min(later, at|^late&forever)
		if of := w.age&^late | late&forever; of < age {
			age, found = of, bank
		}
	}
	return ready, choice{base + found, n, age}, later
}

// notYet reports whether no bank of the bus can be ready for n at t. It then lowers s.next to the step at which one can.
func (s *sched) notYet(n need, b *dataBus, t int64) bool {
	wake := b.notBefore[n]
	if wake <= t {
		return false
	}
	s.next = min(s.next, wake)
	return true
}

// oldestReady returns the number of banks of the bus that may issue need n at t, and the one with the oldest request: of all, and of the
// rank that had the bus last.
func (s *sched) oldestReady(n need, b *dataBus, t int64) (best, ofRank choice, banks int) {
	best.age, ofRank.age = forever, forever
	cmd := needCommands[n] & (dram.Slots - 1)
	if !s.channel.buses.simple {
		if at := s.channel.buses.Earliest(cmd, t); at > t {
			s.next = min(s.next, at)
			return best, ofRank, 0
		}
	}
	ranks, wake := s.ranksBy(n, b, t)
	for ; ranks != 0; ranks &= ranks - 1 {
		r := bits.TrailingZeros64(ranks)
		ready, p, later := s.readyBanks(n, r, t)
		from, others := later, later
		if ready > 0 {
			from = t
		}
		if ready > 1 {
			others = t
		}
		s.ranks[r].secondReady[n], b.readyFrom[n][r-b.first] = others, from
		if banks += ready; p.age < best.age {
			best = p
		}
		if r == b.rank {
			ofRank = p
		}
		wake = min(wake, from)
	}
	b.notBefore[n] = wake
	s.next = min(s.next, wake)
	return best, ofRank, banks
}

// ranksBy returns the ranks of the bus that may have a bank ready for n at t, and the first step at which one of the other ranks may.
func (s *sched) ranksBy(n need, b *dataBus, t int64) (ranks uint64, later int64) {
	later = forever
	cmd := needCommands[n] & (dram.Slots - 1)
	for m := b.ranks[n]; m != 0; m &= m - 1 {
		r := bits.TrailingZeros64(m)
		at := max(b.readyFrom[n][r-b.first], s.channel.rankNodes[r][cmd])
		late := late(at, t)
		ranks |= m & -m &^ uint64(late)
		later = min(later, at|^late&forever)
	}
	return ranks, later
}

// oldest returns the ready command of n for the oldest request, or nothing, and the number of banks with a ready one.
func (s *sched) oldest(n need, b *dataBus, t int64) (choice, int) {
	if s.notYet(n, b, t) {
		return nothing, 0
	}
	p, _, banks := s.oldestReady(n, b, t)
	return p, banks
}

// frFCFS picks the ready column access of the oldest request; without one, the ready ACT of the oldest request, then the PRE (Rixner et
// al., "Memory Access Scheduling", ISCA 2000). An ACT goes before a single ready column access: if column accesses do not queue for the
// data bus, activations (tFAW) limit the rank, and a delayed ACT cannot be made up for.
var frFCFS = scheduler{pick: (*sched).pickOldest}

// pickOldest chooses the oldest column command that may issue. If at most one bank has one, rows are opened first, so that the bus does not
// run dry.
func (s *sched) pickOldest(b *dataBus, t int64) choice {
	column, reads := s.oldest(needRead, b, t)
	write, writes := s.oldest(needWrite, b, t)
	if lone := reads+writes < 2 || reads == 1 && writes == 1 && column.bank == write.bank; lone {
		row, _ := s.oldest(needReadRow, b, t)
		if other, _ := s.oldest(needWriteRow, b, t); other.age < row.age {
			row = other
		}
		if row.age < forever {
			return row
		}
	}
	if write.age < column.age {
		column = write
	}
	if column.age < forever {
		return column
	}
	p, _ := s.oldest(needPrecharge, b, t)
	return p
}

// roundRobin visits the bank queues in order, beginning after the one served last. It picks the first bank with a ready command, and the
// one that its oldest request needs, as DRAMsim3 does (https://github.com/umd-memsys/DRAMsim3, src/command_queue.cc).
var roundRobin = scheduler{pick: (*sched).pickRoundRobin, hitsPassLimit: true, allBuses: true}

// pickRoundRobin implements roundRobin. It sets c.sched.next to the first step at which a command that is not ready may issue.
func (s *sched) pickRoundRobin(_ *dataBus, t int64) choice {
	found := nothing
	distance := len(s.queues.banks)
	start := s.last + 1
	for rank := range s.channel.openBanks {
		var ready [needs]uint64
		var any uint64
		for n := range needs {
			if at := max(s.channel.gate(needCommands[n], t), s.channel.rankNodes[rank][needCommands[n]]); at > t {
				s.next = min(s.next, at)
				continue
			}
			banks, first := s.readySet(n, rank, t)
			ready[n], any, s.next = banks, any|banks, min(s.next, first)
		}
		base := rank * s.channel.banksPerRank
		if any == 0 {
			continue
		}
		// The first ready bank at or after start, else the first of the rank.
		first := base + bits.TrailingZeros64(any)
		if from := start - base; from > 0 && any>>from != 0 {
			first = start + bits.TrailingZeros64(any>>from)
		}
		if d := (first - start + len(s.queues.banks)) % len(s.queues.banks); d < distance {
			distance = d
			found = choice{bank: first, need: s.firstReady(first, &ready)}
		}
	}
	if distance < len(s.queues.banks) {
		s.last = found.bank
	}
	return found
}

// readySet returns the banks of rank that may issue n at t by the constraints of bank and bank group, and the first step at which one may.
func (s *sched) readySet(n need, rank int, t int64) (ready uint64, first int64) {
	cmd := needCommands[n]
	first = forever
	for m := s.ranks[rank].banks[n] &^ s.ranks[rank].blocked; m != 0; m &= m - 1 {
		bank := bits.TrailingZeros64(m)
		at := max(s.candidates[n][rank][bank].at, s.channel.groupNodes[(rank*s.channel.banksPerRank+bank)>>s.channel.groupShift][cmd])
		ready |= m & -m &^ uint64(late(at, t))
		first = min(first, at)
	}
	return ready, first
}

// firstReady returns the need of the first request in the bank's queue whose command may issue.
func (s *sched) firstReady(bank int, ready *[needs]uint64) need {
	bit := s.channel.places[bank].bit
	for _, n := range []need{needReadRow, needWriteRow, needPrecharge} {
		if ready[n]&bit != 0 {
			return n
		}
	}
	b := &s.queues.banks[bank]
	if ready[needRead]&bit != 0 && (ready[needWrite]&bit == 0 || b.first[needRead] < b.first[needWrite]) {
		return needRead
	}
	return needWrite
}
