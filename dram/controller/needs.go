package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// need is what a bank's queue waits for.
type need uint8

const (
	needRead need = iota
	needWrite
	needReadRow  // the row of a read
	needWriteRow // the row of a write
	needPrecharge
	needs
)

// needCommands are the commands whose constraints bound each need. A column access with auto-precharge has those of the one without.
var needCommands = [needs]dram.Command{dram.RD, dram.WR, dram.ACT, dram.ACT, dram.PRE}

// rankNeeds is what the banks of one rank need next.
type rankNeeds struct {
	banks [needs]uint64
	// secondReady is the earliest step at which a bank other than the last scan's choice can be ready. It holds until the next
	// scan, as commands only ever raise it.
	secondReady [needs]int64
	blocked     uint64 // banks that accept no command for a request: those of the three sets below
	forced      uint64 // banks of units that must refresh first, see refreshState
	exhausted   uint64 // banks that refresh management must serve first, see managementState
	down        uint64 // all banks of a rank in power-down or self-refresh, else none
}

// block finds the banks that accept no command for a request.
func (r *rankNeeds) block() { r.blocked = r.forced | r.exhausted | r.down }

// sched is what is kept between picks: what each bank, rank and data bus waits for.
type sched struct {
	channel   *channel
	queues    *queues
	scheduler *scheduler
	counts    []RankStats // by rank: turnarounds of its bus and switches to it

	now        int64                  // step
	candidates [needs][][64]candidate // by rank and bank
	ranks      []rankNeeds
	buses      []dataBus
	busOf      []int // by rank
	turn       int   // bus that is asked first
	last       int   // bank served last
	next       int64 // step before which no command for a request can issue
	limits     limits
}

// limits are the numbers of policy, scheduler and standard that decisions depend on, in steps.
type limits struct {
	ageBound       int64
	headStart      int64 // see scheduler
	holdSteps      int64 // see holds
	fullGroups     int   // bank groups that fill the data bus
	acts, actSteps int64 // see activations
	rowHits        int   // see Policy.RowHitLimit
}

// newSched returns the state in which nothing waits.
func newSched(channel *channel, queues *queues, policy *Policy, counts []RankStats) sched {
	spec, ranks, of := channel.spec, len(counts), schedulers[policy.Scheduler]
	s := sched{channel: channel, queues: queues, scheduler: of, counts: counts, ranks: make([]rankNeeds, ranks), buses: newBuses(spec, ranks), last: -1}
	s.limits = limits{ageBound: spec.BusSteps(policy.AgeBound), headStart: spec.BusSteps(of.headStart), holdSteps: spec.BusSteps(spec.TCCDL),
		fullGroups: (spec.TCCDL + spec.BurstClocks() - 1) / spec.BurstClocks(), rowHits: policy.RowHitLimit}
	s.limits.acts, s.limits.actSteps = activations(spec)
	for n := range s.candidates {
		s.candidates[n] = make([][64]candidate, ranks)
	}
	for i, b := range s.buses {
		for range b.end - b.first {
			s.busOf = append(s.busOf, i)
		}
	}
	return s
}

// candidate is the command that would serve a need of one bank.
type candidate struct {
	at  int64 // step from which on the bank's own constraints allow it; only commands to the bank change that
	age int64 // step at which its request was accepted, less headStart for the first access to a row
}

// rescan forgets when the banks of a rank become ready.
func (s *sched) rescan(rank int) {
	for n := range needs {
		if s.ranks[rank].banks[n] != 0 {
			b := &s.buses[s.busOf[rank]]
			s.ranks[rank].secondReady[n], b.readyFrom[n][rank-b.first], b.notBefore[n] = 0, 0, 0
		}
	}
}

