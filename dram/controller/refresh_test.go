package controller

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestRefresh: refreshes are on time, postponed under load, early when idle; the checker limits the debt in every log.
func TestRefresh(t *testing.T) {
	deep.Heavy(t)
	busy := streamReads(60_000)
	idle := make([]Request, 40)
	for i := range idle {
		idle[i] = Request{Clock: int64(i) * 50_000, Address: uint64(i) * nextRow}
	}
	for _, c := range []struct {
		name              string
		requests          []Request
		postpone, pullIn  int
		smallest, largest int64 // REFs issued less REFs due
	}{
		{"busy, on time", busy, 0, 0, -1, 0},
		{"busy, postponed", busy, 8, 0, -8, -7},
		{"idle, on time", idle, 0, 0, -1, 0},
		{"idle, postponed", idle, 8, 0, -1, 0},
		{"idle, pulled in", idle, 0, 8, 7, 8},
		{"idle, both", idle, 8, 3, 2, 3},
	} {
		s := setup(t, "default")
		s.Ranks = 1
		s.Policy.RefreshPostpone, s.Policy.RefreshPullIn = c.postpone, c.pullIn
		stats, records := replayLog(t, s, c.requests)
		if found := checkRecords(s.Spec, s.Ranks, records); len(found) > 0 {
			t.Errorf("%s: %+v", c.name, found[0])
		}
		if ahead := stats.Count(dram.REF) - stats.EndClock/int64(s.Spec.TREFI); ahead < c.smallest || ahead > c.largest {
			t.Errorf("%s: %d REFs ahead of those due, want %d to %d", c.name, ahead, c.smallest, c.largest)
		}
	}
}

// TestRefreshIsStaggered: the first REF of each rank is due tREFI/4 after that of the previous rank.
func TestRefreshIsStaggered(t *testing.T) {
	_, records := replayLog(t, setup(t, "default"), []Request{{Clock: 13_000}})
	var got []int64
	for _, r := range records {
		if r.Command == dram.REF {
			got = append(got, r.Clock, int64(r.Address.Rank))
		}
	}
	if want := []int64{3120, 0, 6240, 1, 9360, 2, 12480, 3}; !slices.Equal(got, want) {
		t.Errorf("REFs (clock, rank) %v, want %v", got, want)
	}
}

// TestPostponedRefreshWaits: under load, the first REF that must not be postponed further is issued late in its tREFI: it leaves just the
// time to close all banks of all ranks before the ninth is due.
func TestPostponedRefreshWaits(t *testing.T) {
	s := setup(t, "default")
	s.Ranks, s.Policy.RefreshPostpone = 1, 8
	_, records := replayLog(t, s, streamReads(60_000))
	for _, r := range records {
		if r.Command != dram.REF {
			continue
		}
		ninth := int64(9 * s.Spec.TREFI)
		// tRC, CWL + BL/2 + tWR, one PRE for each bank, and tRP.
		margin := int64(74 + 16 + 4 + 24 + 16 + 22)
		if r.Clock >= ninth || r.Clock < ninth-margin {
			t.Errorf("the first REF issues at clock %d, want %d to %d", r.Clock, ninth-margin, ninth-1)
		}
		return
	}
	t.Error("no REF")
}

// TestIdleRefreshWaits: a rank issues early REFs only while it has had no work for tRC.
func TestIdleRefreshWaits(t *testing.T) {
	s := setup(t, "default")
	s.Ranks, s.Policy.RefreshPullIn = 1, 8
	// The rank is eight REFs ahead long before the next one is due at 12,480.
	due := int64(s.Spec.TREFI)
	stats, records := replayLog(t, s, []Request{{Clock: due - 10}, {Clock: due + 60, Address: nextColumn}})
	if stats.RowHits != 1 || stats.Latency.Max() > 60 {
		t.Errorf("the second read finds its row closed: %v", records)
	}
	stats, _ = replayLog(t, s, streamReads(20_000))
	if ahead := stats.Count(dram.REF) - stats.EndClock/due; ahead > 0 {
		t.Errorf("a busy rank pulls %d REFs in", ahead)
	}
}

// TestIdleEnergy: four idle ranks draw precharge standby current, and for tRFC of every tREFI IDD5B.
func TestIdleEnergy(t *testing.T) {
	s := setup(t, "default")
	stats, _ := replayLog(t, s, []Request{{Clock: 100 * 12480}})
	seconds := float64(stats.EndClock) * 625e-12
	watts := stats.Energy.TotalJoules() / seconds
	want := 4 * 8 * 1.2 * 1e-3 * (37 + (250-37)*560/12480.)
	if math.Abs(watts/want-1) > 0.005 {
		t.Errorf("%v W, want %v W", watts, want)
	}
}

