package controller

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
)

// columnOrder returns the column accesses of a log, bank and command alone.
func columnOrder(records []check.Record) (order []check.Record) {
	for _, r := range records {
		if r.Command.IsRead() || r.Command.IsWrite() {
			order = append(order, r)
		}
	}
	return order
}

// TestRoundRobinKeepsABanksOrder: if a read and a write both hit the open row of a bank, the first in its queue goes first.
func TestRoundRobinKeepsABanksOrder(t *testing.T) {
	for _, writeFirst := range []bool{false, true} {
		s := setup(t, "dramsim3")
		s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0 // writes leave the buffer at once
		// Both come before the row is open and are ready as soon as it is.
		requests := []Request{{Write: writeFirst}, {Clock: 5, Address: nextColumn, Write: !writeFirst}}
		_, records := replayLog(t, s, requests)
		var got []int32
		for _, r := range columnOrder(records) {
			got = append(got, r.Address.Column)
		}
		if !slices.IsSorted(got) || len(got) != 2 {
			t.Errorf("write first %v: columns %v, want them in the order of their requests: %v", writeFirst, got, records)
		}
	}
}

// runLengths returns the mean number of bursts between two turnarounds of the data bus.
func runLengths(records []check.Record) float64 {
	runs, bursts := 1, 0
	last := dram.RD
	for _, r := range columnOrder(records) {
		bursts++
		if r.Command.IsWrite() != last.IsWrite() {
			runs++
		}
		last = r.Command
	}
	return float64(bursts) / float64(runs)
}

// mixedRandom returns n random requests, two thirds of them reads, all offered at clock 0.
func mixedRandom(n int) []Request {
	requests := randomReads(n)
	for i := range requests {
		requests[i].Write = i%3 == 0
	}
	return requests
}

// TestBatchMovesRuns: on random traffic the bus turns around at most once in 20 bursts; with FR-FCFS after every third.
func TestBatchMovesRuns(t *testing.T) {
	for policy, want := range map[string][2]float64{"default": {20, 300}, "fr-fcfs": {1, 5}} {
		_, records := replayLog(t, setup(t, policy), mixedRandom(9000))
		if got := runLengths(records); got < want[0] || got > want[1] {
			t.Errorf("%s: %.1f bursts a run, want %v", policy, got, want)
		}
	}
}

// TestBatchWaitsForTheRun: if four banks of the run's direction are open, the bus waits up to tCCD_L for the next of their requests even
// though a read of another rank is ready. With fewer open banks, it waits until fewer than eight of their requests are left.
func TestBatchWaitsForTheRun(t *testing.T) {
	for open, left := range map[int]int{1: runHits - 1, 3: runHits - 1, 4: runBanks - 1} {
		s := setup(t, "default")
		s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0 // writes leave the buffer at once
		var requests []Request
		for i := range uint64(28) { // one bank group: hits of all banks are tCCD_L apart
			requests = append(requests, Request{Address: i%uint64(open)*nextBank + i/uint64(open)*nextColumn, Write: true})
		}
		requests = append(requests, Request{Clock: 80, Address: nextRank})
		_, records := replayLog(t, s, requests)
		order := columnOrder(records)
		at := slices.IndexFunc(order, func(r check.Record) bool { return r.Command == dram.RD })
		if got := len(order) - 1 - at; got != left {
			t.Errorf("%d banks open: %d writes follow the read, want %d", open, got, left)
		}
	}
}

// TestBatchEndsARun: in an endless stream of reads, a write gets the bus when the run has lasted for the age bound and the write has waited
// longer than the next read.
func TestBatchEndsARun(t *testing.T) {
	s := setup(t, "default")
	s.Policy.DrainHigh, s.Policy.DrainLow, s.Policy.AgeBound = 1, 0, 1000
	var requests []Request
	for i := range uint64(2000) {
		requests = append(requests, Request{Clock: int64(4 * i), Address: i%4*nextGroup + i/4%128*nextColumn + i/512*nextBank})
		if i == 50 {
			requests = append(requests, Request{Clock: 200, Address: nextRank, Write: true})
		}
	}
	_, records := replayLog(t, s, requests)
	for _, r := range records {
		if r.Command == dram.WR && (r.Clock < 1000 || r.Clock > 1400) {
			t.Errorf("the write issues at clock %d, want it between 1,000 and 1,400", r.Clock)
		}
	}
}

// TestBatchKeepsTheRank: simultaneous reads of two ranks are served rank by rank.
func TestBatchKeepsTheRank(t *testing.T) {
	var requests []Request
	for i := range uint64(16) {
		requests = append(requests, Request{Address: i%2*nextRank + i/2%4*nextGroup + i/8*nextColumn})
	}
	_, records := replayLog(t, setup(t, "default"), requests)
	switches, order := 0, columnOrder(records)
	for i := range order[1:] {
		if order[i].Address.Rank != order[i+1].Address.Rank {
			switches++
		}
	}
	if switches > 4 {
		t.Errorf("%d rank switches over %d reads: %v", switches, len(order), order)
	}
}

