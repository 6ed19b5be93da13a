package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

// quick is the settings of a node that is planned at once: no knob is searched.
var quick = []string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=1", "node.gpus=1", "model.tensor_parallel=1", "gpu_only.policy=chunked-prefill",
	"batching.max_num_batched_tokens=2048", "batching.max_num_seqs=8", "memory.admission=current", "memory.history=0", "arrivals.kind=poisson", "slo.ttft=1s"}

// planned returns a combination of settings and requests, and its planner.
func planned(t *testing.T) (*planner, *planning) {
	t.Helper()
	p := &planner{app: &app{&cli.App{}}, search: plan.Search{Precision: 0.5, Tune: true}}
	c := &planning{Combination: &sweep.Combination{Options: configs.Options{Sets: quick}}, trace: &traces.Trace{Name: "equal", Requests: make([]traces.Request, 50)}}
	for i := range c.trace.Requests {
		c.trace.Requests[i] = traces.Request{ID: i, Input: 10, Output: 2}
	}
	var err error
	if c.cfg, err = plan.AsGiven(c.Options); err == nil {
		c.contest, err = p.search.Contest(c.Options, c.cfg, c.trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// TestDecide: a judged combination has a row and the load of its rate. An interrupted one is neither a row nor a misfit.
func TestDecide(t *testing.T) {
	p, c := planned(t)
	if err := p.decide(t.Context(), c); err != nil || c.row == nil || c.row.Highest == 0 || len(c.row.Tried) != 1 || c.row.Tried[0].RatePerS != c.row.Highest || c.row.Summary == nil || c.row.Config == nil || c.unfit != nil {
		t.Errorf("%+v, %v", c, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	p, c = planned(t)
	if err := p.decide(ended, c); !errors.Is(err, context.Canceled) || c.row != nil || c.unfit != nil {
		t.Errorf("interrupted: %v, row %v", err, c.row)
	}
}

// TestCompareEnds: an interruption also ends a comparison of knobs, and nothing of it is kept.
func TestCompareEnds(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	p, c := planned(t)
	c.Options.Sets = append([]string{"memory.admission=max"}, quick[:7]...) // the batch limit is searched
	c.Options.Sets = append(c.Options.Sets, "arrivals.kind=poisson", "slo.ttft=1s")
	var err error
	if c.cfg, err = plan.AsGiven(c.Options); err == nil {
		c.contest, err = p.search.Contest(c.Options, c.cfg, c.trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.compare(ended, c); !errors.Is(err, context.Canceled) || len(c.contest.Candidates) != 0 {
		t.Errorf("%v, %d candidates", err, len(c.contest.Candidates))
	}
}

// TestRowCommand: a row's command asks for the load that the row holds; if it holds none, for the requested load.
func TestRowCommand(t *testing.T) {
	const set = " --set batching.max_num_seqs=8"
	load := func(rate float64, users int) plan.Load { return plan.Load{RatePerS: rate, Users: users} }
	for _, x := range []struct {
		flags []string
		row   plan.Row
		want  string
	}{
		{nil, plan.Row{Load: load(2.5, 0), Highest: 2.5}, set + " --rate 2.5"},
		{nil, plan.Row{}, set},
		{[]string{"--rate", "9"}, plan.Row{Load: load(9, 0), Highest: 12, Asked: &plan.Asked{Met: true}}, " --rate 9" + set},
		{[]string{"--rate", "9"}, plan.Row{Load: load(2.5, 0), Highest: 2.5, Asked: &plan.Asked{}}, set + " --rate 2.5"},
		{[]string{"--rate", "9"}, plan.Row{Asked: &plan.Asked{}}, " --rate 9" + set},
		{[]string{"--users", "40"}, plan.Row{Load: load(7.5, 40), Highest: 60, Asked: &plan.Asked{Met: true}}, set + " --users 40"},
		{[]string{"--users", "40"}, plan.Row{Load: load(2.5, 12), Highest: 12, Asked: &plan.Asked{}}, set + " --users 12"},
		{[]string{"--users", "40"}, plan.Row{Asked: &plan.Asked{}}, " --users 40" + set},
	} {
		x.row.Sets = []string{"batching.max_num_seqs=8"}
		p, cmd := &planner{app: &app{&cli.App{}}}, &cobra.Command{Use: "l3sim"}
		p.register(cmd)
		if err := cmd.ParseFlags(append([]string{"--gpus", "2"}, x.flags...)); err != nil {
			t.Fatal(err)
		}
		if got := p.command(cmd, &planning{Combination: &sweep.Combination{}, row: &x.row}); got != "l3sim capacity --gpus 2"+x.want {
			t.Errorf("%q with a row of %v: %s", x.flags, x.row.Highest, got)
		}
	}
}

// TestRowRuns: each tried load is a run at its own rate or users, with all requests of the trace. The row's own load has the combination's
// bare name.
func TestRowRuns(t *testing.T) {
	trace := &traces.Trace{Requests: make([]traces.Request, 70)}
	summary := &results.Summary{}
	for _, x := range []struct {
		row   plan.Load
		tried []plan.Load
		point string
		want  []string // name, rate and users of each
	}{
		{plan.Load{RatePerS: 2}, []plan.Load{{RatePerS: 1}, {RatePerS: 2}, {RatePerS: 2.04}}, "l3", []string{"l3,rate=1 1 0", "l3 2 0", "l3,rate=2.04 2.04 0"}},
		{plan.Load{RatePerS: 2}, []plan.Load{{RatePerS: 1}, {RatePerS: 2}}, "", []string{"rate=1 1 0", "default 2 0"}},
		{plan.Load{}, []plan.Load{{RatePerS: 0.5}, {RatePerS: 1}}, "l3", []string{"l3,rate=0.5 0.5 0", "l3,rate=1 1 0"}},
		{plan.Load{RatePerS: 2, Users: 3}, []plan.Load{{RatePerS: 1.5, Users: 2}, {RatePerS: 2, Users: 3}, {RatePerS: 2, Users: 4}}, "l3", []string{"l3,users=2 0 2", "l3 0 3", "l3,users=4 0 4"}},
	} {
		for i := range x.tried {
			x.tried[i].Summary = summary
		}
		c := &planning{Combination: &sweep.Combination{Point: x.point}, trace: trace, row: &plan.Row{Load: x.row, Tried: x.tried, Config: &configs.Config{}}}
		c.row.Config.Run.Requests = 5
		var got []string
		for _, r := range c.runs() {
			got = append(got, fmt.Sprint(r.Name, " ", r.Config.Arrivals.RatePerS, " ", r.Config.Arrivals.Users))
			if r.Config.Run.Requests != 70 || r.Trace != trace || r.Summary != summary {
				t.Errorf("%s: %d requests", r.Name, r.Config.Run.Requests)
			}
		}
		if !reflect.DeepEqual(got, x.want) || c.row.Config.Run.Requests != 5 {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