// TestIdleBankWaits: a bank gets early refreshes only after tRC without work: even if one would fit between two reads of a row, the second
// read finds the row open.
func TestIdleBankWaits(t *testing.T) {
	for _, bank := range []int{0, 1, 5} {
		s := setup(t, "default")
		s.Spec, s.Ranks = part(t, "lpddr5x-6400-16gb-x16"), 1
		s.Policy.Refresh, s.Policy.RefreshPullIn, s.Policy.Mapping = "bank", 2, "rorachbgbaco"
		s.RequestBytes = OneBurst
		units := s.Spec.Banks() / 2 // pairs; all are two ahead when the next is due
		due := int64(s.Spec.TREFI + s.Spec.TREFI/units*(bank+1))
		at := uint64(bank * s.Spec.RowBursts() * s.Spec.BurstBytes())
		opened := due - int64(s.Spec.TRAS+s.Spec.TRP)
		stats, records := replayLog(t, s, []Request{{Clock: opened, Address: at}, {Clock: due + 2, Address: at + uint64(s.Spec.BurstBytes())}})
		if stats.RowHits != 1 {
			t.Errorf("bank %d: the second read finds its row closed: %v", bank, records[len(records)-8:])
		}
	}
}

// TestPostponedRefreshesOfBanks: a bank may owe one refresh less than the standard allows its rank.
func TestPostponedRefreshesOfBanks(t *testing.T) {
	s := setup(t, "default")
	s.Spec, s.Policy.RefreshPostpone = part(t, "ddr5-4800-16gb-x8"), 4
	for refresh, want := range map[string]bool{"all": true, "bank": false} {
		s.Policy.Refresh = refresh
		if err := input.Validate(s); (err == nil) != want {
			t.Errorf("%s: %v", refresh, err)
		}
	}
}

// outOfRound returns the first bank refresh to a bank that already has more of them than another bank of its rank, or nil.
func outOfRound(spec *dram.Spec, ranks int, records []check.Record) *check.Record {
	counts := make([][]int, ranks)
	for i := range counts {
		counts[i] = make([]int, spec.Banks())
	}
	for _, r := range records {
		if r.Command != dram.REFsb && r.Command != dram.REFpb {
			continue
		}
		of := counts[r.Address.Rank]
		least := slices.Min(of)
		first, stride, end := spec.Spanned(r.Command, r.Address)
		for bank := first; bank < end; bank += stride {
			if of[bank] > least {
				return &r
			}
			of[bank]++
		}
	}
	return nil
}

// TestRefreshOfBanksTakesIdleOnes: the refresh of a busy bank is the first to be due. If it may be postponed it comes last in its round,
// otherwise first.
func TestRefreshOfBanksTakesIdleOnes(t *testing.T) {
	for _, name := range []string{"ddr5-4800-16gb-x8", "lpddr5x-6400-16gb-x16", "hbm3-6400-16gb-8h"} {
		for _, postpone := range []int{0, 2} {
			s := setup(t, "default")
			s.Spec, s.Ranks, s.RequestBytes = part(t, name), 2, OneBurst
			s.Policy.Refresh, s.Policy.RefreshPostpone, s.Policy.Mapping = "bank", postpone, "rochrababgco"
			var requests []Request
			for i := range int64(12_000) { // more hits of bank 0 than the bus can serve
				requests = append(requests, Request{Clock: 2 * i, Address: uint64(i%32) * uint64(s.Spec.BurstBytes())})
			}
			_, records := replayLog(t, s, requests)
			if r := outOfRound(s.Spec, s.Ranks, records); r != nil {
				t.Errorf("%s: %+v: another bank of the rank has had a refresh less", name, *r)
			}
			at, n := -1, 0
			for _, r := range records {
				if r.Address.Rank != 0 || r.Command != dram.REFsb && r.Command != dram.REFpb {
					continue
				}
				if first, _, _ := s.Spec.Spanned(r.Command, r.Address); first == 0 && at < 0 {
					at = n
				}
				n++
			}
			units := s.Spec.Banks() / map[bool]int{true: s.Spec.BankGroups, false: 1}[s.Spec.Standard == "ddr5"]
			if s.Spec.Standard == "lpddr5x" {
				units /= 2 // pairs
			}
			if want := map[bool]int{true: 0, false: units - 1}[postpone == 0]; at != want || n < units {
				t.Errorf("%s, %d postponed: the busy bank's refresh is number %d of %d, want %d", name, postpone, at, n, want)
			}
		}
	}
}

