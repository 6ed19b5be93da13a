package dram

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// reference is the folder of the traces and of DRAMsim3's results.
const reference = "../../shared/dram"

// needReference skips where the reference material is missing.
func needReference(tb testing.TB) {
	tb.Helper()
	if _, err := os.Stat(reference); err != nil {
		tb.Skip("no reference material: ", err)
	}
}

// dramsim3 is what DRAMsim3 gave for one trace.
type dramsim3 struct {
	trace                  string
	end, act, ref, rowHits int64
	latency                float64
	longest                int64
}

func readReference(tb testing.TB) []dramsim3 {
	tb.Helper()
	needReference(tb)
	f, err := os.Open(filepath.Join(reference, "dramsim3_results.csv"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	var list []dramsim3
	for _, row := range rows[1:] {
		number := func(i int) float64 {
			v, err := strconv.ParseFloat(row[i], 64)
			if err != nil {
				tb.Fatal(err)
			}
			return v
		}
		list = append(list, dramsim3{row[0], int64(number(2)), int64(number(3)), int64(number(7)), int64(number(8)), number(11), int64(number(12))})
	}
	return list
}

// readTraceFile reads a trace of the reference material.
func readTraceFile(tb testing.TB, name string) []Request {
	tb.Helper()
	f, err := os.Open(filepath.Join(reference, "traces", name+".trace.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	requests, err := ReadTrace(name, f)
	if err != nil {
		tb.Fatal(err)
	}
	return requests
}

// setup returns the set-up of the comparison under the named policy.
func setup(tb helper, policy string) *Setup {
	tb.Helper()
	p, err := LookupPolicy(policy)
	if err != nil {
		tb.Fatal(err)
	}
	return &Setup{Spec: part(tb, ddr43200), Policy: p, Channels: 1, Ranks: 4}
}

// TestDRAMsim3 replays every reference trace under the policy that decides as
// DRAMsim3 does, under the rules of the standard.
func TestDRAMsim3(t *testing.T) {
	for _, r := range readReference(t) {
		s, err := setup(t, "dramsim3").Replay(t.Context(), readTraceFile(t, r.trace), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-24s end %+.2f%%, row hits %+d, activates %+d, refreshes %+d, read latency %+.1f%%", r.trace,
			100*(float64(s.EndClock)/float64(r.end)-1), s.RowHits-r.rowHits, s.Count(ACT)-r.act, s.Count(REF)-r.ref,
			100*(s.Latency.Mean()/max(1, r.latency)-1))
		near := func(what string, got, want, relative, absolute float64) {
			if d := math.Abs(got - want); d > relative*want && d > absolute {
				t.Errorf("%s: %s is %v, DRAMsim3 gave %v", r.trace, what, got, want)
			}
		}
		near("end clock", float64(s.EndClock), float64(r.end), 0.01, 0)
		near("row hits", float64(s.RowHits), float64(r.rowHits), 0.02, 5)
		near("activates", float64(s.Count(ACT)), float64(r.act), 0.02, 5)
		near("refreshes", float64(s.Count(REF)), float64(r.ref), 0.02, 5)
		near("read latency", s.Latency.Mean(), r.latency, 0.10, 0)
	}
}

// TestDefaultAgainstDRAMsim3 pins what DEVIATIONS.md says of the default
// policy: no reference trace takes more than 1% longer than in DRAMsim3, and no
// read waits as long as DRAMsim3's longest by the round robin.
func TestDefaultAgainstDRAMsim3(t *testing.T) {
	for _, r := range readReference(t) {
		s, err := setup(t, "default").Replay(t.Context(), readTraceFile(t, r.trace), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("| %s | %d | %d | %+.2f%% | %d | %d | %.0f | %.0f | %d | %d |", r.trace, r.end, s.EndClock, 100*(float64(s.EndClock)/float64(r.end)-1),
			r.act, s.Count(ACT), r.latency, s.Latency.Mean(), r.longest, s.Latency.Max())
		if float64(s.EndClock) > 1.01*float64(r.end) {
			t.Errorf("%s ends at %d, DRAMsim3 at %d", r.trace, s.EndClock, r.end)
		}
		if s.Latency.Max() > r.longest {
			t.Errorf("%s: a read takes %d clocks, DRAMsim3's longest took %d", r.trace, s.Latency.Max(), r.longest)
		}
	}
}
