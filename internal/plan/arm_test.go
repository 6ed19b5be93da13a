package plan

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestArm: an arm begins at a start that holds the guess, or a quarter of it and so on, down to a minimum rate or one user. If several starts hold
// it, the best continues.
func TestArm(t *testing.T) {
	for name, x := range map[string]struct {
		rates        []float64
		users        bool
		guess, least float64
		want         int // -1 for none
	}{
		"the guess holds":                   {[]float64{10, 1, 30, 2, 20}, false, 9, 1, 2},
		"a quarter holds":                   {[]float64{10, 1, 3, 2, 9}, false, 40, 10, 0},
		"a quarter is below the least":      {[]float64{10, 1, 3, 2, 9}, false, 40, 10.1, -1},
		"a sixteenth holds":                 {[]float64{1, 1, 10, 2, 1}, false, 160, 1, 2},
		"the best of those that hold":       {[]float64{10, 1, 15, 2, 9}, false, 8, 1, 2},
		"as many users as are asked for":    {[]float64{10, 1, 3, 2, 9}, true, 9, 0.1, 0},
		"one user, of few":                  {[]float64{1, 1, 1, 1, 1}, true, 3, 0.0003, 0},
		"one user, of many":                 {[]float64{1, 1, 1, 1, 1}, true, 64, 0.1, 0},
		"no user":                           {[]float64{0.5, 0.5, 0.5, 0.5, 0.5}, true, 64, 0.1, -1},
		"no rate, though the least is low":  {[]float64{0.01, 0.01, 0.01, 0.01, 0.01}, false, 64, 0.1, -1},
		"a rate far below one is no matter": {[]float64{0.01, 0.01, 0.011, 0.01, 0.01}, false, 0.16, 0.001, 2},
	} {
		c := landscape(100, x.rates...)
		c.axes[0].starts, c.users = []int{4, 2, 0}, x.users
		if x.users { // the next number of users fails
			for _, e := range c.seen {
				e.failed = math.Floor(e.held) + 1
			}
		}
		got := c.arm([]int{0}, x.guess, x.least)
		if c.err != nil || (got.Point == nil) != (x.want < 0) {
			t.Errorf("%s: %+v, %v", name, got, c.err)
		} else if x.want >= 0 && (x.rates[got.Point[0]] != x.rates[x.want] || got.Rate != x.rates[x.want] || got.Requests != 100) {
			t.Errorf("%s: %+v, want place %d", name, got, x.want)
		}
	}
}

// TestAgain: a candidate is judged again by the requests of six mean stays, rounded to hundreds, at least as many as before and at most all; for
// users, by the same number as before.
func TestAgain(t *testing.T) {
	for _, x := range []struct {
		rate, stay float64 // seconds
		users      bool
		n, want    int
	}{
		{5, 20, false, 1000, 600}, {5.4, 20, false, 1000, 600}, {6.7, 20, false, 1000, 800}, {5, 1, false, 1000, 400}, {5, 200, false, 1000, 1000}, {5, 20, false, 500, 500}, {5, 20, true, 1000, 400},
	} {
		c := landscape(x.n, x.rate)
		c.users = x.users
		for _, n := range []int{400, x.want} {
			e := &entrant{point: []int{0}, n: n, judge: &Judge{}, held: x.rate, failed: x.rate * 1.08, best: Load{Measured: system.Measured{E2E: results.Latency{Mean: 1e3 * x.stay}}}}
			e.once.Do(func() {})
			c.seen[fmt.Sprint(e.point, n, []string(nil))] = e
		}
		if got := c.again(Candidate{Point: []int{0}, Rate: x.rate, Requests: 400}); got.Requests != x.want || got.Rate != x.rate || c.err != nil {
			t.Errorf("%+v: %+v, %v", x, got, c.err)
		}
	}
}