// TestRefreshOfBanksGains measures the gain from per-bank refresh, and from refreshing banks without requests first, on random traffic: the
// end if all requests come at once, and the slowest hundredth of reads at three quarters of that bandwidth. Results are means of three
// draws, since the order in a single one may be chance. Each request is one burst. It writes the table.
func TestRefreshOfBanksGains(t *testing.T) {
	deep.Only(t)
	var table strings.Builder
	for _, p := range []struct {
		part  string
		ranks int
	}{{"ddr5-4800-16gb-x8", 1}, {"ddr5-4800-16gb-x8", 2}, {"lpddr5x-6400-16gb-x16", 1}, {"hbm3-6400-16gb-8h", 4}} {
		s := setup(t, "default")
		s.Spec, s.Ranks, s.RequestBytes, s.Policy.Mapping = part(t, p.part), p.ranks, OneBurst, "rochrababgco"
		fmt.Fprintf(&table, "| %s | %d |", p.part, p.ranks)
		var ends, slow [3]int64
		for i, policy := range []Policy{{Refresh: "all"}, {Refresh: "bank"}, {Refresh: "bank", RefreshPostpone: 3}} {
			s.Policy.Refresh, s.Policy.RefreshPostpone = policy.Refresh, policy.RefreshPostpone
			run := func(draw uint64, gap float64) *Stats {
				rng := rand.New(rand.NewPCG(20+draw, 21))
				requests := make([]Request, 10_000)
				for i := range requests {
					requests[i] = Request{Clock: int64(float64(i) * gap), Address: rng.Uint64N(uint64(s.Spec.RankBytes())*uint64(p.ranks)) &^ 63, Write: rng.IntN(3) == 0}
				}
				stats, err := s.Replay(t.Context(), requests, nil)
				if err != nil {
					t.Fatal(err)
				}
				return stats
			}
			const draws = 3
			for draw := range uint64(draws) {
				ends[i] += run(draw, 0).EndClock
			}
			ends[i] /= draws
			for draw := range uint64(draws) {
				slow[i] += run(draw, float64(ends[0])/7500).ArrivalLatency.Percentile(99)
			}
			slow[i] /= draws
		}
		fmt.Fprintf(&table, " %d | %+.1f%% | %+.1f%% | %d | %d | %d |\n", ends[0], over(ends[1], ends[0]), over(ends[2], ends[0]), slow[0], slow[1], slow[2])
		if ends[1] >= ends[0] || ends[2] >= ends[0] || slow[1] >= slow[0] || slow[2] >= slow[1] {
			t.Errorf("%s: ends %v, slow reads %v: all banks, some, idle ones first", p.part, ends, slow)
		}
	}
	writeTable(t, "table of refreshes", table.String())
}

// TestBankRefreshesFit: a tREFI in which bank refreshes leave no time for accesses is refused; with the shortest one accepted, a replay
// ends. By hand: DDR5 has 4 same-bank refreshes, 312 clocks apart (tRFCsb and one), and two accesses of 196. A pseudo-channel of HBM3 has 4
// ranks of 16 banks, tRREFD = 13 clocks apart, and accesses of 102.
func TestBankRefreshesFit(t *testing.T) {
	for _, c := range []struct {
		part         string
		ranks, least int
	}{{"ddr5-4800-16gb-x4", 1, 4*312 + 2*196}, {"hbm3-6400-16gb-4h", 8, 64*13 + 2*102}} {
		s := setup(t, "default")
		s.Spec, s.Policy.Refresh, s.Ranks = part(t, c.part), "bank", c.ranks
		s.Spec.TREFI = c.least - 1
		want := fmt.Sprintf("at least %d with refresh = bank", c.least)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("tREFI = %d", c.least-1)) {
			t.Errorf("%s: %v, want %q", c.part, err, want)
		}
		s.Spec.TREFI = c.least
		if stats, err := s.Replay(soon(t.Context()), mixedRandom(2000), nil); err != nil || stats.Requests != 2000 {
			t.Errorf("%s at tREFI = %d: %v", c.part, c.least, err)
		}
	}
}
