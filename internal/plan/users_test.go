package plan

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestUsers: each of n users of a single server waits for n - 1 services, so a target of m + 1/2 services holds m + 1 users. Users who
// were asked for and hold are the answer; if a single user misses the target, the answer is none.
func TestUsers(t *testing.T) {
	for _, x := range []struct {
		asked, waits, want int
		highest            bool // the answer is the highest number
	}{{2, 2, 2, false}, {3, 2, 3, false}, {4, 2, 3, true}, {9, 0, 1, true}, {1, 0, 1, false}, {13, 4, 5, true}, {1, -1, 0, true}, {3, -1, 0, true}} {
		cfg, trace, prompt, service := single(t, 60, "arrivals.kind=closed-loop", fmt.Sprint("arrivals.users=", x.asked))
		cfg.SLO.TTFT = max(prompt+service*units.Duration(2*x.waits+1)/2, prompt/2)
		a, err := (&Search{Precision: 0.02}).find(t.Context(), cfg, trace)
		if err != nil {
			t.Fatal(err)
		}
		if a.Users != x.want || a.Met != (x.want > 0) || a.Highest != float64(x.want) || a.Asked.Users != x.asked || a.Asked.Met == x.highest || (a.RatePerS > 0) != (x.want > 0) {
			t.Errorf("%+v: %d users at %v requests/s, met %v, asked %+v", x, a.Users, a.RatePerS, a.Met, a.Asked)
		}
		if x.highest && x.want > 0 && (a.next == nil || a.next.Users != x.want+1 || a.Asked.Nodes != (x.asked+x.want-1)/x.want) {
			t.Errorf("%+v: next %+v, %d nodes", x, a.next, a.Asked.Nodes)
		}
		// If requests wait for one another, a user is served once in as many services as there are users.
		if load := a.RatePerS * service.Seconds(); x.want > 0 && math.Abs(load-1) > 0.1 {
			t.Errorf("%+v: a load of %v", x, load)
		}
	}
}

// TestFirstOfUsers: the first request of each user is not measured, as all arrive at once; but never more than half of the requests
// are left out.
func TestFirstOfUsers(t *testing.T) {
	for _, x := range []struct{ n, users, from, to int }{
		{100, 0, 10, 90}, {100, 10, 10, 90}, {100, 11, 11, 90}, {100, 50, 50, 90}, {100, 51, 50, 90}, {100, 1000, 50, 90}, {50, 1, 5, 45}, {51, 30, 25, 46}, {2500, 300, 300, 2250},
	} {
		if from, to := measured(x.n, x.users); from != x.from || to != x.to {
			t.Errorf("%+v: from %d to %d", x, from, to)
		}
	}
	cfg, trace, _, _ := single(t, 60, "arrivals.kind=closed-loop", "arrivals.users=1", "slo.ttft=1000s")
	for i := range 12 { // too large for any memory
		trace.Requests[i].Input = 1 << 28
	}
	j, err := NewJudge(cfg, trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	for users, want := range map[float64]float64{5: 42. / 48, 11: 42. / 43, 12: 1, 13: 1} {
		l, err := j.run(t.Context(), users, false)
		early, bad := j.run(t.Context(), users, true)
		if err != nil || bad != nil || l.Attainment != want || l.Met != (want == 1) || early.Met != l.Met {
			t.Errorf("%v users: attainment %v, want %v, met %v and %v; %v, %v", users, l.Attainment, want, l.Met, early.Met, err, bad)
		}
	}
}

// TestBetween: the search continues while the ratio of a failing rate to a holding one is above the precision; between two successive
// numbers of users there is nothing to try.
func TestBetween(t *testing.T) {
	rates, users := &Contest{}, &Contest{users: true}
	for _, x := range []struct {
		c                       *Contest
		held, failed, precision float64
		want                    bool
	}{
		{rates, 100, 102.1, 0.02, true}, {rates, 100, 101.9, 0.02, false}, {rates, 100, 103, 0.05, false}, {rates, 3, 4, 0.02, true}, {rates, 0.5, 0.6, 0.02, true},
		{users, 3, 4, 0.02, false}, {users, 3, 5, 0.02, true}, {users, 100, 102, 0.02, false}, {users, 100, 103, 0.02, true}, {users, 1, 2, 0.02, false},
	} {
		if got := x.c.between(x.held, x.failed, x.precision); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
	for rate, want := range map[float64][2]float64{1.23456789: {1.23457, 1}, 2.5: {2.5, 3}, 0.2: {0.2, 1}, 1234567: {1.23457e6, 1234567}} {
		if got := [2]float64{rates.rounded(rate), users.rounded(rate)}; got != want {
			t.Errorf("%v is rounded to %v", rate, got)
		}
	}
}

// TestTried: an answer has the loads at shares of its rate, and the next rate, which fails, within the precision; a holding rate that was asked
// for is the only load. A search of knobs, which knows a holding rate, skips the shares.
func TestTried(t *testing.T) {
	cfg, trace, prompt, service := single(t, 100, "arrivals.kind=poisson", "slo.attainment=0.9")
	cfg.SLO.TTFT = prompt + 2*service
	rates := func(a *Row) (all []float64) {
		for _, l := range a.Tried {
			all = append(all, l.RatePerS)
		}
		return all
	}
	for _, precision := range []float64{0.01, 0.1} {
		s := &Search{Precision: precision}
		a, err := s.find(t.Context(), cfg, trace)
		if err != nil {
			t.Fatal(err)
		}
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		best, c := a.RatePerS, &Contest{search: s, trace: trace, n: len(trace.Requests), ctx: t.Context()}
		want := []float64{c.rounded(best / 4), c.rounded(best / 2), c.rounded(best * 3 / 4), c.rounded(best * 9 / 10), best, a.next.RatePerS}
		if got := rates(a); !reflect.DeepEqual(got, want) || a.next.Met || a.next.RatePerS > (1+precision)*best || a.Highest != best || a.Asked != nil {
			t.Errorf("to %v: %v, want %v", precision, got, want)
		}
		known, err := c.answer(judged(j), best)
		if err != nil {
			t.Fatal(err)
		}
		if got := rates(known); len(got) != 2 || got[0] < best || known.next.Met || got[1] != known.next.RatePerS || got[1] > (1+precision)*got[0] {
			t.Errorf("from a rate that holds: %v, want %v and one that fails", got, best)
		}
		c.asked = best / 2
		if known, err = c.answer(judged(j), best); err != nil {
			t.Fatal(err)
		}
		if got := rates(known); !reflect.DeepEqual(got, []float64{best / 2}) || known.RatePerS != best/2 || known.Highest < best {
			t.Errorf("half of what holds is asked for: %v, the highest is %v", got, known.Highest)
		}
		cfg.Arrivals.RatePerS = 2 * best
		if a, err = s.find(t.Context(), cfg, trace); err != nil {
			t.Fatal(err)
		}
		if got := rates(a); !slices.Contains(got, 2*best) || a.RatePerS < best/(1+precision) || a.RatePerS > best*(1+precision) || a.Asked.RatePerS != 2*best || a.Asked.Met {
			t.Errorf("twice of what holds is asked for: %v", got)
		}
		cfg.Arrivals.RatePerS = 0
	}
}
