package plan

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestRowNotes: a row has the notes of its configuration and of runs that were too short, and no others.
func TestRowNotes(t *testing.T) {
	cfg, err := system.Load(configs.Options{Sets: []string{"run.system=l3", "run.model=llama-3-8b", "node.ranksets=8", "slo.ttft=1s"}})
	if err != nil {
		t.Fatal(err)
	}
	of := system.Notes(cfg)
	if len(of) == 0 {
		t.Fatal("nothing is said of more DIMMs than boards have")
	}
	j := &Judge{cfg: cfg, trace: &traces.Trace{Requests: make([]traces.Request, 100)}}
	grows := &Load{RatePerS: 10, Saturated: true, Measured: system.Measured{Attainment: 1, E2E: results.Latency{P99: 2000}}}
	for _, x := range []struct {
		next *Load
		want []string // how each further note ends
	}{
		{nil, nil}, {&Load{RatePerS: 10}, nil}, {grows, []string{"--requests 200 tells, and the rate may be higher"}},
	} {
		row := &Row{Load: Load{Summary: &results.Summary{}}, next: x.next}
		row.describe(j)
		ok := len(row.Notes) == len(of)+len(x.want) && reflect.DeepEqual(row.Notes[:len(of)], of)
		for i := range x.want {
			ok = ok && strings.HasSuffix(row.Notes[len(of)+i], x.want[i])
		}
		if !ok {
			t.Errorf("%+v: %q, want %q and %q", x.next, row.Notes, of, x.want)
		}
	}
}

// TestAllNotes: the meaning of the user's names, the notes of rows and of the report, each once; the settings of a row without a command; and a row
// with a failing lower rate.
func TestAllNotes(t *testing.T) {
	row := func(called, gpu string, notes ...string) *Row {
		return &Row{Load: Load{System: "l3", Model: "llama", GPU: gpu, Policy: "fcfs"}, Called: []string{"l3", "llama", called, "fcfs"}, Notes: notes}
	}
	r := &Report{Rows: []*Row{row("mine.toml", "H100, changed", "one"), row("h200", "h200", "two", "one"), row("mine.toml", "mine.toml: H100", "one")}, Notes: []string{"two", "all"}}
	r.Rows[1].Sets, r.Rows[1].Dips = []string{"a=1", "b=2"}, true
	r.Rows[2].Sets, r.Rows[2].Command = []string{"a=3"}, "l3sim capacity"
	want := []string{"note: mine.toml is H100, changed", "note: one", "note: two", "note: l3: --set a=1 --set b=2", "note: row 2: a lower rate fails", "note: mine.toml is H100", "note: all"}
	if got := r.allNotes(); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestList: all tried rates, row by row. If two choices have one name, the user's spelling precedes it, also for its rates; a repetition of a choice does
// not.
func TestList(t *testing.T) {
	row := func(called, gpu string, rates ...float64) *Row {
		r := &Row{Load: Load{System: "l3", Model: "llama", GPU: gpu, Policy: "fcfs"}, Called: []string{"l3", "llama", called, "fcfs"}}
		for _, rate := range rates {
			r.Tried = append(r.Tried, Load{System: "l3", Model: "llama", GPU: gpu, Policy: "fcfs", RatePerS: rate})
		}
		return r
	}
	r := &Report{Rows: []*Row{row("a.toml", "H100", 1, 2), row("b.toml", "H100", 3), row("h200", "H200", 4), row("h200", "H200", 5)}}
	r.List()
	var got []string
	var rates []float64
	for _, l := range r.Tried {
		got, rates = append(got, l.GPU), append(rates, l.RatePerS)
		if l.System != "l3" || l.Model != "llama" || l.Policy != "fcfs" {
			t.Errorf("%+v", l)
		}
	}
	if want := []string{"a.toml: H100", "a.toml: H100", "b.toml: H100", "H200", "H200"}; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(rates, []float64{1, 2, 3, 4, 5}) {
		t.Errorf("%q at %v, want %q", got, rates, want)
	}
	if r.Rows[0].GPU != "a.toml: H100" || r.Rows[2].GPU != "H200" {
		t.Errorf("rows have %q and %q", r.Rows[0].GPU, r.Rows[2].GPU)
	}
}

// TestAdd: rows have the user's names, else those of the configuration; the report has the number of measured requests and its certainty.
func TestAdd(t *testing.T) {
	cfg, trace, _, _ := single(t, 100, "slo.ttft=1s", "slo.attainment=0.9", "arrivals.kind=poisson")
	r := &Report{}
	for range 2 {
		r.Add(&Row{Load: Load{System: "l3", Model: "llama", GPU: "h100", Policy: "fcfs"}, Config: cfg}, map[string]string{"gpu.preset": "own.toml", "policy.name": "p"}, trace)
	}
	if want := []string{"l3", "llama", "own.toml", "p"}; len(r.Rows) != 2 || !reflect.DeepEqual(r.Rows[1].Called, want) || r.Measured != 80 || r.Target != 0.9 || r.Arrivals != "poisson" || r.SLO.TTFT != 1000 {
		t.Errorf("%+v", r)
	}
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "80 different requests are measured") {
		t.Errorf("%q", r.Notes)
	}
	for _, users := range [][]int{{40, 0}, {0, 40}, {0, 40, 20}} { // of 100 requests 50, 80 and 70 are measured
		r := &Report{}
		for _, n := range users {
			r.Add(&Row{Load: Load{Users: n}, Config: cfg}, nil, trace)
		}
		if r.Measured != 50 || !strings.HasPrefix(r.Notes[0], "50 different") {
			t.Errorf("rows of %v users: %d requests, %q", users, r.Measured, r.Notes)
		}
	}
	again := &Report{}
	again.Add(&Row{Config: cfg}, nil, trace.Repeated(1000))
	if again.Measured != 800 || !strings.HasPrefix(again.Notes[0], "100 different") {
		t.Errorf("100 requests that come again: %d, %q", again.Measured, again.Notes)
	}
	cfg.SLO.Attainment = 1
	sure := &Report{}
	if sure.Add(&Row{Config: cfg}, nil, trace); sure.Notes != nil {
		t.Errorf("%q", sure.Notes)
	}
}