// TestClosedBankRow: a closed bank first opens the row of the run's direction, or that of its oldest request if another request needs that
// row, too.
func TestClosedBankRow(t *testing.T) {
	for _, mate := range []bool{false, true} {
		s := setup(t, "default")
		s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0
		requests := []Request{{}, {Clock: 30, Address: nextRow, Write: true}}
		if mate {
			requests = append(requests, Request{Clock: 31, Address: nextRow + nextColumn, Write: true})
		}
		// Row 0 closes tRAS after its ACT at 2; by then a read of row 2 has come.
		requests = append(requests, Request{Clock: 40, Address: 2 * nextRow})
		_, records := replayLog(t, s, requests)
		var rows []int32
		for _, r := range records {
			if r.Command == dram.ACT {
				rows = append(rows, r.Address.Row)
			}
		}
		want := []int32{0, 2, 1}
		if mate {
			want = []int32{0, 1, 2}
		}
		if !slices.Equal(rows, want) {
			t.Errorf("another request for the row %v: rows %v, want %v", mate, rows, want)
		}
	}
}

// TestRoundRobinTakesTurns: if two banks are ready at the same clock, the next one after the bank served last goes first.
func TestRoundRobinTakesTurns(t *testing.T) {
	var requests []Request
	for i := range uint64(8) { // one bank group: tCCD_L delays both alike
		requests = append(requests, Request{Address: i%2*nextBank + i/2*nextColumn})
	}
	_, records := replayLog(t, setup(t, "dramsim3"), requests)
	var banks []int32
	for _, r := range columnOrder(records) {
		banks = append(banks, r.Address.Bank)
	}
	if !slices.Equal(banks[1:], []int32{1, 0, 1, 0, 1, 0, 1}) {
		t.Errorf("banks in the order %v, want them by turns", banks)
	}
}

// TestRowHitLimit: after the limit of accesses to an open row, the bank's oldest request closes it; under round robin, hits that are ready
// continue.
func TestRowHitLimit(t *testing.T) {
	for _, c := range []struct {
		scheduler string
		limit     int
		want      int // accesses to row 0 before the first PRE
	}{{"fr-fcfs", 3, 3}, {"fr-fcfs", 5, 5}, {"fr-fcfs", 100, 7}, {"round-robin", 3, 7}} {
		s := setup(t, "default")
		s.Policy.Scheduler, s.Policy.RowHitLimit = c.scheduler, c.limit
		requests := []Request{{}, {Address: nextRow}}
		for i := range uint64(6) {
			requests = append(requests, Request{Address: (i + 1) * nextColumn})
		}
		_, records := replayLog(t, s, requests)
		got := slices.IndexFunc(records, func(r check.Record) bool { return r.Command == dram.PRE }) - 1 // the ACT
		if got != c.want {
			t.Errorf("%s, limit %d: %d accesses before the row closes, want %d", c.scheduler, c.limit, got, c.want)
		}
	}
}

