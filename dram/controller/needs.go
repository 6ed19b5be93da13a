package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// need is the kind of command that a bank's queue waits for.
type need uint8

const (
	needRead need = iota
	needWrite
	needReadRow  // the row of a read
	needWriteRow // the row of a write
	needPrecharge
	needs
)

// needCommands are the commands whose constraints apply to each need. A column access with auto-precharge has the constraints of one
// without.
var needCommands = [needs]dram.Command{dram.RD, dram.WR, dram.ACT, dram.ACT, dram.PRE}

// rankNeeds are the next needs of the banks of one rank.
type rankNeeds struct {
	banks [needs]uint64
	// secondReady is the earliest step at which a bank other than the last scan's choice can be ready. It stays valid until the next scan,
	// since commands only raise it.
	secondReady [needs]int64
	blocked     uint64 // banks that accept no command for a request: the union of the three sets below
	forced      uint64 // banks of units with a forced refresh, see refreshState
	exhausted   uint64 // banks that need an RFM first, see managementState
	down        uint64 // all banks of a rank in power-down or self-refresh, or none
}

// block computes the banks that accept no command for a request.
func (r *rankNeeds) block() { r.blocked = r.forced | r.exhausted | r.down }

// sched is the scheduler's state between picks: the needs of banks, ranks and data buses.
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
	turn       int   // bus to ask first
	last       int   // bank served last
	next       int64 // step before which no command for a request can issue
	limits     limits
}

// limits are the numbers of policy, scheduler and standard on which decisions depend, in steps.
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

// candidate is the command for a need of one bank.
type candidate struct {
	at  int64 // first step that the bank's own constraints allow; only commands to the bank change it
	age int64 // step at which its request was accepted, minus headStart for the first access to a row
}

// rescan invalidates the ready times of a rank's banks.
func (s *sched) rescan(rank int) {
	for n := range needs {
		if s.ranks[rank].banks[n] != 0 {
			b := &s.buses[s.busOf[rank]]
			s.ranks[rank].secondReady[n], b.readyFrom[n][rank-b.first], b.notBefore[n] = 0, 0, 0
		}
	}
}

// updateNeeds finds the needs of a bank: the row of its oldest request (or, if the scheduler allows either, of its oldest read and its
// oldest write), and the oldest read and write that hit the open row. It returns the first clock at which one of them may issue.
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
			return first // the precharge must not be delayed further
		}
	}
	return min(first, s.addNeeds(needRead, rank, bank))
}

// addNeeds records a bank's need for its first read, and the corresponding need (the next constant) for its first write.
func (s *sched) addNeeds(ofRead need, rank, bank int) int64 {
	first := int64(forever)
	for kind, i := range s.queues.banks[bank].first {
		if i >= 0 {
			first = min(first, s.addNeed(ofRead+need(kind), rank, bank, i))
		}
	}
	return first
}

// rowNeeds records the rows that a closed bank may open. The oldest request's row is the only one if other requests want it, too (the
// bank's time is scarce), or if activations are scarce. Otherwise the scheduler chooses.
func (s *sched) rowNeeds(b *bankQueue, rank, bank int) int64 {
	if oldest := &b.entries[0]; !s.scheduler.eitherRow || s.buses[s.busOf[rank]].rowBound || s.old(oldest) || several(b.wanting(oldest.row)) {
		b.first[oldest.kind] = 0
	} else {
		b.findFirst(^uint64(0))
	}
	return s.addNeeds(needReadRow, rank, bank)
}

// old reports whether an entry has waited beyond the age bound, so that no other may pass it.
func (s *sched) old(e *entry) bool {
	if e.kind == needWrite && s.scheduler.writesWait {
		return s.now-e.queued > s.limits.ageBound
	}
	return s.now-e.accepted > s.limits.ageBound
}

// addNeed records need n of a bank for entry i of its queue, and returns the first clock at which n may issue.
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

// dropNeed removes need n of a bank.
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
