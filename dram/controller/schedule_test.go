package controller

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
)

// columnOrder returns the column accesses of a log as bank and command.
func columnOrder(records []check.Record) (order []check.Record) {
	for _, r := range records {
		if r.Command.IsRead() || r.Command.IsWrite() {
			order = append(order, r)
		}
	}
	return order
}

// TestRoundRobinKeepsABanksOrder: of a read and a write that both hit the open
// row of a bank, the one that came into its queue first goes first.
func TestRoundRobinKeepsABanksOrder(t *testing.T) {
	for _, writeFirst := range []bool{false, true} {
		s := setup(t, "dramsim3")
		s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0 // writes move on at once
		// Both come before the row is open, and may go as soon as it is.
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

// TestStarvingRequestsFollowEachOther: rows of two banks are hit all the time, and
// each has a request for another row that waits too long. The second one's turn
// comes right after the first one's column access.
func TestStarvingRequestsFollowEachOther(t *testing.T) {
	s := setup(t, "default")
	s.Policy.RowHitLimit = 1 << 30
	s.Policy.StarvationClocks = 1000
	banks := []uint64{0, nextGroup}
	var requests []Request
	for i := range uint64(1500) {
		requests = append(requests, Request{Clock: int64(3 * i), Address: banks[i%2] + i/2%128*nextColumn})
		if i == 20 || i == 21 {
			requests = append(requests, Request{Clock: int64(3 * i), Address: banks[i%2] + 7*nextRow})
		}
	}
	stats, records := replayLog(t, s, requests)
	var served, next int64
	for _, r := range records {
		switch {
		case served == 0 && r.Command == dram.RD && r.Address.Row == 7:
			served = r.Clock
		case served > 0 && next == 0 && r.Command == dram.PRE:
			next = r.Clock
		}
	}
	if served < 1000 || next != served+1 {
		t.Errorf("the first starving read issues at %d, the second one's PRE at %d, want one clock later", served, next)
	}
	if limit := int64(1000 + 2*(22+22+26) + 100); stats.Latency.Max() > limit {
		t.Errorf("a read waits %d clocks, bound %d", stats.Latency.Max(), limit)
	}
}

// TestRoundRobinTakesTurns: of two banks whose accesses are ready at the same
// clock, the one after the last one served goes.
func TestRoundRobinTakesTurns(t *testing.T) {
	var requests []Request
	for i := range uint64(8) { // one bank group: tCCD_L holds up both alike
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

// TestRowHitLimit: after so many accesses to an open row the oldest request of
// the bank closes it; under round robin hits that are ready go on.
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

// TestAgeOfStarvation: a request goes before all others once it is older than
// the policy says, and not at that age.
func TestAgeOfStarvation(t *testing.T) {
	s := setup(t, "default")
	m, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(s.Policy.StarvationClocks)
	c := newController(s.Spec, s.Policy, m, s.Ranks, nil)
	c.banks[5].entries = append(c.banks[5].entries, entry{accepted: 7})
	c.reads.entries = append(c.reads.entries, entry{accepted: 7})
	for _, clock := range []int64{8, 7 + limit, 8 + limit} {
		c.findStarving(clock)
		old := clock > 7+limit
		if (c.starving == 5) != old || !old && c.starvationCheck != 8+limit || c.starves(&c.reads, clock) != old {
			t.Errorf("age %d: bank %d starves, next looked at %d", clock-7, c.starving, c.starvationCheck)
		}
	}
}

// TestOrderOfCommands: what goes first of two commands that are ready at one
// clock: an ACT before a lone column access, that before a PRE.
func TestOrderOfCommands(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests []Request
		want     []string
	}{
		// The second request is in its bank's queue when the first may be read.
		{"ACT", []Request{{}, {Clock: 22, Address: nextGroup}}, []string{"2 ACT", "24 ACT", "25 RD", "46 RD"}},
		// The same where the bank's lone accesses are a read and a write.
		{"ACT, read and write", []Request{{}, {Clock: 5, Address: nextColumn, Write: true}, {Clock: 22, Address: nextGroup}},
			[]string{"2 ACT", "24 ACT", "25 RD", "37 WR", "61 RD"}},
		// Reads at 62 and 66 allow a PRE of the first bank (tRTP) and a read of the second
		// (tCCD_L) at 74.
		{"PRE", []Request{{}, {Address: nextGroup}, {Clock: 60, Address: nextColumn}, {Clock: 64, Address: nextGroup + nextColumn},
			{Clock: 65, Address: nextRow}, {Clock: 66, Address: nextGroup + 2*nextColumn}},
			[]string{"2 ACT", "6 ACT", "24 RD", "28 RD", "62 RD", "66 RD", "74 RD", "75 PRE", "97 ACT", "119 RD"}},
	} {
		s := setup(t, "default")
		s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0 // writes move on at once
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

// TestNothingPutsAStarvingRequestOff: while all banks of the rank want
// activations and reads, the starving request's row opens tRP after its bank
// closes and is read tRCD later.
func TestNothingPutsAStarvingRequestOff(t *testing.T) {
	s := setup(t, "default")
	s.Ranks = 1
	s.Policy.RowHitLimit, s.Policy.StarvationClocks = 1<<30, 1000
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
	var clocks []int64 // PRE, ACT and RD
	for _, r := range records {
		if r.Address.BankGroup != 0 || r.Address.Bank != 0 {
			continue
		}
		switch {
		case r.Command == dram.PRE && len(clocks) == 0, r.Command == dram.ACT && r.Address.Row == 7, r.Command == dram.RD && r.Address.Row == 7:
			clocks = append(clocks, r.Clock)
		}
	}
	if len(clocks) != 3 || clocks[0] < 1000 || clocks[1] != clocks[0]+22 || clocks[2] != clocks[1]+22 {
		t.Errorf("PRE, ACT and RD of the starving request at %v, want them 22 clocks apart after 1,000", clocks)
	}
}

// TestRefreshOfAStarvingRank: a starving request whose rank must refresh holds up no
// other rank: its reads go on.
func TestRefreshOfAStarvingRank(t *testing.T) {
	s := setup(t, "default")
	s.Ranks = 2
	s.Policy.RowHitLimit, s.Policy.StarvationClocks = 1<<30, 1000
	s.Policy.ReadQueue, s.Policy.BankQueue = 4096, 64 // the refreshing rank's reads block no other's
	const limit = 24 + 22 + 16                        // between two requests, from ACT to read, and some reads in between
	for from := int64(5050); from < 5250; from += 2 {
		requests := []Request{{Clock: from, Address: 7 * nextRow / 2}}
		for i := range uint64(900) { // more hits of one bank than the bus has time for, and some reads of the other rank
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
