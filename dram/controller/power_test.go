package controller

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"pgregory.net/rapid"
)

// powered returns the set-up with power-down and self-refresh after the given idle clocks.
func powered(s *Setup, down, sleep int) *Setup {
	s.Policy.PowerDown, s.Policy.PowerDownAfter, s.Policy.SelfRefreshAfter = "timeout", down, sleep
	return s
}

// drawPower draws the idle clocks before power-down and self-refresh.
func drawPower(t *rapid.T, s *Setup) {
	if rapid.Bool().Draw(t, "power-down") {
		after := []int{never, 0, 10, 500, 5000, 20_000, 200_000}
		powered(s, rapid.SampledFrom(after).Draw(t, "power-down after"), rapid.SampledFrom(after).Draw(t, "self-refresh after"))
	}
}

// TestPowerLog compares commands and clocks with timing diagrams of DDR4-3200: tXP = 10, tXS = 576, tXSDLL = 1024.
func TestPowerLog(t *testing.T) {
	far := []Request{{}, {Clock: 20_000}}
	for _, c := range []struct {
		name        string
		down, sleep int
		requests    []Request
		want        string
		standby     dram.StandbyClocks
	}{
		{"active, then precharged power-down", 64, never, far,
			"2 ACT, 24 RD, 88 PDE, 12480 PDX, 12490 PREA, 12512 REF, 13072 PDE, 20002 PDX, 20012 ACT, 20034 RD",
			dram.StandbyClocks{86 + 10 + 48, 2 + 582 + 10, 12480 - 88, 20002 - 13072, 0}},
		{"nothing under way", 0, never, []Request{{}, {Clock: 300}}, "0 PDE, 8 PDX, 18 ACT, 40 RD, 92 PDE, 302 PDX, 312 RD",
			dram.StandbyClocks{74 + 36, 10, 302 - 92, 8, 0}},
		{"self-refresh before power-down", 0, 20, []Request{{}, {Clock: 300}}, "0 PDE, 8 PDX, 18 ACT, 40 RD, 70 PREA, 92 SRE, 302 SRX, 878 ACT, 1326 RD",
			dram.StandbyClocks{52 + 474, 10 + 22 + 576, 0, 8, 302 - 92}},
		{"a REF goes before what comes later", 64, never, []Request{{}, {Clock: 12_479}},
			"2 ACT, 24 RD, 88 PDE, 12480 PDX, 12490 PREA, 12512 REF, 13072 ACT, 13094 RD", dram.StandbyClocks{86 + 10 + 48, 2 + 582, 12480 - 88, 0, 0}},
		{"self-refresh from power-down", 64, 15_000, far,
			"2 ACT, 24 RD, 88 PDE, 12480 PDX, 12490 PREA, 12512 REF, 13072 PDE, 15024 PDX, 15034 SRE, 20002 SRX, 20578 ACT, 21026 RD",
			dram.StandbyClocks{86 + 10 + 474, 2 + 582 + 10 + 576, 12480 - 88, 15024 - 13072, 20002 - 15034}},
		{"self-refresh alone", never, 1000, []Request{{}, {Clock: 5000}, {Clock: 20_000}},
			// A REF has to come before the second read.
			"2 ACT, 24 RD, 1024 PREA, 1046 SRE, 5002 SRX, 5578 ACT, 6026 RD, 7026 PREA, 7048 REF, 7608 SRE, 20002 SRX, 20578 ACT, 21026 RD",
			dram.StandbyClocks{1022 + 1448 + 474, 2 + 22 + 576 + 582 + 576, 0, 0, 3956 + 12394}},
	} {
		s := powered(setup(t, "default"), c.down, c.sleep)
		s.Ranks = 1
		stats, records := replayLog(t, s, c.requests)
		var got []string
		for _, r := range records {
			got = append(got, recordText(r))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
		if stats.Ranks[0].Standby != c.standby {
			t.Errorf("%s: clocks %v, want %v", c.name, stats.Ranks[0].Standby, c.standby)
		}
		downs, sleeps := int64(strings.Count(c.want, "PDE")), int64(strings.Count(c.want, "SRE"))
		if r := stats.Ranks[0]; r.PowerDowns != downs || r.SelfRefreshes != sleeps {
			t.Errorf("%s: %d power-downs, %d self-refreshes", c.name, r.PowerDowns, r.SelfRefreshes)
		}
	}
}

// TestWakingUp: on every standard, a read to a rank in power-down or self-refresh takes the latency of a closed row plus the table's exit
// time, to the step.
func TestWakingUp(t *testing.T) {
	for _, standard := range dram.Standards() {
		for _, name := range []string{standard.PartNames()[0], standard.PartNames()[len(standard.PartNames())-1]} {
			spec := part(t, name)
			latency := func(down, sleep int) int64 {
				s := powered(setup(t, "default"), down, sleep)
				s.Spec, s.Ranks = spec, standard.PseudoChannels
				stats, _ := replayLog(t, s, []Request{{Clock: int64(spec.TREFI / 4)}})
				return stats.Latency.Max()
			}
			closed := latency(never, never)
			for exit, got := range map[dram.Command]int64{dram.PDX: latency(10, never), dram.SRX: latency(never, 10)} {
				first, _ := closedRead(spec, nil)
				later, _ := closedRead(spec, &exit)
				want := closed + (later-first+spec.BusSteps(1)-1)/spec.BusSteps(1)
				if got != want || want <= closed {
					t.Errorf("%s after %v: %d clocks, want %d; a closed row takes %d", name, exit, got, want, closed)
				}
			}
		}
	}
}

// closedRead returns the steps from the first command, or from the exit before it, to a read of a closed row.
func closedRead(spec *dram.Spec, exit *dram.Command) (read, act int64) {
	q := dram.NewSequence(spec, spec.Rules().PseudoChannels)
	bank, from := dram.Address{Column: -1}, int64(1)<<20
	start := from
	if exit != nil {
		start = q.Issue(*exit, dram.Address{BankGroup: -1, Bank: -1, Row: -1, Column: -1}, from)
	}
	act = q.Issue(dram.ACT, bank, start)
	bank.Column = 0
	return q.Issue(dram.RD, bank, act) - start, act - start
}

// TestIdleSecond: a rank that is idle for a second draws IDD6 in self-refresh, without REFs. In power-down it wakes for one REF each tREFI,
// for tXP and tRFC.
func TestIdleSecond(t *testing.T) {
	for _, name := range []string{ddr43200, "ddr4-2400-16gb-x4", "ddr5-4800-16gb-x8", "hbm2-2000-8gb-4h", "gddr6-16000-8gb-x16", "lpddr4-2400-8gb-x16"} {
		spec := part(t, name)
		second := int64(1e12 / float64(spec.TCK))
		run := func(down, sleep int) *Stats {
			s := powered(setup(t, "default"), down, sleep)
			s.Spec, s.Ranks = spec, spec.Rules().PseudoChannels
			stats, err := s.Replay(t.Context(), []Request{{Clock: second}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return stats
		}
		watts := func(mA float64) float64 {
			return mA * 1e-3 * spec.Power.VDD * float64(spec.Chips()*spec.Rules().PseudoChannels)
		}
		asleep, down := run(never, 1000), run(64, never)
		if got, want := asleep.Energy.TotalJoules(), watts(spec.Power.IDD6); math.Abs(got/want-1) > 1e-4 {
			t.Errorf("%s: %v J in self-refresh, want %v J", name, got, want)
		}
		if refs := asleep.Count(dram.REF); refs != 0 {
			t.Errorf("%s: %d REFs in self-refresh", name, refs)
		}
		if refs, want := down.Count(dram.REF), second/int64(spec.TREFI)*int64(spec.Rules().PseudoChannels); refs < want || refs > want+int64(spec.Rules().PseudoChannels) {
			t.Errorf("%s: %d REFs in a second, want %d", name, refs, want)
		}
		if downs := down.Ranks[0].PowerDowns; downs != second/int64(spec.TREFI)+1 && downs != second/int64(spec.TREFI)+2 {
			t.Errorf("%s: %d power-downs", name, downs)
		}
		exit, _ := spec.Timing("tXP")
		p, awake := spec.Power, float64(exit+spec.TRFC)/float64(spec.TREFI)
		want := watts(p.IDD2P + (p.IDD2N-p.IDD2P)*awake + (p.IDD5B-p.IDD2N)*float64(spec.TRFC)/float64(spec.TREFI))
		if got := down.Energy.TotalJoules(); math.Abs(got/want-1) > 2e-4 {
			t.Errorf("%s: %v J in power-down, want %v J", name, got, want)
		}
	}
}

// TestOtherRanksGoOn: three ranks in self-refresh, or waking for each REF, do not delay the fourth.
func TestOtherRanksGoOn(t *testing.T) {
	requests := streamReads(20_000)
	for i, r := range requests {
		requests[i].Address = r.Address&(nextRank-1) | r.Address/nextRank*nextRow
	}
	off := run(t, requests)
	for _, sleep := range []int{never, 5000} {
		on, err := powered(setup(t, "default"), 64, sleep).Replay(t.Context(), requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := on.EndClock - off.EndClock; d < -30 || d > 30 || on.Ranks[0].PowerDowns > 0 || on.Ranks[3].PowerDowns == 0 ||
			sleep < never && on.Ranks[3].Standby[dram.SelfRefresh] < on.EndClock-int64(sleep)-1000 {
			t.Errorf("end %d, without power-down %d; ranks %+v", on.EndClock, off.EndClock, on.Ranks)
		}
	}
}

// TestOneRefreshAfterSleep: a rank that stays awake after self-refresh gets only the REF that becomes due.
func TestOneRefreshAfterSleep(t *testing.T) {
	requests := []Request{{}}
	for clock := int64(5000); clock < 20_000; clock += 400 {
		requests = append(requests, Request{Clock: clock, Address: uint64(clock) * nextRow})
	}
	s := powered(setup(t, "default"), never, 1000)
	s.Ranks = 1
	if stats, records := replayLog(t, s, requests); stats.Count(dram.REF) != 1 || stats.Count(dram.SRE) != 1 {
		t.Errorf("%d REFs, %d self-refreshes: %v", stats.Count(dram.REF), stats.Count(dram.SRE), records)
	}
}

// TestRanksOfPseudoChannel: the ranks of an HBM pseudo-channel enter and leave power-down together.
func TestRanksOfPseudoChannel(t *testing.T) {
	for _, name := range []string{"hbm3-6400-16gb-8h", "hbm2-2000-8gb-4h"} {
		s := powered(setup(t, "default"), 64, 20_000)
		s.Spec, s.Ranks = part(t, name), 4
		requests := sparseReads(40)
		for i := range requests {
			requests[i].Clock /= int64(1 + i%7)
		}
		slices.SortFunc(requests, func(a, b Request) int { return int(a.Clock - b.Clock) })
		stats, records := replayLog(t, s, requests)
		if found := checkRecords(s.Spec, s.Ranks, records); len(found) > 0 {
			t.Fatalf("%s: %+v", name, found[0])
		}
		for i := 0; i < 4; i += 2 {
			a, b := stats.Ranks[i], stats.Ranks[i+1]
			if a.PowerDowns == 0 || a.PowerDowns != b.PowerDowns || a.SelfRefreshes != b.SelfRefreshes || a.Standby[dram.SelfRefresh] != b.Standby[dram.SelfRefresh] {
				t.Errorf("%s: ranks %+v and %+v", name, a, b)
			}
		}
		if n := stats.Ranks[0].PowerDowns + stats.Ranks[2].PowerDowns; n != stats.Count(dram.PDE) {
			t.Errorf("%s: %d power-downs of two pseudo-channels, %d PDE", name, n, stats.Count(dram.PDE))
		}
	}
}

// TestNoPowerDown: for a standard without the commands, power-down is an error that says so.
func TestNoPowerDown(t *testing.T) {
	text, err := os.ReadFile("../standards/ddr4.toml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "PDE ") && !strings.Contains(line, "PDX ") {
			rows = append(rows, line)
		}
	}
	standard, err := dram.ReadStandard("own.toml", strings.NewReader(strings.Join(rows, "")))
	if err != nil {
		t.Fatal(err)
	}
	s := powered(setup(t, "default"), 64, never)
	if s.Spec, err = standard.Part(ddr43200); err != nil {
		t.Fatal(err)
	}
	var in *input.Error
	if err := s.Validate(); !errors.As(err, &in) || in.Key != "power_down" || !strings.Contains(in.Expected, "off: ddr4 has no PDE") {
		t.Errorf("%v", err)
	}
}

// TestUnknownCurrents: if a part lacks a power-down current, the rank draws standby current.
func TestUnknownCurrents(t *testing.T) {
	s := powered(setup(t, "default"), 64, 50_000)
	s.Spec.Power.IDD2P, s.Spec.Power.IDD3P, s.Spec.Power.IDD6 = 0, 0, 0
	stats, err := s.Replay(t.Context(), []Request{{}, {Clock: 200_000}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var clocks dram.StandbyClocks
	for _, r := range stats.Ranks {
		for i, n := range r.Standby {
			clocks[i] += n
		}
	}
	p := s.Spec.Power
	want := 8 * p.VDD * 1e-3 * 625e-12 * (p.IDD3N*float64(clocks[dram.ActiveStandby]+clocks[dram.ActivePowerDown]) +
		p.IDD2N*float64(clocks[dram.PrechargedStandby]+clocks[dram.PrechargedPowerDown]+clocks[dram.SelfRefresh]))
	if got := stats.Energy.BackgroundJoules; math.Abs(got/want-1) > 1e-12 || clocks[dram.SelfRefresh] == 0 {
		t.Errorf("%v J, want %v J over %v", got, want, clocks)
	}
}
