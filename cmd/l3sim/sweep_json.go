package main

import (
	"context"

	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
)

// sweepResult is the JSON of a sweep: what became of its points. Their results are in
// the folder.
type sweepResult struct {
	Schema  string        `json:"schema"`
	Shard   string        `json:"shard,omitempty"` // "i/N" of a shard
	Points  int           `json:"points"`
	Ran     int           `json:"ran"`
	Reused  int           `json:"from_journal"`
	Failed  int           `json:"failed"`
	Missing int           `json:"missing"` // with --fail-fast: not run
	Out     string        `json:"out"`
	Faults  []failedPoint `json:"failed_points"`
}

// failedPoint is a point whose run failed, and why.
type failedPoint struct {
	Point string `json:"point"`
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

// newSweepResult returns the JSON of a sweep, or of one shard of it.
func newSweepResult(plan *sweep.Plan, part *sweep.Part, o *sweep.Outcome, out string) *sweepResult {
	r := &sweepResult{
		Schema: "l3sim/sweep/1", Points: len(plan.Points), Ran: o.Ran, Reused: o.Reused, Failed: o.Failed, Missing: o.Missing,
		Out: out, Faults: failures(plan.Points, o),
	}
	if part != nil {
		r.Shard = part.Shard.String()
	}
	return r
}

// failures returns the points that failed.
func failures(points []sweep.Point, o *sweep.Outcome) []failedPoint {
	all := []failedPoint{}
	for i, e := range o.Entries {
		if e != nil && e.Status == results.StatusFailed {
			all = append(all, failedPoint{points[i].Name, points[i].Seed, failureOf(&points[i], e)})
		}
	}
	return all
}

// failureOf says why a point failed, with the place in the sweep file where that is
// known.
func failureOf(p *sweep.Point, e *sweep.Entry) string {
	if p.Err != nil {
		return p.Err.Error()
	}
	return e.Error
}

// plannedPoint is a point in the JSON of a dry run.
type plannedPoint struct {
	Point        string `json:"point"`
	Seed         uint64 `json:"seed"`
	Requests     int    `json:"requests"`
	OutputTokens int64  `json:"output_tokens"`
	State        string `json:"state"` // "to run", "will fail", "done" or "failed"
	Error        string `json:"error,omitempty"`
}

// pointState returns the status of a point that the journal has, or says whether it will fail or is to run.
func pointState(p *sweep.Point, done map[string]*sweep.Entry) string {
	switch e := done[p.Hash]; {
	case e != nil:
		return e.Status
	case p.Err != nil:
		return "will fail"
	}
	return "to run"
}

// dryRunJSON is dryRun for programs.
func (a *app) dryRunJSON(ctx context.Context, plan *sweep.Plan, done map[string]*sweep.Entry, workers int) error {
	e, err := plan.Estimate(ctx, done, workers)
	if err != nil {
		return err
	}
	out := struct {
		Schema    string         `json:"schema"`
		Points    []plannedPoint `json:"points"`
		ToRun     int            `json:"to_run"`
		Workers   int            `json:"workers"`
		EstimateS float64        `json:"estimate_s"` // of those to run
	}{Schema: "l3sim/sweep_plan/1", Points: []plannedPoint{}, ToRun: e.Points, Workers: e.Workers, EstimateS: e.Wall.Seconds()}
	for i := range plan.Points {
		p := &plan.Points[i]
		j := plannedPoint{p.Name, p.Seed, p.Requests, p.Tokens, pointState(p, done), ""}
		switch e := done[p.Hash]; {
		case e != nil:
			j.Error = e.Error
		case p.Err != nil:
			j.Error = p.Err.Error()
		}
		out.Points = append(out.Points, j)
	}
	return results.WriteJSON(a.Stdout, out)
}