// updateNeeds finds what bank waits for: the row of its oldest request, or, if the scheduler takes either, of its oldest read and of its oldest
// write; and the oldest read and write that hit the open row. It returns the first clock at which one of them may issue.
func (s *sched) updateNeeds(bank int) int64 {
	b := &s.queues.banks[bank]
	place := &s.channel.places[bank]
	rank := int(place.Rank)
	for m := b.needs; m != 0; m &= m - 1 {
		s.dropNeed(need(bits.TrailingZeros8(m)), rank, place.bit)
	}
	b.first, b.needs = [kinds]int32{-1, -1}, 0
	if len(b.entries) == 0 {
		return forever
	}
	row := s.channel.rows[bank]
	if row < 0 {
		return s.rowNeeds(b, rank, bank)
	}
	b.findFirst(b.hits)
	first := int64(forever)
	limited := int(b.served) >= s.limits.rowHits || s.old(&b.entries[0])
	if b.entries[0].row != row && (limited || b.first == [kinds]int32{-1, -1}) {
		first = s.addNeed(needPrecharge, rank, bank, 0)
		if limited && !s.scheduler.hitsPassLimit {
			return first // nothing may put the close off further
		}
	}
	return min(first, s.addNeeds(needRead, rank, bank))
}

// addNeeds notes that bank waits for a need of its first read, and for that of its first write, the next one.
func (s *sched) addNeeds(ofRead need, rank, bank int) int64 {
	first := int64(forever)
	for kind, i := range s.queues.banks[bank].first {
		if i >= 0 {
			first = min(first, s.addNeed(ofRead+need(kind), rank, bank, i))
		}
	}
	return first
}

// rowNeeds notes the rows that a closed bank may open. A row that more than one request wants goes before what the scheduler would take: the bank's
// time is what is short there. So does the oldest request's where activations are what is short.
func (s *sched) rowNeeds(b *bankQueue, rank, bank int) int64 {
	if oldest := &b.entries[0]; !s.scheduler.eitherRow || s.buses[s.busOf[rank]].rowBound || s.old(oldest) || several(b.wanting(oldest.row)) {
		b.first[oldest.kind] = 0
	} else {
		b.findFirst(^uint64(0))
	}
	return s.addNeeds(needReadRow, rank, bank)
}

// old reports whether an entry has waited for longer than others may go before it.
func (s *sched) old(e *entry) bool {
	if e.kind == needWrite && s.scheduler.writesWait {
		return s.now-e.queued > s.limits.ageBound
	}
	return s.now-e.accepted > s.limits.ageBound
}

// addNeed notes that bank waits for n, for entry i of its queue, and returns the first clock at which n may issue.
func (s *sched) addNeed(n need, rank, bank int, i int32) int64 {
	of, on, at := &s.ranks[rank], &s.buses[s.busOf[rank]], s.channel.earliest(n, bank)
	from := &on.readyFrom[n][rank-on.first]
	on.ranks[n] |= 1 << rank
	of.banks[n] |= s.channel.places[bank].bit
	*from, of.secondReady[n] = min(*from, at), min(of.secondReady[n], at)
	on.notBefore[n] = min(on.notBefore[n], at)
	b := &s.queues.banks[bank]
	b.needs |= 1 << n
	w := &s.candidates[n][rank][(bank-rank*s.channel.banksPerRank)&63]
	w.at, w.age = s.channel.bankNodes[bank][needCommands[n]], b.entries[i].accepted
	if n <= needWrite && b.served == 0 {
		w.age -= s.limits.headStart
	}
	return at
}

// dropNeed notes that a bank waits for n no longer.
func (s *sched) dropNeed(n need, rank int, bit uint64) {
	of := &s.ranks[rank]
	if of.banks[n] &^= bit; of.banks[n] != 0 {
		return
	}
	on := &s.buses[s.busOf[rank]]
	of.secondReady[n], on.readyFrom[n][rank-on.first] = forever, forever
	if on.ranks[n] &^= 1 << rank; on.ranks[n] == 0 {
		on.notBefore[n] = forever
	}
}
