package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// managedHBM is HBM3 with refresh management required; the shipped table has the commands RFM and RFMpb, but no counts.
const managedHBM = `
standard = "managed"
base = "hbm3"
activations = "RAAMMT | RAAIMT"
timings = ["RAAIMT | what a refresh takes off | test", "RAAMMT | the most | test"]
values = [" | RAAIMT | 0", " | RAAMMT | 0"]
`

// managedPart returns a part that allows most activations of a bank before RFM; a refresh lowers the count by less.
func managedPart(tb helper, name string, most, less int) *dram.Spec {
	var s *dram.Spec
	if rest, ok := strings.CutPrefix(name, "managed"); ok {
		standard, err := dram.ReadStandard("managed.toml", strings.NewReader(managedHBM))
		if err != nil {
			tb.Fatal(err)
		}
		if s, err = standard.Part("managed" + rest); err != nil {
			tb.Fatal(err)
		}
	} else {
		s = part(tb, name)
	}
	for key, v := range map[string]int{"RAAMMT": most, "RAAIMT": less} {
		if err := s.Set(key, fmt.Sprint(v)); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

// TestManagement: whatever counts a device has, the checker, which counts by itself, accepts the log of random traffic, with refreshes of
// all banks and of some, postponed or early, and with ranks in self-refresh.
func TestManagement(t *testing.T) {
	often := setup(t, "default")
	often.Spec = managedPart(t, "ddr5-4800-16gb-x8", 1, 1)
	if managedTraffic(t, often, 1, 1<<24, 20) == 0 {
		t.Error("nothing is managed where each activation asks for it")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		less := rapid.IntRange(1, 12).Draw(t, "RAAIMT")
		name := rapid.SampledFrom([]string{"ddr5-4800-16gb-x8", "ddr5-5600-32gb-x4-fgr", "ddr5-4800-16gb-x16", "managed-6400-16gb-8h"}).Draw(t, "part")
		s.Spec = managedPart(t, name, less+rapid.IntRange(0, 24).Draw(t, "more"), less)
		s.Ranks = s.Spec.Rules().PseudoChannels * rapid.IntRange(1, 2).Draw(t, "ranks")
		s.Policy.Refresh = rapid.SampledFrom([]string{"all", "bank"}).Draw(t, "refresh")
		s.Policy.RefreshPostpone, s.Policy.RefreshPullIn = rapid.IntRange(0, 3).Draw(t, "postponed"), rapid.IntRange(0, 2).Draw(t, "pulled in")
		s.Policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		s.Policy.PowerDown = rapid.SampledFrom([]string{"off", "off", "timeout"}).Draw(t, "power-down")
		s.Policy.SelfRefreshAfter = 1000
		seed := rapid.Uint64().Draw(t, "seed")
		span := rapid.SampledFrom([]uint64{1 << 20, 1 << 24, uint64(s.Spec.RankBytes())}).Draw(t, "span")
		managedTraffic(t, s, seed, span, rapid.IntRange(1, 100).Draw(t, "gap"))
	})
}

// managedTraffic checks 600 requests to span bytes, at most gap clocks apart and with pauses, and returns the number of refresh-management
// commands.
func managedTraffic(t helper, s *Setup, seed, span uint64, gap int) int64 {
	if err := input.Validate(s); err != nil {
		t.Fatal(err)
	}
	rng, clock := rand.New(rand.NewPCG(seed, 1)), int64(0)
	requests := make([]Request, 600)
	for i := range requests {
		clock += rng.Int64N(int64(gap))
		if i%200 == 199 {
			clock += 10 * int64(s.Spec.TREFI)
		}
		requests[i] = Request{Clock: clock, Address: rng.Uint64N(span) &^ 63, Write: rng.IntN(3) == 0}
	}
	stats, records := replayLog(t, s, requests)
	if v := checkRecords(s.Spec, s.Ranks, records); len(v) > 0 {
		t.Fatal(len(v), "violations, the first:", v[0])
	}
	quiet, err := s.Replay(context.Background(), requests, nil) // without a log idle periods are passed at once
	if err != nil || quiet.EndClock != stats.EndClock || quiet.commands != stats.commands {
		t.Fatal("without a log:", quiet.EndClock, quiet.commands, "with one:", stats.EndClock, stats.commands, err)
	}
	return stats.Count(dram.RFM, dram.RFMsb, dram.RFMpb)
}

// TestManagementByHand: alternating rows of one bank, one activation each. The bank has most activations before the first RFM, then as many
// as each RFM lowers the count by; refreshes lower it as much.
func TestManagementByHand(t *testing.T) {
	const most, less = 12, 4
	for _, c := range []struct {
		part, plain, refresh string
		rfm                  dram.Command
	}{
		{"ddr5-4800-16gb-x8", "ddr5-4800-16gb-x8", "all", dram.RFM}, {"ddr5-4800-16gb-x8", "ddr5-4800-16gb-x8", "bank", dram.RFMsb},
		{"managed-6400-16gb-8h", "hbm3-6400-16gb-8h", "all", dram.RFM}, {"managed-6400-16gb-8h", "hbm3-6400-16gb-8h", "bank", dram.RFMpb},
	} {
		s := setup(t, "default")
		s.Spec, s.Policy.Refresh, s.RequestBytes = managedPart(t, c.part, most, less), c.refresh, OneBurst
		s.Ranks = s.Spec.Rules().PseudoChannels
		row := uint64(s.Spec.Banks()) * uint64(s.Spec.RowBytes()) * uint64(s.Ranks)
		requests := make([]Request, 400)
		for i := range requests {
			requests[i].Address = uint64(i) * row
		}
		stats, records := replayLog(t, s, requests)
		acts, refreshes := stats.Count(dram.ACT), int64(0) // of the bank
		for _, r := range records {
			if a := r.Address; r.Command == dram.REF && a.Rank == 0 || r.Command == dram.REFsb && a.Bank == 0 || r.Command == dram.REFpb && a.Rank+a.BankGroup+a.Bank == 0 {
				refreshes++
			}
		}
		if want := (acts - most - refreshes*less + less - 1) / less; acts < 400 || stats.Count(c.rfm) < want || stats.Count(c.rfm) > want+1 {
			t.Errorf("%s, %s: %d activations, %d refreshes, %d %v; want %d or one more", c.part, c.refresh, acts, refreshes, stats.Count(c.rfm), c.rfm, want)
		}
		report, line := NewReport(s, "", stats, 0), strings.Builder{}
		report.WriteLines(&line)
		issued := map[dram.Command]int64{}
		for _, r := range records {
			issued[r.Command]++
		}
		for cmd, n := range map[dram.Command]int64{dram.RFM: report.RFM, dram.RFMsb: report.RFMsb, dram.RFMpb: report.RFMpb} {
			if n != issued[cmd] || strings.Contains(line.String(), fmt.Sprintf(", %v %d", cmd, n)) != (cmd == c.rfm) {
				t.Errorf("%s, %s: %d %v reported, %d issued:\n%s", c.part, c.refresh, n, cmd, issued[cmd], line.String())
			}
		}
		// A device without the requirement gets no RFM.
		s.Spec = part(t, c.plain)
		plain, _ := replayLog(t, s, requests)
		if n := plain.Count(dram.RFM, dram.RFMsb, dram.RFMpb); n != 0 || plain.EndClock >= stats.EndClock {
			t.Errorf("%s: %d RFM that no one asks for; end %d, with RFM %d", c.plain, n, plain.EndClock, stats.EndClock)
		}
	}
}

// TestSelfRefreshTakesAllOff: after self-refresh a bank has its full number of activations again.
func TestSelfRefreshTakesAllOff(t *testing.T) {
	const most = 8
	s := setup(t, "default")
	s.Spec, s.Ranks = managedPart(t, "ddr5-4800-16gb-x8", most, 1), 1
	s.Policy.PowerDown, s.Policy.SelfRefreshAfter = "timeout", 500
	row := uint64(s.Spec.Banks()) * uint64(s.Spec.RowBytes())
	var requests []Request
	for i := range uint64(2*most - 1) { // one less than most before it
		requests = append(requests, Request{Clock: int64(i+1) / most * 8000, Address: i * row})
	}
	stats, records := replayLog(t, s, requests)
	if v := checkRecords(s.Spec, 1, records); len(v) > 0 || stats.Count(dram.SRE) != 1 || stats.Count(dram.ACT) != 2*most-1 {
		t.Fatalf("%d self-refreshes, %d activations, %+v", stats.Count(dram.SRE), stats.Count(dram.ACT), v)
	}
	if n := stats.Count(dram.RFM); n > 0 {
		t.Errorf("%d RFM around a self-refresh", n)
	}
}

// TestManagementIsRefused: counts that no command could satisfy are refused by name.
func TestManagementIsRefused(t *testing.T) {
	for _, c := range []struct {
		most, less int
		key        string
	}{{8, 0, "RAAIMT"}, {8, 9, "RAAIMT"}, {8, 8, ""}, {0, 8, ""}} {
		s := setup(t, "default")
		s.Spec = managedPart(t, "ddr5-4800-16gb-x8", c.most, c.less)
		errs := input.Faults(s)
		if len(errs) > 1 || c.key == "" && len(errs) > 0 || c.key != "" && (len(errs) == 0 || errs[0].Key != c.key) {
			t.Errorf("%+v: %v", c, errs)
		}
	}
}

// TestManagementIsPrompt: a bank that reaches the limit gets its RFM at once, not at the next refresh, which is far off here.
func TestManagementIsPrompt(t *testing.T) {
	s := setup(t, "default")
	s.Spec, s.Ranks = managedPart(t, "ddr5-4800-16gb-x8", 4, 4), 1
	var requests []Request
	for i := range uint64(12) { // all to one bank, each to another row
		requests = append(requests, Request{Address: i * uint64(s.Spec.RankBytes()) / 16})
	}
	stats, err := s.Replay(t.Context(), requests, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rfm := stats.Count(dram.RFM, dram.RFMsb); stats.EndClock >= int64(s.Spec.TREFI) || stats.Count(dram.ACT) != 12 || rfm != 2 {
		t.Errorf("%d ACT, %d RFM until clock %d, want 12 and 2 before the first refresh at %d", stats.Count(dram.ACT), rfm, stats.EndClock, s.Spec.TREFI)
	}
}

// TestTakeOffAllByHand: each of ten refreshes lowers a bank's count by three, but never below zero.
func TestTakeOffAllByHand(t *testing.T) {
	c := &controller{}
	c.management.counts, c.management.less = []int{0, 5, 30, 31, 100}, 3
	if c.takeOffAll(10); fmt.Sprint(c.management.counts) != "[0 0 0 1 70]" {
		t.Errorf("%v are left", c.management.counts)
	}
}

// TestIdlePeriodsTakeOff: a bank allows 100 activations before RFM, and a refresh lowers the count by one. Two bursts of 99 activations are
// 200 refreshes apart, which are skipped together.
func TestIdlePeriodsTakeOff(t *testing.T) {
	for pause, managed := range map[int64]bool{200: false, 0: true} {
		s := setup(t, "default")
		s.Spec, s.Ranks, s.RequestBytes = managedPart(t, "ddr5-4800-16gb-x8", 100, 1), 1, OneBurst
		row := uint64(s.Spec.Banks()) * uint64(s.Spec.RowBytes())
		var requests []Request
		for i := range int64(2 * 99) {
			requests = append(requests, Request{Clock: i / 99 * (pause*int64(s.Spec.TREFI) + 99*200), Address: uint64(i) * row})
		}
		stats, err := s.Replay(t.Context(), requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := stats.Count(dram.RFM); (n > 0) != managed || stats.Count(dram.ACT) != 2*99 {
			t.Errorf("%d refreshes between: %d activations, %d RFM", pause, stats.Count(dram.ACT), n)
		}
	}
}
