package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/l3sim/l3sim/results/tables"
)

// Report is the outcome of a sweep's points as JSON. Their results are in the folder.
type Report struct {
	Schema string `json:"schema"`
	Shard  string `json:"shard,omitempty"` // "i/N" of a shard
	Points int    `json:"points"`
	Draws  int    `json:"draws,omitempty"` // per point; runs, below, include them
	*Progress
	Failed int           `json:"failed"`
	Faults []FailedPoint `json:"failed_points"`
}

// Progress is the part of a sweep that one run of the program did; the results do not depend on it.
type Progress struct {
	Ran     int    `json:"ran"`
	Reused  int    `json:"from_journal"`
	Missing int    `json:"missing"` // not run, with --fail-fast
	Out     string `json:"out"`
}

const reportSchema = "l3sim/sweep/1" // names the form of Report's JSON

// FailedPoint is a point whose run failed, and why.
type FailedPoint struct {
	Point string `json:"point"`
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

// NewReport returns the JSON of a sweep, or of one shard of it.
func NewReport(plan *Plan, part *Part, o *Outcome, out string) *Report {
	r := &Report{
		Schema: reportSchema, Points: len(plan.own()), Draws: plan.draws(), Progress: &Progress{o.Ran, o.Reused, o.Missing, out}, Failed: o.Failed, Faults: Failures(plan.Points, o),
	}
	if part != nil {
		r.Shard = part.Shard.String()
	}
	return r
}

// Failures returns the points that failed.
func Failures(points []Point, o *Outcome) []FailedPoint {
	all := []FailedPoint{}
	for i, e := range o.Entries {
		if e != nil && e.Status == tables.StatusFailed {
			why := e.Error
			if err := points[i].Err; err != nil {
				why = err.Error() // with the place in the sweep file
			}
			name := points[i].Name
			if d := points[i].draw; d != nil {
				name += fmt.Sprintf(", draw %d", d.index)
			}
			all = append(all, FailedPoint{name, points[i].Seed, why})
		}
	}
	return all
}

// PlannedPoint is a point in the JSON of a dry run.
type PlannedPoint struct {
	Point        string `json:"point"`
	Seed         uint64 `json:"seed"`
	Requests     int    `json:"requests"`
	OutputTokens int64  `json:"output_tokens"`
	State        string `json:"state"` // "to run", "will fail", "done" or "failed"
	Error        string `json:"error,omitempty"`
}

// PlanReport is a plan as a dry run prints it.
type PlanReport struct {
	Schema    string         `json:"schema"`
	Points    []PlannedPoint `json:"points"`
	ToRun     int            `json:"to_run"`
	Workers   int            `json:"workers"`
	EstimateS float64        `json:"estimate_s"` // seconds that the points to run will take
	Estimate  *Estimate      `json:"-"`
	Size      string         `json:"-"` // as Plan.Size
}

// Report describes a plan's points, of which done are recorded, and estimates the time of the others.
func (p *Plan) Report(ctx context.Context, done map[string]*Entry, workers int) (*PlanReport, error) {
	e, err := p.Estimate(ctx, done, workers)
	if err != nil {
		return nil, err
	}
	r := &PlanReport{Schema: "l3sim/sweep_plan/1", Points: []PlannedPoint{}, ToRun: e.Points, Workers: e.Workers, EstimateS: e.Wall.Seconds(), Estimate: e, Size: p.Size()}
	for i := range p.own() {
		x := &p.Points[i]
		j := PlannedPoint{x.Name, x.Seed, x.Requests, x.Tokens, "to run", ""}
		switch e := done[x.Hash]; {
		case e != nil:
			j.State, j.Error = e.Status, e.Error
		case x.Err != nil:
			j.State, j.Error = "will fail", x.Err.Error()
		}
		r.Points = append(r.Points, j)
	}
	return r, nil
}

// RoundTime rounds a duration to the precision of an estimate.
func RoundTime(d time.Duration) time.Duration {
	switch {
	case d > time.Minute:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}
