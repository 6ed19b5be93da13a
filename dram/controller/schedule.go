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

// scheduler decides which of the banks' commands goes next.
type scheduler struct {
	// pick returns the command that issues at t for a data bus, or nothing; it then leaves in c.sched.next at most the first step at which one may.
	pick func(s *sched, b *dataBus, t int64) choice
	// allBuses says that it picks for all data buses at once.
	allBuses bool
	// eitherRow lets a closed bank open the row of its oldest read or of its oldest write, not only of its oldest request.
	eitherRow bool
	// readsPass lets reads into their banks' queues while no write of a drain has room in its own. Where writes share a row
	// of their bank no read passes: it would keep writes of that row out.
	readsPass bool
	// writesWait lets writes stay in the buffer while that costs nothing. With no other work they drain once no request is at hand,
	// or once there are more of them than a bank's queue holds. A write older than writeAge times the bound on age drains all.
	// The age that schedules a write counts from leaving the buffer.
	writesWait bool
	// headStart is the clocks by which the first access to a row counts as older than it is.
	headStart int
	// hitsPassLimit lets hits that are ready go on in a row that is due to close.
	hitsPassLimit bool
}

// schedulers are those that a policy may name.
var schedulers = map[string]*scheduler{"batch": &batch, "fr-fcfs": &frFCFS, "round-robin": &roundRobin}

// schedule issues one command of the bank queues at t, if any is ready. If not, it sets c.sched.next to the first step at which one may be.
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

// pick asks the scheduler, for the data buses by turns, the one after that which was served last first.
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

// late is all ones if at lies after t, else 0. Masks stand for branches that would be mispredicted: a fifth of the time.
func late(at, t int64) int64 { return (t - at) >> 63 }

// readyBanks returns how many banks of rank may issue n at t as far as they and their bank groups go, the one of them for the oldest
// request, and the first step at which one of the others may.
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

// notYet reports whether no bank of the bus can be ready for n at t; s.next then becomes at most the step at which one can.
func (s *sched) notYet(n need, b *dataBus, t int64) bool {
	wake := b.notBefore[n]
	if wake <= t {
		return false
	}
	s.next = min(s.next, wake)
	return true
}

// oldestReady returns how many banks of the bus may issue need n at t, and the one for the oldest
// request: of all, and of the rank that had the bus last.
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

// ranksBy returns the ranks of the bus that may have a bank ready for n at t, and the first step at which one of the others may.
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

// oldest returns the ready command of n for the oldest request, or nothing, and how many banks have one.
func (s *sched) oldest(n need, b *dataBus, t int64) (choice, int) {
	if s.notYet(n, b, t) {
		return nothing, 0
	}
	p, _, banks := s.oldestReady(n, b, t)
	return p, banks
}

// frFCFS takes the ready column access of the oldest request; without one the ready ACT of the oldest, then the PRE (Rixner et al., "Memory Access
// Scheduling", ISCA 2000). An ACT goes before a lone column access: where column accesses do not queue for the data bus, activations (tFAW) are what
// bounds the rank, and a clock lost to an ACT is lost for good.
var frFCFS = scheduler{pick: (*sched).pickOldest}

// pickOldest chooses the oldest column command that may issue. Where at most one bank has one, rows are opened
// first, so that the bus does not run dry.
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

// roundRobin visits the bank queues in order from the one after the last served and takes the first that has anything ready, and of it what its
// oldest request needs, as DRAMsim3 (https://github.com/umd-memsys/DRAMsim3, src/command_queue.cc).
var roundRobin = scheduler{pick: (*sched).pickRoundRobin, hitsPassLimit: true, allBuses: true}

// pickRoundRobin chooses by the rules of roundRobin. c.sched.next becomes the first step at which a command may issue that may not yet.
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

// readySet returns the banks of rank that may issue n at t as far as they and their bank groups go, and the first step at which one may.
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
