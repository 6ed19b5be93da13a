package controller

import (
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// batch groups reads and writes into runs of one direction, and a run's accesses by rank, because bus turnarounds cost clocks: on DDR4-3200
// read to write 8 beyond the burst, write to read of one rank 24, and another rank tRTRS. The next command is, in this order,
//
//   - a ready column access of the run's direction: one of the rank that had the bus last, else the oldest;
//   - an access of the other direction. The bus waits instead if enough banks of the run's direction have their row open, or enough
//     requests hit them, and one may issue soon;
//   - an ACT before a single column access, as in fr-fcfs. The oldest request of the run's direction gets its row before others.
//
// If tFAW limits the banks of a bus with idle time, turnarounds cost nothing and the order of activations matters: such a bus is scheduled
// as in fr-fcfs.
//
// A request older than the policy's age bound goes before the current rank's requests, and a run as old as that yields to the other
// direction. So does a run that leaves the bus partly empty when the other direction could fill it (see outrun).
var batch = scheduler{pick: (*sched).pickBatch, eitherRow: true, readsPass: true, writesWait: true, headStart: openedHeadStart}

// openedHeadStart lets the hits of a row that has just opened start before the last hits of an older row. Otherwise each time a stream
// moves to another bank it loses a burst's clocks. The value exceeds the time of a window of requests that hit one bank (40 times tCCD_L);
// our choice: 300 to 800 clocks give the same mean over the reference traces within 0.1%.
const openedHeadStart = 400

// runBanks is the least number of banks with an open row, in a run's direction, for which the bus waits. With fewer, the run ends: the
// other direction continues while rows open for the next run. Our choice: 3 to 6 give the same within 1% on the reference traces.
const runBanks = 4

// runHits is the number of queued requests of a run's direction with row hits from which the bus waits for one, however few the banks: a
// turnaround takes as long as so many bursts (28 clocks of DDR4-3200, 4 a burst). Our choice: 4 to 8 give the same mean over random streams
// within 0.1%.
const runHits = 8

// A run that leaves the bus partly empty ends after fullRun bursts, as many as a drain of the write buffer moves. A run of reads ends after
// shortRun bursts if a full write buffer blocks all requests: there are then always as many writes to follow. Our choice: a fullRun of 24
// to 40 and a shortRun of 8 to 32 give the same mean over random streams within 0.1%.
const (
	fullRun  = 32
	shortRun = 16
)

// dataBus is the data bus of a pseudo-channel, and its last user.
type dataBus struct {
	first, end int   // its ranks
	need       need  // needRead or needWrite
	rank       int   // of the last burst
	since      int64 // first column access of the run
	length     int   // column accesses of the run
	over       bool  // the run has been long enough: the other direction is next
	// Activations and column accesses since step sampled, from which sample sets rowBound.
	sampled       int64
	acts, columns int64
	rowBound      bool
	// notBefore is, by need, a step before which no bank is ready: at most the least of readyFrom.
	notBefore [needs]int64
	// readyFrom is the same by rank, forever for a rank without the need.
	readyFrom [needs][]int64
	// ranks are the ranks with a bank that has the need, as bits.
	ranks [needs]uint64
}

// newBuses returns the data buses of a channel.
func newBuses(spec *dram.Spec, ranks int) []dataBus {
	list := make([]dataBus, spec.Rules().PseudoChannels)
	each := ranks / len(list)
	for i := range list {
		list[i] = dataBus{first: i * each, end: (i + 1) * each, rank: i * each}
		for n := range needs {
			list[i].notBefore[n], list[i].readyFrom[n] = forever, slices.Repeat([]int64{forever}, each)
		}
	}
	return list
}

// activations returns a rank's slowest rule on activations: acts ACTs take at least steps. That is tFAW for four, or GDDR6's t32AW for 32.
func activations(spec *dram.Spec) (acts, steps int64) {
	acts = 1
	for _, row := range spec.Constraints() {
		if row.Command != dram.ACT || row.Next != dram.ACT || row.Scope != dram.SameRank {
			continue
		}
		if n, of := int64(row.Clocks), int64(max(1, row.Window)); n*acts > steps*of {
			acts, steps = of, n
		}
	}
	return acts, steps
}

// pickBatch chooses by the rules of batch.
func (s *sched) pickBatch(b *dataBus, t int64) choice {
	if b.rowBound {
		return s.pickOldest(b, t)
	}
	run, other := b.need, b.need^1
	over := b.over && s.anyBank(b, other)
	if over {
		run, other = other, run
	}
	column, banks := s.runColumn(b, run, t)
	if banks == 0 && !over && (b.notBefore[other] > t || !s.holds(b, run, t)) {
		column, banks = s.runColumn(b, other, t)
	}
	if banks < 2 {
		for _, n := range [...]need{run, other} {
			if row, _ := s.oldest(needReadRow+n, b, t); row.age < forever {
				return row
			}
		}
	}
	if banks > 0 {
		return column
	}
	p, _ := s.oldest(needPrecharge, b, t)
	return p
}

// runColumn returns a ready column access of n, and the number of ready ones: the oldest of the rank that had the bus last, or the oldest
// of all if one of another rank has exceeded the age bound.
func (s *sched) runColumn(b *dataBus, n need, t int64) (choice, int) {
	if s.notYet(n, b, t) {
		return nothing, 0
	}
	best, ofRank, banks := s.oldestReady(n, b, t)
	if ofRank.age < forever && t-best.age <= s.limits.ageBound+s.limits.headStart {
		return ofRank, banks
	}
	return best, banks
}

// moved records that a column access of need n issues at t for a bank of rank. A full write buffer blocks all requests.
func (s *sched) moved(n need, rank int, t int64, writesFull bool) {
	b := &s.buses[s.busOf[rank]]
	of := &s.counts[rank]
	if n != b.need {
		b.need, b.since, b.length = n, t, 0
		of.Turnarounds++
	}
	b.length++
	if rank != b.rank {
		b.rank = rank
		of.Switches++
	}
	b.over = t-b.since > s.limits.ageBound && s.overdue(b, n^1, t) || b.length >= shortRun && s.outrun(b, n, writesFull)
	if b.columns++; b.columns == sampleColumns {
		s.sample(b, t)
	}
}

// sampleColumns is the number of column accesses in a sample. Our choice: 64 to 256 give the same mean over the reference traces within
// 0.1%.
const sampleColumns = 128

// sample decides whether activations bound the bus: over the sample, activations took more than three quarters of the ranks' limit, and
// bursts less than three quarters of the bus.
func (s *sched) sample(b *dataBus, t int64) {
	steps := t - b.sampled
	bursts := b.columns * s.channel.spec.BusSteps(s.channel.spec.BurstClocks())
	rows := b.acts * s.limits.actSteps / (s.limits.acts * int64(b.end-b.first))
	b.rowBound = 4*rows > 3*steps && 4*bursts < 3*steps
	b.sampled, b.acts, b.columns = t, 0, 0
}

// passed records that a command for need n of rank has issued. It recomputes the first step at which a bank may be ready, for the needs
// whose commands are delayed.
func (s *sched) passed(n need, rank int) {
	b := &s.buses[s.busOf[rank]]
	from := &b.readyFrom[n][rank-b.first]
	*from = max(*from, s.ranks[rank].secondReady[n])
	if n == needPrecharge {
		b.notBefore[n] = slices.Min(b.readyFrom[n])
		return
	}
	for m := n &^ 1; m <= n|1; m++ {
		cmd, first := needCommands[m]&(dram.Slots-1), int64(forever)
		for w := b.ranks[m]; w != 0; w &= w - 1 {
			r := bits.TrailingZeros64(w)
			first = min(first, max(b.readyFrom[m][r-b.first], s.channel.rankNodes[r][cmd]))
		}
		b.notBefore[m] = first
	}
}

// overdue reports whether a column access of n with an open row has exceeded the age bound.
func (s *sched) overdue(b *dataBus, n need, t int64) bool {
	for w := b.ranks[n]; w != 0; w &= w - 1 {
		rank := bits.TrailingZeros64(w)
		for m := s.ranks[rank].banks[n]; m != 0; m &= m - 1 {
			if t-s.candidates[n][rank][bits.TrailingZeros64(m)].age > s.limits.ageBound+s.limits.headStart {
				return true
			}
		}
	}
	return false
}

// anyBank reports whether any bank that accepts commands has need n.
func (s *sched) anyBank(b *dataBus, n need) bool {
	for w := b.ranks[n]; w != 0; w &= w - 1 {
		rank := bits.TrailingZeros64(w)
		if s.ranks[rank].banks[n]&^s.ranks[rank].blocked != 0 {
			return true
		}
	}
	return false
}

// holds reports whether the bus waits for a column access of n. Enough banks must have one, or enough requests must wait for one, and one
// must be able to issue within tCCD_L, after which even accesses of one bank group can follow.
func (s *sched) holds(b *dataBus, n need, t int64) bool {
	banks := 0
	for w := b.ranks[n]; w != 0; w &= w - 1 {
		rank := bits.TrailingZeros64(w)
		banks += bits.OnesCount64(s.ranks[rank].banks[n] &^ s.ranks[rank].blocked)
	}
	if banks < runBanks && !s.manyHits(b, n) {
		return false
	}
	for w := b.ranks[n]; w != 0; w &= w - 1 {
		rank := bits.TrailingZeros64(w)
		for m := s.ranks[rank].banks[n] &^ s.ranks[rank].blocked; m != 0; m &= m - 1 {
			if s.channel.earliest(n, rank*s.channel.banksPerRank+bits.TrailingZeros64(m)) <= t+s.limits.holdSteps {
				return true
			}
		}
	}
	return false
}

// manyHits reports whether at least runHits queued requests of n hit open rows.
func (s *sched) manyHits(b *dataBus, n need) bool {
	hits := 0
	for w := b.ranks[n]; w != 0; w &= w - 1 {
		rank := bits.TrailingZeros64(w)
		for m := s.ranks[rank].banks[n] &^ s.ranks[rank].blocked; m != 0; m &= m - 1 {
			bank := rank*s.channel.banksPerRank + bits.TrailingZeros64(m)
			if hits += bits.OnesCount64(s.queues.banks[bank].hits & s.queues.banks[bank].of[n]); hits >= runHits {
				return true
			}
		}
	}
	return false
}

// fills reports whether the banks with a column access of n are in enough bank groups to fill the bus: accesses of one group are tCCD_L
// apart.
func (s *sched) fills(b *dataBus, n need) bool {
	groups, shift := 0, s.channel.groupShift&63
	ofGroup := uint64(1)<<(1<<shift) - 1
	for w := b.ranks[n]; w != 0; w &= w - 1 {
		of := &s.ranks[bits.TrailingZeros64(w)]
		for m := of.banks[n] &^ of.blocked; m != 0; {
			if groups++; groups >= s.limits.fullGroups {
				return true
			}
			m &^= ofGroup << (bits.TrailingZeros64(m) >> shift << shift)
		}
	}
	return false
}

// outrun reports whether a run of n ends although it has accesses left, since they leave the bus partly empty and the other direction would
// fill it. The accesses left behind issue beside later requests of their kind, which have other banks, so that streams use two banks at a
// time. While a full write buffer blocks all requests, no later reads arrive; then enough pending writes suffice to end the run.
func (s *sched) outrun(b *dataBus, n need, writesFull bool) bool {
	if b.ranks[n^1] == 0 || s.fills(b, n) {
		return false
	}
	other := s.fills(b, n^1)
	return other && b.length >= fullRun || n == needRead && writesFull && (other || s.manyHits(b, n^1))
}