// TestShortNames: the table abbreviates changed keys, and a note names them.
func TestShortNames(t *testing.T) {
	cfg, trace, _, _ := single(t, 100, "slo.ttft=1s", "slo.attainment=1", "arrivals.kind=poisson")
	for title, want := range map[string]string{"h200-sxm": "h200-sxm", "h200-sxm, changed: sms and 22 more": "h200-sxm (changed)", "b200 (h200-sxm, changed: sms)": "b200", "b200 (h200-sxm)": "b200"} {
		r := &Report{}
		r.Add(&Row{Load: Load{System: "l3", Model: "llama", GPU: title, Policy: "fcfs"}, Config: cfg}, nil, trace)
		var notes []string
		if want != title {
			notes = []string{"note: " + want + " is " + title}
		}
		if got := r.table().Rows[0][3].String(); got != want || !reflect.DeepEqual(r.allNotes(), notes) {
			t.Errorf("%s: %q, %q", title, got, r.allNotes())
		}
	}
}

// TestTargetBelowGaps: the note that a TBT target is below an empty node's gaps appears if the target is set, no rate holds and the gaps are longer.
func TestTargetBelowGaps(t *testing.T) {
	for _, x := range []struct{ target, gap, highest, want float64 }{{50, 60, 0, 1}, {50, 50, 0, 0}, {60, 50, 0, 0}, {0, 60, 0, 0}, {50, 60, 2, 0}} {
		r := &Row{Load: Load{Measured: system.Measured{TBT: results.Latency{P50: x.gap}}}, Highest: x.highest, Asked: &Asked{RatePerS: 9}}
		if got := strings.Count(r.explain(&results.SLO{TBT: results.Target(x.target)}), "between tokens of an empty node"); float64(got) != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
}

// TestTargets: targets of each request, with the required share, before those of percentiles.
func TestTargets(t *testing.T) {
	for want, slo := range map[string]results.SLO{"": {}, "99% of them within TTFT 2000 ms TBT 50 ms": {TTFT: 2000, TBT: 50, TBTPercentile: 99}} {
		if got := Targets(&slo, 0.99); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
