package controller

import (
	"context"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"pgregory.net/rapid"
)

// TestSkippingIdlePeriodsIsExact compares runs with and without skipping of idle periods.
func TestSkippingIdlePeriodsIsExact(t *testing.T) {
	check := func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		s.Ranks = rapid.IntRange(1, 4).Draw(t, "ranks")
		s.Policy.RefreshPostpone = rapid.SampledFrom([]int{0, 0, 1, 8}).Draw(t, "postpone")
		s.Policy.RefreshPullIn = rapid.SampledFrom([]int{0, 0, 1, 8}).Draw(t, "pull in")
		s.Policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		drawPower(t, s)
		drawECC(t, s.Spec)
		requests := make([]Request, rapid.IntRange(1, 12).Draw(t, "requests"))
		clock := int64(0)
		for i := range requests {
			clock += rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 2_000_000)).Draw(t, "gap")
			requests[i] = Request{Clock: clock, Address: rapid.Uint64Range(0, 1<<33).Draw(t, "address"), Write: rapid.Bool().Draw(t, "write")}
		}
		skipsExactly(t, s, requests)
	}
	rapid.Check(t, check)
	deep.Seeds(t, 20, check)
}

// TestSkippingBegins: a skip may begin anywhere in a tREFI in which a rank leaves power-down for its REF and returns.
func TestSkippingBegins(t *testing.T) {
	deep.Heavy(t)
	s := powered(setup(t, "default"), 10, never)
	s.Ranks = 1
	for clock := int64(4*12480 - 20); clock < 4*12480+620; clock++ {
		skipsExactly(t, s, []Request{{Clock: clock}})
	}
}

// TestSkippingBesideSleep: the refreshes of one rank are skipped while another is in self-refresh and has none due.
func TestSkippingBesideSleep(t *testing.T) {
	s := powered(setup(t, "default"), 10, 1_000_000)
	s.Ranks = 2
	other := uint64(nextRank)
	skipsExactly(t, s, []Request{{}, {Clock: 600_000, Address: other}, {Clock: 1_500_000}, {Clock: 2_100_000, Address: other}, {Clock: 2_400_000}})
}

// skipsExactly compares a run that skips idle periods with one that does not.
func skipsExactly(t helper, s *Setup, requests []Request) {
	m, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	runs := make([]*Stats, 2)
	for i, skip := range []bool{false, true} {
		c := newController(s.Spec, s.Policy, m, s.Ranks, nil)
		c.skipIdle = skip
		if runs[i], err = c.run(context.Background(), requests); err != nil {
			t.Fatal(err)
		}
	}
	a, b := runs[0], runs[1]
	if a.commands != b.commands || a.EndClock != b.EndClock || a.Energy != b.Energy || a.RowHits != b.RowHits || !slices.Equal(a.Ranks, b.Ranks) ||
		!slices.Equal(a.Latency.clocks, b.Latency.clocks) {
		t.Fatal("every clock and skipping:", a.EndClock, b.EndClock, a.commands, b.commands, a.Ranks, b.Ranks, a.Energy, b.Energy)
	}
}

// TestFarRequest: the run time of a request does not depend on how late it comes.
func TestFarRequest(t *testing.T) {
	s, err := setup(t, "default").Replay(context.Background(), []Request{{}, {Clock: dram.MaxClock}}, nil)
	if err != nil || s.EndClock != dram.MaxClock+50 && s.EndClock < dram.MaxClock {
		t.Errorf("end %d, %v", s.EndClock, err)
	}
}
