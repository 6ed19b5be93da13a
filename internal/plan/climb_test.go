package plan

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// single returns a server of one request at a time, requests of one length, and the times of a
// prompt and of a whole request.
func single(t *testing.T, n int, sets ...string) (cfg *configs.Config, trace *traces.Trace, prompt, service units.Duration) {
	t.Helper()
	cfg, err := system.Load(configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "batching.max_num_seqs=1"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	trace = &traces.Trace{Name: "equal", Requests: make([]traces.Request, n)}
	for i := range trace.Requests {
		trace.Requests[i] = traces.Request{ID: i, Input: 1, Output: 12}
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := node.Run(context.Background(), &traces.Trace{Requests: trace.Requests[:1]}, system.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg, trace, r.Requests[0].FirstToken, r.Requests[0].Finish
}

// find finds the highest rate of a configuration's node, as a search without knobs does.
func (s *Search) find(ctx context.Context, cfg *configs.Config, trace *traces.Trace) (*Row, error) {
	c, err := s.Contest(configs.Options{}, cfg, trace)
	if err != nil {
		return nil, err
	}
	j, err := NewJudge(cfg, trace, s.Meter)
	if err != nil {
		return nil, err
	}
	c.ctx = ctx
	return c.answer(judged(j), 0)
}

// judged returns an entrant with a judge of all requests.
func judged(j *Judge) *entrant {
	e := &entrant{n: len(j.trace.Requests), judge: j}
	e.once.Do(func() {})
	return e
}

// waits returns the share of M/D/1 customers at a load that wait for at most a number of services
// (Erlang, 1909; Franx, "A simple solution for the M/D/c waiting time distribution", 2001).
func waits(rho, services float64) float64 {
	sum, factorial := 0.0, 1.0
	for k := 0.0; k <= services; k++ {
		if k > 0 {
			factorial *= k
		}
		x := rho * (k - services)
		sum += math.Pow(x, k) / factorial * math.Exp(-x)
	}
	return (1 - rho) * sum
}

// TestSingleServer: the highest rate at which 90% of the requests of a single server wait for at most two
// services is that of M/D/1, within 2%.
func TestSingleServer(t *testing.T) {
	deep.Only(t)
	n, off := deep.Of(0, 15_000, 40_000), 0.02
	cfg, trace, prompt, service := single(t, n, "arrivals.kind=poisson", "slo.attainment=0.9")
	cfg.SLO.TTFT = prompt + 2*service
	low, high := 0.0, 1.0
	for range 50 {
		if mid := (low + high) / 2; waits(mid, 2) >= 0.9 {
			low = mid
		} else {
			high = mid
		}
	}
	search := Search{Precision: 0.005}
	a, err := search.find(t.Context(), cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.RatePerS * service.Seconds(); math.Abs(got/low-1) > off {
		t.Errorf("found a load of %.4f, want %.4f", got, low)
	}
	if from, to := measured(n, 0); to-from != n*8/10 || a.TooLarge != 0 || a.Dips || !a.Met || a.Attainment < 0.9 {
		t.Errorf("%+v", a.Load)
	}
	for i, l := range a.Tried {
		if i > 0 && l.RatePerS <= a.Tried[i-1].RatePerS {
			t.Errorf("rates out of order: %v after %v", l.RatePerS, a.Tried[i-1].RatePerS)
		}
		if l.RatePerS > a.RatePerS && l.Met || l.RatePerS > tables.Round(1.0/service.Seconds(), 6) && !l.Saturated {
			t.Errorf("%+v", l)
		}
		// Attaining requests are a share of arriving ones.
		if want := l.RatePerS * l.Attainment * 12; math.Abs(l.GoodputTokens/want-1) > 1.5*off && want > 1 {
			t.Errorf("at %v: a goodput of %v tokens/s, want %v", l.RatePerS, l.GoodputTokens, want)
		}
	}
}

// TestSearchRepeats: a second search gives the same result, to the last bit.
func TestSearchRepeats(t *testing.T) {
	deep.Heavy(t)
	n := DefaultRequests
	if testing.Short() { // under the race detector; fewer suffice
		n /= 5
	}
	cfg, trace, prompt, service := single(t, n, "arrivals.kind=gamma", "arrivals.cv=2", "slo.attainment=0.9")
	cfg.SLO.TTFT = prompt + 2*service
	var want string
	for range 2 {
		a, err := (&Search{Precision: 0.05}).find(t.Context(), cfg, trace)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range a.Tried {
			l, s := &a.Tried[i], a.Tried[i].Summary
			if s.TTFT != l.TTFT || s.TBT != l.TBT || s.E2E != l.E2E || s.Goodput.Attainment != l.Attainment || s.Goodput.TokensPerS != l.GoodputTokens {
				t.Errorf("at %g requests/s the summary has other latencies than the load", l.RatePerS)
			}
			if i > 0 && s.ConfigSHA256 == a.Summary.ConfigSHA256 && l.RatePerS != a.RatePerS {
				t.Errorf("the summary of %g requests/s is of another rate's configuration", l.RatePerS)
			}
			got += fmt.Sprintf("%+v\n", *a.Tried[i].Summary)
			a.Tried[i].Summary = nil // a pointer
		}
		a.Summary, a.next = nil, nil
		if got += fmt.Sprint(a); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%s\nagain\n%s", want, got)
		}
	}
}

// TestKeepsUp: if no request can miss its targets, since gaps do not depend on the queue, the highest rate
// is one that the node keeps up with.
func TestKeepsUp(t *testing.T) {
	deep.Heavy(t)
	cfg, trace, _, service := single(t, DefaultRequests, "arrivals.kind=poisson", "slo.tbt=10s")
	a, err := (&Search{Precision: 0.02}).find(t.Context(), cfg, trace)
	if load := a.RatePerS * service.Seconds(); err != nil || load < 0.8 || load > 1.1 || a.Saturated || a.Attainment != 1 {
		t.Errorf("a load of %v: %+v, %v", load, a.Load, err)
	}
}

// TestOnePattern: at twice the rate the same requests arrive in half the time, for every arrival
// process.
func TestOnePattern(t *testing.T) {
	for _, kind := range []string{"poisson", "gamma"} {
		cfg, trace, _, _ := single(t, 1000, "arrivals.kind="+kind, "arrivals.cv=3")
		j := &Judge{cfg: cfg, trace: trace}
		_, slow, err := j.arrive(1)
		if err != nil {
			t.Fatal(err)
		}
		_, fast, err := j.arrive(2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range slow.Requests {
			if d := slow.Requests[i].Arrival - 2*fast.Requests[i].Arrival; d < -2 || d > 2 {
				t.Fatalf("%s: request %d comes at %v, and at %v at twice the rate", kind, i, slow.Requests[i].Arrival, fast.Requests[i].Arrival)
			}
		}
	}
}

// TestSeeds: the configuration's seed draws the pattern of arrivals: the same at every call, another with another seed.
func TestSeeds(t *testing.T) {
	arrivals := func(seed int) []traces.Request {
		cfg, trace, _, _ := single(t, 100, "arrivals.kind=poisson", fmt.Sprint("run.seed=", seed))
		at, all, err := (&Judge{cfg: cfg, trace: trace}).arrive(3)
		if err != nil || at.Arrivals.RatePerS != 3 || cfg.Arrivals.RatePerS == 3 {
			t.Fatalf("at %v, the judge's own %v, %v", at.Arrivals.RatePerS, cfg.Arrivals.RatePerS, err)
		}
		return all.Requests
	}
	one := arrivals(1)
	if !reflect.DeepEqual(one, arrivals(1)) || reflect.DeepEqual(one, arrivals(2)) || reflect.DeepEqual(one, arrivals(0)) {
		t.Error("the seed does not decide when requests come")
	}
}

// TestNoRate: a target that even a lone request misses is met at no rate.
func TestNoRate(t *testing.T) {
	deep.Heavy(t)
	cfg, trace, prompt, _ := single(t, DefaultRequests, "arrivals.kind=poisson")
	cfg.SLO.TTFT = prompt - 1
	a, err := (&Search{Precision: 0.02}).find(t.Context(), cfg, trace)
	if err != nil || a.RatePerS != 0 || a.Met || a.Attainment != 0 || a.TTFT.P50 != 1e3*prompt.Seconds() {
		t.Errorf("%+v, %v", a, err)
	}
	if len(a.Tried) != 2 || math.Abs(a.Tried[1].RatePerS/a.Tried[0].RatePerS-2) > 1e-5 || a.Alone || len(a.Limit) == 0 || a.Limit[0].Name != "TTFT" {
		t.Errorf("some of a Poisson process's requests come close to one another: alone %v, %+v", a.Alone, a.Tried)
	}
	for i := range trace.Requests { // in pairs: below some rate each request is alone
		trace.Requests[i].Arrival = units.Duration(i/2)*units.Second + units.Duration(i%2)*units.Second/20
	}
	cfg.Arrivals.Kind = traces.ArrivalsTrace
	a, err = (&Search{Precision: 0.02}).find(t.Context(), cfg, trace)
	if err != nil || a.RatePerS != 0 || !a.Alone || a.TTFT.Max != 1e3*prompt.Seconds() || a.Tried[1].TTFT != a.TTFT {
		t.Errorf("at the lowest rates no request waits for another: %+v, %v", a, err)
	}
}

// TestNoRateOfSlowNode: if no rate is met, the search ends before its arrivals span more days than
// a run may.
func TestNoRateOfSlowNode(t *testing.T) {
	cfg, trace, prompt, service := single(t, DefaultRequests, "arrivals.kind=poisson", "gpu.memory_bandwidth=10GB/s")
	cfg.SLO.TTFT = prompt - 1
	a, err := (&Search{Precision: 0.02}).find(t.Context(), cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if days := DefaultRequests / a.Tried[0].RatePerS / 86400; a.RatePerS != 0 || days < 25 || days > 50 {
		t.Errorf("services of %v: the lowest rate takes %v days, the answer is %+v", service, days, a.Load)
	}
}

// TestDips: the highest rate that meets the targets is the answer, even if a lower one fails.
func TestDips(t *testing.T) {
	a := &Row{Tried: []Load{{RatePerS: 1, Met: true}, {RatePerS: 2}, {RatePerS: 3, Met: true}, {RatePerS: 4}}}
	if a.settle(0); a.RatePerS != 3 || !a.Dips {
		t.Errorf("%+v", a)
	}
	b := &Row{Tried: []Load{{RatePerS: 1, Met: true}, {RatePerS: 2}}}
	if b.settle(0); b.RatePerS != 1 || b.Dips {
		t.Errorf("%+v", b)
	}
}

func TestErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		"--slo: expected targets of latency":                                            {},
		`arrivals.kind = "all-at-once": expected auto`:                                  {"slo.tbt=1s", "arrivals.kind=all-at-once"},
		"arrivals.scale = 3: expected 1":                                                {"slo.tbt=1s", "arrivals.scale=3"},
		"run.requests = 49: expected at least 50, of which the middle 80% are measured": {"slo.tbt=1s", "run.requests=49"},
		`run.trace = "gone.csv": no such file`:                                          {"slo.tbt=1s", "run.trace=gone.csv"},
	} {
		cfg, err := system.Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := Requests(cfg)
		if err == nil {
			_, err = (&Search{Precision: 0.02}).find(t.Context(), cfg, trace)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestTooLarge: requests that fit no empty memory are counted and never served; the rate of a full queue is that of the others.
func TestTooLarge(t *testing.T) {
	cfg, trace, _, service := single(t, 40, "arrivals.kind=poisson", "slo.ttft=1s")
	for _, want := range []int{0, 1, 7} {
		for i := range want {
			trace.Requests[5*i].Input = 1 << 28
		}
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		rate, err := j.full(t.Context())
		if err != nil || math.Abs(rate*service.Seconds()-1) > 1e-6 {
			t.Errorf("%d of 40 are too large: %v services a service time, %v", want, rate*service.Seconds(), err)
		}
		found, err := (&Search{Precision: 0.5}).find(t.Context(), cfg, trace)
		if err != nil || found.TooLarge != want {
			t.Errorf("%d of 40 are too large: %+v counted, %v", want, found, err)
		}
	}
}

// TestShortRuns: if the next rate attains the targets and fails only by growth, arrivals must span ten times the stay
// of the slowest requests; the report says so.
func TestShortRuns(t *testing.T) {
	for _, c := range []struct {
		n          int
		attainment float64
		saturated  bool
		want       bool
	}{
		{1000, 1, true, true}, {2500, 1, true, true}, {2501, 1, true, false},
		{1000, 0.98, true, false}, {1000, 0.99, false, false},
	} {
		next := Load{System: "l3", RatePerS: 2.5, Saturated: c.saturated, Measured: system.Measured{Attainment: c.attainment, E2E: results.Latency{P99: 100_040}}}
		a := &Row{Tried: []Load{{RatePerS: 2, Met: true, Measured: system.Measured{Attainment: 1}}, next}}
		a.settle(0)
		note := a.short(c.n, 0.99)
		if a.next == nil || a.RatePerS != 2 || (note == "") == c.want || c.want && !strings.Contains(note, "l3: the next rate, 2.5 requests/s") ||
			c.want && !strings.HasSuffix(note, "up to 100 s, so that a run this short may only show the node filling: --requests 2600 tells, and the rate may be higher") {
			t.Errorf("%+v: %v, %q", c, a.next, note)
		}
	}
}

// TestSteps: a climb without knowledge begins with a step of a twentieth, one above a rate that holds with the precision. A single server with
// evenly spaced arrivals keeps up to one a service; above that, each request waits.
func TestSteps(t *testing.T) {
	cfg, trace, prompt, service := single(t, 60, "arrivals.kind=trace")
	for i := range trace.Requests {
		trace.Requests[i].Arrival = units.Duration(i) * units.Second
	}
	cfg.SLO.TTFT = prompt + service/1000
	for _, x := range []struct {
		known, want float64 // relative to the climb's first rate; 1.03 is one a service
	}{
		{0, math.Sqrt(1.05)}, // 1 holds, 1.05 fails, their geometric mean 1.0247 holds, its mean with 1.05 fails
		{1, 1.02},            // 1.02 holds, 1.02 * 1.04 fails, their mean 1.0402 fails, less than a fiftieth above
	} {
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, e, from := &Contest{search: &Search{}, trace: trace, n: 60, ctx: t.Context()}, judged(j), 1/service.Seconds()/1.03
		e.held = c.rounded(x.known * from)
		if got := c.climb(e, from, 0.02); math.Abs(got/from/x.want-1) > 1e-5 || c.err != nil {
			t.Errorf("%v of it is known to hold: %v, want %v; %v", x.known, got/from, x.want, c.err)
		}
	}
}
