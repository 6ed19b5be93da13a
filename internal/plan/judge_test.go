package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestMisses: the middle 80% of the requests pass if exactly the attainment is met. A comparison with few requests allows one more
// miss, plus an eighth; the answer, which all requests judge, does not.
func TestMisses(t *testing.T) {
	for _, x := range []struct {
		n, few               int
		attainment           string
		measured, most, some int // misses allowed: of all, of few
	}{
		{100, 50, "0.9", 80, 8, 4 + 1}, // 72 of 80 attain, 36 of 40
		{100, 50, "0.5", 80, 40, 20 + 1 + 2},
		{100, 50, "0.99", 80, 0, 1}, // 79 of 80 are 98.75%
		{125, 60, "0.99", 101, 1, 1},
		{2500, 400, "0.99", 2000, 20, 3 + 1},
		{100, 50, "1", 80, 0, 1},
	} {
		cfg, trace, _, _ := single(t, x.n, "arrivals.kind=poisson", "slo.ttft=1s", "slo.attainment="+x.attainment)
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		if from, to := measured(x.n, 0); to-from != x.measured || j.most(to-from) != x.most {
			t.Errorf("%+v: %d of %d may miss", x, j.most(to-from), to-from)
		}
		c := &Contest{ctx: t.Context(), search: &Search{}, trace: trace, n: x.n, seen: map[string]*entrant{}, options: configs.Options{Sets: []string{
			"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "arrivals.kind=poisson", "slo.ttft=1s", "slo.attainment=" + x.attainment}}}
		for n, most := range map[int]int{x.n: x.most, x.few: x.some} {
			from, to := measured(n, 0)
			if j := c.open(c.entrant(nil, n)); j == nil || j.most(to-from) != most || len(j.trace.Requests) != n {
				t.Errorf("%+v: by %d requests %+v", x, n, j)
			}
		}
	}
}

// TestMeasuredMisses: misses count among the middle 80% of the requests, and not at either end. Requests arrive 50 seconds apart,
// so none waits.
func TestMeasuredMisses(t *testing.T) {
	ends := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99}
	for _, x := range []struct {
		long       []int
		fails      []Failure
		attainment float64
	}{
		{ends, nil, 1},
		{[]int{10, 11, 20, 30, 40, 50, 60, 89}, nil, 0.9},
		{[]int{10, 11, 20, 30, 40, 50, 60, 88, 89}, []Failure{{"E2E", 9.0 / 80}}, 71.0 / 80},
	} {
		cfg, trace, prompt, service := single(t, 100, "arrivals.kind=trace", "slo.attainment=0.9")
		cfg.SLO.E2E, cfg.SLO.TTFT = 2*service, 2*prompt
		for i := range trace.Requests {
			trace.Requests[i].Arrival = units.Duration(i) * units.Second
		}
		for _, i := range x.long {
			trace.Requests[i].Output = 40
		}
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := j.run(t.Context(), 0.02, false)
		if err != nil || l.Met != (x.fails == nil) || l.Attainment != x.attainment || !reflect.DeepEqual(l.Fails, x.fails) {
			t.Errorf("%v are long: met %v, attainment %v, %v, %v", x.long, l.Met, l.Attainment, l.Fails, err)
		}
		v, err := j.run(t.Context(), 0.02, true)
		if err != nil || v.Met != l.Met || !reflect.DeepEqual(v.Fails, x.fails) {
			t.Errorf("%v are long: holds %v, %v, %v", x.long, v.Met, v.Fails, err)
		}
		// The last of the nine is known when it ends.
		if met, early := v.Met, v.came < 92; met == early {
			t.Errorf("%v are long: %d came", x.long, v.came)
		}
	}
}

// TestTally: a request counts for each target that it misses. The most frequent reason is first.
func TestTally(t *testing.T) {
	const ms = units.Millisecond
	slo := &scheduler.SLO{TTFT: 100 * ms, TBT: 20 * ms, TPOT: 10 * ms, E2E: 1000 * ms}
	request := func(first, gap units.Duration, output int) *results.Request {
		arrival := 5 * units.Second
		return &results.Request{Request: traces.Request{Arrival: arrival, Input: 9, Output: output}, FirstToken: arrival + first, Finish: arrival + first + gap*units.Duration(output-1)}
	}
	slow := func(q *results.Request) *results.Request {
		q.Slow = true
		return q
	}
	for _, x := range []struct {
		of   *results.Request
		want string
	}{
		{request(101*ms, 5*ms, 10), "TTFT missed by 10%"},
		{request(100*ms, 11*ms, 10), "TPOT missed by 10%"},
		{request(100*ms, 10*ms, 92), "E2E missed by 10%"}, // 100 + 91 x 10 ms
		{request(100*ms, 10*ms+1, 2), "TPOT missed by 10%"},
		{slow(request(100*ms, 10*ms, 91)), "TBT missed by 10%"}, // all others are just met
		{slow(request(101*ms, 10*ms, 91)), "TTFT missed by 10%, E2E missed by 10%, TBT missed by 10%"},
		{slow(request(100*ms, 11*ms, 10)), "TPOT missed by 10%, TBT missed by 10%"},
		{request(200*ms, 9*ms, 101), "TTFT missed by 10%, E2E missed by 10%"},
		{request(100*ms, 100*ms, 11), "TPOT missed by 10%, E2E missed by 10%"},
		{&results.Request{Outcome: results.Refused, Request: traces.Request{Output: 9}}, "10% turned away"},
	} {
		seen := tally{slo: slo}
		seen.add(x.of)
		if got := why(seen.failures(10)); got != x.want || seen.missed != 1 {
			t.Errorf("%s, want %s", got, x.want)
		}
	}
	seen := tally{slo: slo}
	above := request(100*ms, 10*ms, 10) // by a picosecond in nine gaps
	above.Finish++
	if seen.add(above); why(seen.failures(10)) != "TPOT missed by 10%" {
		t.Errorf("a mean a little above its target: %s", why(seen.failures(10)))
	}
	seen = tally{slo: slo}
	for range 3 {
		seen.add(request(100*ms, 11*ms, 10))
	}
	seen.add(request(101*ms, 5*ms, 10))
	seen.add(&results.Request{Outcome: results.TooLarge})
	if got := why(seen.failures(40)); got != "TPOT missed by 7.5%, TTFT missed by 2.5%, 2.5% turned away" || seen.missed != 5 {
		t.Errorf("%s; %d requests", got, seen.missed)
	}
}

// TestSpent: a load's cost is that of its run's summary, the low cost first.
func TestSpent(t *testing.T) {
	cfg, trace, _, _ := single(t, 50, "arrivals.kind=poisson", "slo.ttft=1s")
	j, err := NewJudge(cfg, trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := j.run(t.Context(), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Summary; l.USDLow != s.Cost.PerMTokenLow || l.USD != s.Cost.PerMToken || l.USDHigh != s.Cost.PerMTokenHigh || l.Watts != s.EnergyReport.Watts || l.GPUs != 1 {
		t.Errorf("%+v; %+v", l.Spent, s.Cost)
	}
	if !(0 < l.USDLow && l.USDLow < l.USD && l.USD < l.USDHigh) {
		t.Errorf("%+v", l.Spent)
	}
}

// TestTitle: a load names the model with the keys that differ from its preset, except tensor parallelism, which has its own column.
func TestTitle(t *testing.T) {
	for want, sets := range map[string][]string{
		"llama-3-8b":                  {"model.tensor_parallel=2"},
		"llama-3-8b, changed: layers": {"model.tensor_parallel=2", "model.layers=4"},
	} {
		cfg, trace, _, _ := single(t, 50, append([]string{"node.gpus=2", "arrivals.kind=poisson", "slo.ttft=1s"}, sets...)...)
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := j.run(t.Context(), 1, false); err != nil || l.Model != want || cfg.Model.TensorParallel != 2 {
			t.Errorf("%v: %q, want %q; %v", sets, l.Model, want, err)
		}
	}
}

// TestFailureText: a failure says how many requests miss the target; a failure of the whole run, such as a percentile, has no share.
func TestFailureText(t *testing.T) {
	for want, f := range map[string]Failure{
		"queue grows": {Name: queueGrows}, "TTFT p99 is 9 ms, above its target of 5 ms": {Name: "TTFT p99 is 9 ms, above its target of 5 ms"}, "TTFT missed by 1.25%": {"TTFT", 0.0125}, "7.5% turned away": {turnedAway, 0.075},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRequests: by default a file of 1,000 requests or more runs as it is, up to 2,500, and a shorter one is repeated. An explicit number
// always applies.
func TestRequests(t *testing.T) {
	for _, x := range []struct{ rows, given, want int }{
		{60, 0, 2500}, {999, 0, 2500}, {1000, 0, 1000}, {1200, 0, 1200}, {2500, 0, 2500}, {3000, 0, 2500},
		{1200, 300, 300}, {1200, 2000, 2000}, {1200, 5000, 5000}, {60, 50, 50}, {60, 90, 90},
	} {
		file := filepath.Join(t.TempDir(), "requests.csv")
		if err := os.WriteFile(file, []byte("input_tokens,output_tokens\n"+strings.Repeat("3,2\n", x.rows-1)+"7,5\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		cfg, err := system.Load(configs.Options{Sets: []string{"run.trace=" + file, fmt.Sprint("run.requests=", x.given)}})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := Requests(cfg)
		if err != nil || len(trace.Requests) != x.want {
			t.Errorf("%+v: %d requests, %v", x, len(trace.Requests), err)
			continue
		}
		if x.want > x.rows && (trace.Requests[x.rows-1].Input != 7 || trace.Requests[x.rows].Input != 3) {
			t.Errorf("%+v: not again from the first", x)
		}
	}
}

// TestRequestsOfUsers: a run has at least twice as many requests as users, so that half are not a user's first, and four times by default: a built-in
// trace is drawn to that length, a file is repeated.
func TestRequestsOfUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "requests.csv")
	if err := os.WriteFile(file, []byte("input_tokens,output_tokens\n"+strings.Repeat("3,2\n", 1200)), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		trace                        string
		users, given, want, distinct int
	}{
		{"dolphin", 10, 0, 2500, 0}, {"dolphin", 625, 0, 2500, 0}, {"dolphin", 626, 0, 2504, 0}, {"dolphin", 40, 80, 80, 0}, {"dolphin", 40, 79, 0, 0}, {"dolphin", 10, 50, 50, 0}, {"dolphin", 10, 49, 0, 0},
		{file, 300, 0, 1200, 0}, {file, 301, 0, 1204, 1200}, {file, 1000, 0, 4000, 1200}, {file, 300, 600, 600, 0}, {file, 300, 599, 0, 0},
	} {
		cfg, err := system.Load(configs.Options{Sets: []string{"arrivals.kind=closed-loop", fmt.Sprint("arrivals.users=", x.users), fmt.Sprint("run.requests=", x.given), "run.trace=" + x.trace}})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := Requests(cfg)
		if x.want == 0 {
			if want := fmt.Sprintf("run.requests = %d: expected at least %d, of which", x.given, max(50, 2*x.users)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", x, err)
			}
		} else if err != nil || len(trace.Requests) != x.want || trace.Distinct != x.distinct {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