// TestOrderOfCommands: of commands that are ready at one clock, an ACT goes before a lone column access, and that before a PRE.
func TestOrderOfCommands(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests []Request
		want     []string
	}{
		// The second request is in its bank's queue when the first may be read.
		{"ACT", []Request{{}, {Clock: 22, Address: nextGroup}}, []string{"2 ACT", "24 ACT", "25 RD", "46 RD"}},
		// The same with a read and a write as the bank's lone accesses.
		{"ACT, read and write", []Request{{}, {Clock: 5, Address: nextColumn, Write: true}, {Clock: 22, Address: nextGroup}},
			[]string{"2 ACT", "24 ACT", "25 RD", "37 WR", "61 RD"}},
		// Reads at 62 and 66 allow a PRE of the first bank (tRTP) and a read of the second
		// (tCCD_L) at 74.
		{"PRE", []Request{{}, {Address: nextGroup}, {Clock: 60, Address: nextColumn}, {Clock: 64, Address: nextGroup + nextColumn},
			{Clock: 65, Address: nextRow}, {Clock: 66, Address: nextGroup + 2*nextColumn}},
			[]string{"2 ACT", "6 ACT", "24 RD", "28 RD", "62 RD", "66 RD", "74 RD", "75 PRE", "97 ACT", "119 RD"}},
	} {
		s := setup(t, "default")
		s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0 // writes leave the buffer at once
		_, records := replayLog(t, s, c.requests)
		var got []string
		for _, r := range records {
			got = append(got, recordText(r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAgeBound: while all banks of the rank want activations and reads, an old request's bank closes soon after the bound. Its row opens
// tRP and at most one tFAW window later, and is read tRCD later, delayed by a burst or two.
func TestAgeBound(t *testing.T) {
	s := setup(t, "default")
	s.Ranks = 1
	s.Policy.RowHitLimit, s.Policy.AgeBound = 1<<30, 1000
	rng := rand.New(rand.NewPCG(3, 4))
	var requests []Request
	for i := range uint64(3000) {
		clock := int64(2 * i)
		switch {
		case i == 60:
			requests = append(requests, Request{Clock: clock, Address: 7 * nextRow / 4})
		case i%4 == 0:
			requests = append(requests, Request{Clock: clock, Address: i / 4 % 128 * nextColumn})
		default: // any row of another bank
			address := rng.Uint64N(4)*nextGroup + rng.Uint64N(4)*nextBank + rng.Uint64N(100)*nextRow/4
			if address&(nextRow/4-1) >= nextGroup {
				requests = append(requests, Request{Clock: clock, Address: address})
			}
		}
	}
	_, records := replayLog(t, s, requests)
	var clocks []int64 // of PRE, ACT and RD
	for _, r := range records {
		if r.Address.BankGroup != 0 || r.Address.Bank != 0 {
			continue
		}
		switch {
		case r.Command == dram.PRE && len(clocks) == 0, r.Command == dram.ACT && r.Address.Row == 7, r.Command == dram.RD && r.Address.Row == 7:
			clocks = append(clocks, r.Clock)
		}
	}
	const old = 120 + 1000 // its clock, and the bound
	if len(clocks) != 3 || clocks[0] < old || clocks[0] > old+50 || clocks[1] > clocks[0]+22+34 || clocks[2] > clocks[1]+22+8 {
		t.Errorf("PRE, ACT and RD of the old request at %v", clocks)
	}
}

// TestOldRequestsOfTwoBanks: two banks have endless row hits, and each a request for another row. Neither waits longer than the bound and
// the service of the other.
func TestOldRequestsOfTwoBanks(t *testing.T) {
	s := setup(t, "default")
	s.Policy.RowHitLimit, s.Policy.AgeBound = 1<<30, 1000
	banks := []uint64{0, nextGroup}
	var requests []Request
	for i := range uint64(1500) {
		requests = append(requests, Request{Clock: int64(3 * i), Address: banks[i%2] + i/2%128*nextColumn})
		if i == 20 || i == 21 {
			requests = append(requests, Request{Clock: int64(3 * i), Address: banks[i%2] + 7*nextRow})
		}
	}
	stats, records := replayLog(t, s, requests)
	if limit := int64(1000 + 2*(22+22+26) + 100); stats.Latency.Max() > limit {
		t.Errorf("a read waits %d clocks, bound %d", stats.Latency.Max(), limit)
	}
	for _, r := range records {
		if r.Command == dram.PRE && r.Clock < 60+1000 {
			t.Errorf("a row closes at clock %d, before a request is older than the bound", r.Clock)
			break
		}
	}
}

// TestRefreshOfAnOldRequest: an old request whose rank has to refresh does not delay reads of other ranks.
func TestRefreshOfAnOldRequest(t *testing.T) {
	s := setup(t, "default")
	s.Ranks = 2
	s.Policy.RowHitLimit, s.Policy.AgeBound = 1<<30, 1000
	s.Policy.ReadQueue, s.Policy.BankQueue = 4096, 64 // the refreshing rank's reads block no other's
	const limit = 24 + 22 + 16                        // between two requests, from ACT to read, and a few reads
	for from := int64(5050); from < 5250; from += 2 {
		requests := []Request{{Clock: from, Address: 7 * nextRow / 2}}
		for i := range uint64(900) { // more hits of one bank than the bus can serve, and some reads of the other rank
			requests = append(requests, Request{Clock: int64(8 * i), Address: i % 128 * nextColumn})
			if i%3 == 0 {
				requests = append(requests, Request{Clock: int64(8 * i), Address: nextRank + i/3%2*nextGroup + i/6%128*nextColumn})
			}
		}
		slices.SortStableFunc(requests, func(a, b Request) int { return int(a.Clock - b.Clock) })
		_, records := replayLog(t, s, requests)
		last := int64(0)
		for _, r := range records {
			if r.Command == dram.RD && r.Address.Rank == 1 {
				if last > 6000 && last < 6300 && r.Clock-last > limit {
					t.Errorf("asked for at %d: rank 1 reads nothing from %d to %d", from, last, r.Clock)
				}
				last = r.Clock
			}
		}
	}
}

// TestOld: a request is old if its age exceeds the bound, not if it equals it.
func TestOld(t *testing.T) {
	c := &controller{sched: sched{limits: limits{ageBound: 1000}}}
	for now, want := range map[int64]bool{8: false, 7 + 1000: false, 8 + 1000: true} {
		if c.sched.now = now; c.sched.old(&entry{accepted: 7}) != want {
			t.Errorf("age %d of 1,000: old is %v", now-7, !want)
		}
	}
}
