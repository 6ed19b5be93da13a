package controller

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/internal/deep"
)

// otherPart returns a part of a table of testdata/other.
func otherPart(tb testing.TB, name, part string) *dram.Spec {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "other", name+".toml"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	table, err := dram.ReadStandard(f.Name(), f)
	if err != nil {
		tb.Fatal(err)
	}
	spec, err := table.Part(part)
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

// replayOther replays a trace of testdata/other, and checks the log of its first requests.
func replayOther(tb testing.TB, s *Setup, trace string) *Stats {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "other", trace+".trace.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	requests, err := ReadTrace(trace, f)
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	log := check.NewLogWriter(&b, check.LogHeader{Ranks: s.Ranks}) // a log can only name shipped standards
	if _, err := s.Replay(tb.Context(), requests[:min(2000, len(requests))], []dram.Observe{log.Write}); err != nil {
		tb.Fatal(err)
	}
	if err := log.Flush(); err != nil {
		tb.Fatal(err)
	}
	records, err := readLog(&b)
	if err != nil {
		tb.Fatal(err)
	}
	if found := checkRecords(s.Spec, s.Ranks, records); len(found) > 0 {
		tb.Errorf("%s: %+v", trace, found[0])
	}
	stats, err := s.Replay(tb.Context(), requests, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return stats
}

// otherSetup returns DRAMsim3's HBM2, GDDR6 or LPDDR4 with the default policy. DRAMsim3 treats a line of a trace as one burst.
func otherSetup(tb testing.TB, kind string) *Setup {
	tb.Helper()
	s := setup(tb, "default")
	s.Ranks, s.RequestBytes = 1, OneBurst
	switch kind {
	case "hbm2":
		s.Spec, s.Policy.Mapping = otherPart(tb, "dramsim3-hbm2", "dramsim3-hbm2-4gb"), "rorachbgbaco"
	case "gddr6":
		s.Spec, s.Policy.Mapping = otherPart(tb, "dramsim3-gddr6", "dramsim3-gddr6-8gb"), "rorachbgbaco"
	case "gddr6bg":
		s.Spec, s.Policy.Mapping = otherPart(tb, "dramsim3-gddr6", "dramsim3-gddr6-8gb-bg"), "rorachbabgco"
	case "lpddr4":
		s.Spec, s.Ranks = otherPart(tb, "dramsim3-lpddr4", "dramsim3-lpddr4-8gb"), 2
	}
	return s
}

// TestDRAMsim3OtherStandards replays DRAMsim3's HBM2, GDDR6 and LPDDR4 with the timings that it used. With its decisions a trace ends
// within 1% of its clocks; with ours it ends no later, and no read waits more than twice as long.
func TestDRAMsim3OtherStandards(t *testing.T) {
	deep.Only(t)
	var table strings.Builder
	for _, r := range readTable(t, filepath.Join("other", "dramsim3.csv")) {
		kind, _, _ := strings.Cut(r["trace"], "_")
		s := otherSetup(t, kind)
		end, _ := strconv.ParseInt(r["end_clock"], 10, 64)
		longest, _ := strconv.ParseInt(r["max_read_latency_clocks"], 10, 64)
		ours := replayOther(t, s, r["trace"])
		mapping := s.Policy.Mapping
		s.Policy, _ = LookupPolicy("dramsim3")
		s.Policy.Mapping = mapping
		theirs := replayOther(t, s, r["trace"])
		fmt.Fprintf(&table, "| %s | %d | %+.2f%% | %d | %+.2f%% | %d | %d |\n", r["trace"], end, over(theirs.EndClock, end), ours.EndClock, over(ours.EndClock, end), longest, ours.Latency.Max())
		if d := over(theirs.EndClock, end); d > 1 || d < -1 {
			t.Errorf("%s: its decisions end at %d, DRAMsim3 at %d", r["trace"], theirs.EndClock, end)
		}
		if over(ours.EndClock, end) > 1 || ours.Latency.Max() > 2*longest {
			t.Errorf("%s: ours ends at %d, DRAMsim3 at %d; longest read %d, %d", r["trace"], ours.EndClock, end, ours.Latency.Max(), longest)
		}
	}
	writeTable(t, "table of other standards", table.String())
}

// TestUnseenOtherStandards makes the same checks on generated traces, and writes their table.
func TestUnseenOtherStandards(t *testing.T) {
	deep.Heavy(t)
	var table strings.Builder
	for i, row := range readTable(t, filepath.Join("other", "dramsim3_unseen.csv")) {
		u := unseenOthers[i]
		d := dramsim3{patience: 2}.with(row)
		s := otherSetup(t, u.part)
		ours, err := s.Replay(t.Context(), u.requests(s.Spec, uint64(100+i)), nil)
		if err != nil || d.trace != u.name() {
			t.Fatal(err, d.trace, u.name())
		}
		d.judge(t, ours)
		fmt.Fprintf(&table, "| %s | %d | %d | %+.2f%% | %.2f |\n", d.trace, d.end, ours.EndClock, over(ours.EndClock, d.end), float64(ours.Latency.Max())/float64(d.longest))
	}
	writeTable(t, "table of unseen others", table.String())
}

// ramulatorSetups has part, ranks and mapping of Ramulator's micro-benchmarks.
var ramulatorSetups = map[string]struct {
	part    string
	ranks   int
	mapping string
}{
	"ddr5":    {"ddr5-4800an-16gb-x8", 1, "rochbabgraco"},
	"ddr5j":   {"ddr5-4800an-16gb-x8", 1, "rochbabgraco"},
	"hbm3":    {"hbm3-6400-16gb-8h", 4, "co=5-9 ra=11,10 bg=12,13 ba=14,15 ro=16-29"}, // SID, then pseudo-channel
	"hbm2":    {"hbm2-2000-8gb-4h", 2, "rochbabgraco"},
	"lpddr5":  {"lpddr5x-6400-16gb-x16", 1, "rochbabgraco"},
	"lpddr5w": {"lpddr5x-6400-16gb-x16", 1, "rochbabgraco"},
	"gddr6":   {"gddr6-14000-8gb-x16", 1, "rochbabgraco"},
}

// TestRamulator replays Ramulator 2.1's micro-benchmarks with its timings; their requests are one burst each. No benchmark ends 1% later
// than there.
func TestRamulator(t *testing.T) {
	deep.Only(t)
	var table strings.Builder
	for _, r := range readTable(t, "../../testdata/ramulator/results.csv") {
		set, bench := ramulatorSetups[r["standard"]], r["bench"]
		if r["bench"] == "one_read" || r["bench"] == "hit_1bank" {
			continue // of a few requests: package dram compares them to the clock
		}
		trace := strings.TrimSuffix(strings.TrimSuffix(r["standard"], "j"), "w") + "_" + bench
		if _, err := os.Stat(filepath.Join("testdata", "other", "ramulator_"+trace+".trace.gz")); err != nil {
			t.Log(err)
			continue
		}
		s := setup(t, "default")
		s.Spec, s.Ranks, s.Policy.Mapping = ramulatorPart(t, set.part, r["standard"]), set.ranks, set.mapping
		s.RequestBytes = OneBurst
		if r["refresh"] == "none" {
			s.Spec.TREFI = 1 << 20
		}
		end, _ := strconv.ParseFloat(r["end_clock"], 64)
		stats := replayOther(t, s, "ramulator_"+trace)
		fmt.Fprintf(&table, "| %s | %s | %.0f | %d | %+.2f%% | %s | %d |\n", r["standard"], bench, end, stats.EndClock, 100*(float64(stats.EndClock)/end-1), r["act"], stats.Count(dram.ACT))
		if float64(stats.EndClock) > 1.01*end {
			t.Errorf("%s %s: ours ends at %d, Ramulator at %.0f", r["standard"], bench, stats.EndClock, end)
		}
	}
	writeTable(t, "table of Ramulator", table.String())
}

// ramulatorPart returns a part with Ramulator's timings.
func ramulatorPart(tb testing.TB, part, standard string) *dram.Spec {
	tb.Helper()
	s, err := dram.LookupSpec(part)
	if err != nil {
		tb.Fatal(err)
	}
	terms := map[string]string{"nRCDRD": "tRCD", "nCCDL_WR": "tCCD_L_WR", "nCCDR": "tCCD_R", "nRTPL": "tRTP", "nRFCab": "tRFC",
		"nCCDS": "tCCD_S", "nCCDL": "tCCD_L", "nRRDS": "tRRD_S", "nRRDL": "tRRD_L", "nWTRS": "tWTR_S", "nWTRL": "tWTR_L", "nCS": "tRTRS",
		"nCL": "CL", "nCWL": "CWL", "nRRD": "tRRD_S"}
	if s.Standard == "ddr5" { // Ramulator reads before writing at all widths
		if err := s.Set("RMW", "1"); err != nil {
			tb.Fatal(err)
		}
	}
	for _, row := range readTable(tb, "../../testdata/ramulator/timings.csv") {
		p := row["parameter"]
		if row["standard"] != standard || !strings.HasPrefix(p, "n") {
			continue
		}
		term, ok := terms[p]
		if !ok {
			term = "t" + p[1:]
		}
		if err := s.Set(term, row["clocks"]); err != nil {
			continue // a timing of the simulator alone, such as nBL
		}
	}
	return s
}
