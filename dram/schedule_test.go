package dram

import (
	"slices"
	"testing"
)

// columnOrder returns the column accesses of a log as bank and command.
func columnOrder(records []Record) (order []Record) {
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
		case served == 0 && r.Command == RD && r.Address.Row == 7:
			served = r.Clock
		case served > 0 && next == 0 && r.Command == PRE:
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