// served returns a contest of n requests for a single server without knobs, and its seconds for one request.
func served(t *testing.T, n int, sets ...string) (*Contest, float64) {
	t.Helper()
	all := append([]string{"arrivals.kind=poisson"}, sets...)
	cfg, trace, _, service := single(t, n, all...)
	o := configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=1", "batching.max_num_seqs=1"}, all...)}
	c, err := (&Search{Precision: 0.02}).Contest(o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	c.ctx = t.Context()
	return c, service.Seconds()
}

// TestGuess: the first guess is half the rate of a full queue; with users, the number asked for; without a served request, zero.
func TestGuess(t *testing.T) {
	c, service := served(t, 60, "slo.ttft=1s")
	if got := c.guess(nil); math.Abs(got*service*2-1) > 1e-6 || c.err != nil {
		t.Errorf("%v services, %v", got*service, c.err)
	}
	c, _ = served(t, 60, "slo.ttft=1s", "arrivals.kind=closed-loop", "arrivals.users=7")
	if got := c.guess(nil); got != 7 || c.asked != 7 || !c.users || c.err != nil {
		t.Errorf("%v users of %v, %v", got, c.asked, c.err)
	}
	c, _ = served(t, 60, "slo.ttft=1s", "arrivals.rate_per_s=3")
	for i := range c.trace.Requests {
		c.trace.Requests[i].Input = 1 << 28
	}
	if got, e := c.guess(nil), c.entrant(nil, 60); got != 0 || c.asked != 3 || e.judge != nil || e.err == nil || c.err != nil {
		t.Errorf("what serves nothing is guessed at %v, %v", got, c.err)
	}
}

// TestLonger: if a short run fails only because its queue grows, a run of two and a half times the requests decides, up to all of them. A missed target
// decides at once.
func TestLonger(t *testing.T) {
	c, service := served(t, 600, "slo.tbt=10s")
	e := c.entrant(nil, 200)
	if c.holds(e, 3/service) || c.err != nil || e.longer == nil || e.longer.n != 500 || e.longer.longer == nil || e.longer.longer.n != 600 || e.longer.longer.longer != nil {
		t.Fatalf("%+v, %v", e, c.err)
	}
	if last := e.longer.longer; len(e.fails) != 1 || e.fails[0].Name != queueGrows || e.came != 600 || e.failed != last.failed || last.failed != c.rounded(3/service) {
		t.Errorf("%+v; %+v", e, last)
	}
	if !c.holds(e, 0.1/service) || e.held == 0 || e.longer.held != e.held || e.best.E2E.Mean == 0 {
		t.Errorf("a tenth of the load: %+v", e)
	}
	if e = c.entrant(nil, 201); !c.holds(e, 0.1/service) || e.longer != nil {
		t.Errorf("a tenth of the load by few requests: %+v", e)
	}
	c, service = served(t, 600, "slo.p99.ttft=1ms")
	if e = c.entrant(nil, 200); c.holds(e, 3/service) || e.longer != nil || len(e.fails) != 2 || c.err != nil {
		t.Errorf("a percentile fails, too: %+v, %v", e, c.err)
	}
	c, service = served(t, 600, "slo.ttft=1ms")
	if e = c.entrant(nil, 200); c.holds(e, 3/service) || e.longer != nil || e.came >= 200 || c.err != nil {
		t.Errorf("%+v, %v", e, c.err)
	}
}

// TestLeave: an invalid point, or one that serves no request, holds no rate; any other error ends the contest, and the first
// one is kept.
func TestLeave(t *testing.T) {
	c, other, second := &Contest{}, errors.New("other"), errors.New("second")
	for _, x := range []struct{ err, ends error }{
		{&input.Error{Key: "k"}, nil}, {&system.RejectedError{}, nil}, {fmt.Errorf("of it: %w", &input.Error{Key: "k"}), nil}, {other, other}, {second, other}, {&input.Error{Key: "k"}, other},
	} {
		e := &entrant{judge: &Judge{}}
		if c.leave(e, x.err); e.judge != nil || e.err != x.err || c.err != x.ends {
			t.Errorf("%v: %v ends it, want %v", x.err, c.err, x.ends)
		}
	}
}

// TestAbove: the next rate is a step higher; with users, at least one more.
func TestAbove(t *testing.T) {
	rates, users := &Contest{}, &Contest{users: true}
	for _, x := range []struct {
		c                *Contest
		rate, step, want float64
	}{{rates, 10, 0.5, 15}, {rates, 1, 0.25, 1.25}, {users, 10, 0.5, 15}, {users, 1, 0.25, 2}, {users, 4, 0.25, 5}, {users, 40, 0.25, 50}} {
		if got := x.c.above(x.rate, x.step); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestContest: a contest has all requests, the rate or users asked for, and knobs if they are searched.
func TestContest(t *testing.T) {
	cfg, trace, _, _ := single(t, 60, "slo.ttft=1s", "arrivals.kind=poisson", "arrivals.rate_per_s=3")
	for _, tune := range []bool{false, true} {
		c, err := (&Search{Tune: tune}).Contest(configs.Options{}, cfg, trace)
		if err != nil || c.n != 60 || c.asked != 3 || c.users || (len(c.axes) > 0) != tune || c.Rate() != 0 {
			t.Errorf("%+v, %v", c, err)
		}
	}
	cfg.Arrivals.Kind, cfg.Arrivals.Users = traces.ArrivalsClosed, 9
	if c, err := (&Search{}).Contest(configs.Options{}, cfg, trace); err != nil || c.asked != 9 || !c.users {
		t.Errorf("%+v, %v", c, err)
	}
}
