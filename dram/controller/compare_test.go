package controller

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// dramsim3 is what DRAMsim3 gave for one trace.
type dramsim3 struct {
	trace                  string
	end, act, ref, rowHits int64
	latency                float64
	longest                int64
}

func readReference(tb testing.TB) []dramsim3 {
	tb.Helper()
	f, err := os.Open("testdata/dramsim3_results.csv")
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

// readTraceFile reads a trace of testdata.
func readTraceFile(tb testing.TB, name string) []Request {
	tb.Helper()
	path := filepath.Join("testdata", "traces", name+".trace.gz")
	f, err := os.Open(path)
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
		t.Run(r.trace, func(t *testing.T) {
			s, err := setup(t, "dramsim3").Replay(t.Context(), readTraceFile(t, r.trace), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("end %+.2f%%, row hits %+d, activates %+d, refreshes %+d, read latency %+.2f%%",
				100*(float64(s.EndClock)/float64(r.end)-1), s.RowHits-r.rowHits, s.Count(dram.ACT)-r.act, s.Count(dram.REF)-r.ref,
				100*(s.Latency.Mean()-r.latency)/max(1, r.latency))
			near := func(what string, got, want, relative, absolute float64) {
				if d := math.Abs(got - want); d > relative*want && d > absolute {
					t.Errorf("%s is %v, DRAMsim3 gave %v", what, got, want)
				}
			}
			near("end clock", float64(s.EndClock), float64(r.end), 0.01, 0)
			near("row hits", float64(s.RowHits), float64(r.rowHits), 0.02, 5)
			near("activates", float64(s.Count(dram.ACT)), float64(r.act), 0.02, 5)
			near("refreshes", float64(s.Count(dram.REF)), float64(r.ref), 0.02, 5)
			near("read latency", s.Latency.Mean(), r.latency, 0.10, 0)
		})
	}
}

// TestDefaultAgainstDRAMsim3 pins what DEVIATIONS.md says of the default
// policy: no reference trace takes 1% longer than in DRAMsim3, and no read
// waits longer than DRAMsim3's longest.
func TestDefaultAgainstDRAMsim3(t *testing.T) {
	for _, r := range readReference(t) {
		t.Run(r.trace, func(t *testing.T) {
			s, err := setup(t, "default").Replay(t.Context(), readTraceFile(t, r.trace), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("end %d for %d (%+.2f%%), ACT %d for %d, mean latency %.0f for %.0f, longest %d for %d", s.EndClock, r.end,
				100*(float64(s.EndClock)/float64(r.end)-1), s.Count(dram.ACT), r.act, s.Latency.Mean(), r.latency, s.Latency.Max(), r.longest)
			if float64(s.EndClock) > 1.01*float64(r.end) {
				t.Errorf("ends at %d, DRAMsim3 at %d", s.EndClock, r.end)
			}
			if s.Latency.Max() > r.longest {
				t.Errorf("a read takes %d clocks, DRAMsim3's longest took %d", s.Latency.Max(), r.longest)
			}
		})
	}
}
