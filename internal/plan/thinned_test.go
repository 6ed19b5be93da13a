package plan

import (
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestThinned: of 40 requests 4 remain, one of each ten by prompt. In each ten, the answers chosen are at 0, 618, 236 and 854 of 1,000: the first,
// seventh, third and ninth by length. They keep their order and arrive when the first four did. If requests share prompts, the first ones remain.
func TestThinned(t *testing.T) {
	all := &traces.Trace{Name: "some", Requests: make([]traces.Request, 40)}
	for i := range all.Requests {
		// Prompts fall, so that the first ten by prompt are the last ones; within each ten, answers fall and rise
		// with the prompt.
		all.Requests[i] = traces.Request{ID: i, Input: 100 - i, Output: 10 - i%10, Arrival: units.Duration(i) * units.Second}
	}
	cfg := &configs.Config{}
	got := thinned(all, 4, cfg)
	want := []traces.Request{{ID: 0, Input: 100 - 1, Output: 9}, {ID: 1, Input: 100 - 17, Output: 3}, {ID: 2, Input: 100 - 23, Output: 7}, {ID: 3, Input: 100 - 39, Output: 1}}
	for i := range want {
		want[i].Arrival = units.Duration(i) * units.Second
	}
	if !reflect.DeepEqual(got.Requests, want) || got.Name != "some" {
		t.Errorf("%s: %+v, want %+v", got.Name, got.Requests, want)
	}
	if !slices.IsSortedFunc(all.Requests, func(a, b traces.Request) int { return a.ID - b.ID }) || all.Requests[0].Arrival != 0 || all.Requests[39].Arrival != 39*units.Second {
		t.Error("the trace itself is changed")
	}
	for _, n := range []int{40, 41, 100} {
		if got := thinned(all, n, cfg); !reflect.DeepEqual(got, all.Repeated(n)) {
			t.Errorf("%d of 40: %d requests", n, len(got.Requests))
		}
	}
	shared := &configs.Config{}
	shared.Cache.Prefix = true
	if got := thinned(all, 4, shared); !reflect.DeepEqual(got, all.Repeated(4)) {
		t.Errorf("with shared prompts %+v", got.Requests)
	}
	follows := &traces.Trace{Requests: slices.Clone(all.Requests)}
	for i := range follows.Requests {
		follows.Requests[i].Turn = &traces.Turn{Number: i, Waits: true}
	}
	if got := thinned(follows, 4, cfg); !follows.Waits() || !reflect.DeepEqual(got, follows.Repeated(4)) {
		t.Errorf("with turns %+v", got.Requests)
	}
	// Equal prompts, or equal answers, keep their order.
	for i := range all.Requests {
		all.Requests[i] = traces.Request{ID: i, Input: 5, Output: 1 + i}
	}
	for _, swap := range []bool{false, true} {
		var places []int
		for _, q := range thinned(all, 4, cfg).Requests {
			places = append(places, max(q.Input, q.Output)-1)
		}
		if !slices.Equal(places[1:], []int{16, 22, 38}) {
			t.Errorf("swapped %v: %v", swap, places)
		}
		for i := range all.Requests {
			all.Requests[i].Input, all.Requests[i].Output = 1+i, 1
		}
	}
}

// TestMeter: each run reports how many requests arrived: all, or those until it ended.
func TestMeter(t *testing.T) {
	for _, x := range []struct {
		slo   string
		early bool
		all   bool // requests arrive
	}{{"slo.ttft=1000s", false, true}, {"slo.ttft=1000s", true, true}, {"slo.ttft=1us", false, true}, {"slo.ttft=1us", true, false}} {
		cfg, trace, _, _ := single(t, 100, "arrivals.kind=poisson", x.slo)
		var told []int64
		j, err := NewJudge(cfg, trace, func(n int64) { told = append(told, n) })
		if err != nil {
			t.Fatal(err)
		}
		l, err := j.run(t.Context(), 0.01, x.early)
		if err != nil || len(told) != 1 || told[0] != l.came || (l.came == 100) != x.all || l.came < 10 {
			t.Errorf("%+v: told of %v, %d came, %v", x, told, l.came, err)
		}
		if _, err := j.full(t.Context()); err != nil || len(told) != 2 || told[1] != 100 {
			t.Errorf("%+v: told of %v, %v", x, told, err)
		}
	}
}

// TestBuiltinRequests: a drawn workload has as many requests as asked for, none of them repeated.
func TestBuiltinRequests(t *testing.T) {
	for given, want := range map[string]int{"0": DefaultRequests, "3000": 3000, "50": 50} {
		cfg, err := system.Load(configs.Options{Sets: []string{"run.trace=synthetic", "traces.input_mean=300", "traces.input_std=100", "traces.output_mean=20", "traces.output_std=10", "run.requests=" + given}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Requests(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := *cfg
		c.Run.Requests = want
		drawn, err := system.LoadRequests(&c)
		if err != nil || len(got.Requests) != want || !reflect.DeepEqual(got.Requests, drawn.Requests) {
			t.Errorf("%s: %d requests, want %d, %v", given, len(got.Requests), want, err)
		}
	}
}

// TestTurnedAway: a request that is not served misses no target, whatever its times.
func TestTurnedAway(t *testing.T) {
	seen := tally{slo: &scheduler.SLO{TTFT: 1, TPOT: 1, E2E: 1}}
	seen.add(&results.Request{Outcome: results.Refused, Slow: true, Request: traces.Request{Output: 9}, FirstToken: units.Second, Finish: 9 * units.Second})
	if got := why(seen.failures(4)); got != "25% turned away" {
		t.Error(got)
	}
	none := tally{slo: &scheduler.SLO{TBT: 1}} // targets that are not set are not missed
	none.add(&results.Request{Slow: true, Request: traces.Request{Output: 9}, FirstToken: units.Second, Finish: 9 * units.Second})
	if got := why(none.failures(4)); got != "TBT missed by 25%" {
		t.Error(got)
	}
}

// TestSettle: the highest tried rate that holds is the answer, and the next one says what fails. If none holds, requests are alone if the second
// lowest rate gives the same latencies.
func TestSettle(t *testing.T) {
	slow := results.Latency{P99: 9}
	fails := []Failure{{"TTFT", 0.5}}
	load := func(rate float64, users int, met bool, m system.Measured) Load {
		l := Load{RatePerS: rate, Users: users, Met: met, Measured: m}
		if !met {
			l.Fails = fails
		}
		return l
	}
	same := system.Measured{TTFT: slow, TBT: slow, E2E: slow}
	for name, x := range map[string]struct {
		tried   []Load
		rate    float64
		users   int
		highest float64
		next    int // -1 for none
		alone   bool
	}{
		"the last holds":       {[]Load{load(1, 0, true, same), load(2, 0, true, same)}, 2, 0, 2, -1, false},
		"the first holds":      {[]Load{load(1, 0, true, same), load(2, 0, false, same), load(3, 0, false, same)}, 1, 0, 1, 1, false},
		"users":                {[]Load{load(1, 8, true, same), load(2, 9, false, same)}, 1, 8, 8, 1, false},
		"no user":              {[]Load{load(1, 1, false, same), load(2, 2, false, system.Measured{})}, 0, 0, 0, 0, false},
		"one that fails":       {[]Load{load(1, 0, false, same)}, 0, 0, 0, 0, true},
		"none waits":           {[]Load{load(1, 0, false, same), load(2, 0, false, same), load(3, 0, false, system.Measured{})}, 0, 0, 0, 0, true},
		"some wait":            {[]Load{load(1, 0, false, same), load(2, 0, false, system.Measured{TBT: slow, E2E: slow})}, 0, 0, 0, 0, false},
		"some wait in a gap":   {[]Load{load(1, 0, false, same), load(2, 0, false, system.Measured{TTFT: slow, E2E: slow})}, 0, 0, 0, 0, false},
		"some wait at the end": {[]Load{load(1, 0, false, same), load(2, 0, false, system.Measured{TTFT: slow, TBT: slow})}, 0, 0, 0, 0, false},
	} {
		r := &Row{Tried: x.tried}
		r.settle(0)
		var next *Load
		var limit []Failure
		if x.next >= 0 {
			next, limit = &r.Tried[x.next], fails
		}
		if r.RatePerS != x.rate || r.Users != x.users || r.Highest != x.highest || r.next != next || r.Alone != x.alone || !slices.Equal(r.Limit, limit) || r.Dips || r.Asked != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
