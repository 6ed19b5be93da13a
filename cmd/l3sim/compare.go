package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// comparison is the runs of several systems or models.
type comparison struct {
	plan *sweep.Plan

	mu   sync.Mutex
	runs map[string]*comparedRun // by Point.Hash
}

// comparedRun is the part of one run that a comparison keeps.
type comparedRun struct {
	node   *system.Node
	result *system.Result
	sweep.Run
}

// compare runs a comparison and prints a table with a row per system or model, or one JSON object.
func (a *app) compare(ctx context.Context, file *design.File, f *runFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	version, err := "", error(nil)
	if f.out != "" {
		version, err = sweep.CodeVersion()
	}
	if err != nil {
		return err
	}
	if err := a.oneLayout(file); err != nil {
		return err
	}
	if f.dryRun {
		plan, err := sweep.NewPlan(file, version)
		if err != nil {
			return err
		}
		a.noteLayouts(plan)
		return a.compareHardware(&comparison{plan: plan})
	}
	if err := f.writable(); err != nil {
		return err
	}
	c, outcome, err := a.runAll(ctx, file, version, options)
	if err != nil {
		return err
	}
	plan := c.plan
	plan.KeepBest(outcome)
	names, done := c.done(outcome)
	a.noteWarnings(names, done)
	a.noteLayouts(plan)
	late := f.inWindow(options.Timeline, c.end())
	recordings, err := c.write(f, outcome)
	if err != nil {
		return err
	}
	if f.timeline != "" && late == nil {
		if err := writeTimeline(f.timeline, recordings); err != nil {
			return err
		}
		a.noteWindow(f, recordings)
	}
	print := func(w io.Writer) error { return results.WriteRuns(w, names, done) }
	if f.full {
		print = func(w io.Writer) error { return printComparison(w, plan, outcome) }
	}
	if err := a.Print(c.summaries(outcome), print); err != nil {
		return err
	}
	for _, p := range sweep.Failures(plan.Points, outcome) {
		a.Warn("%s failed: %s", p.Point, p.Error)
	}
	if err := failedPoints(plan.Points, outcome); err != nil {
		return err
	}
	return late
}

// oneLayout gives all rows of a comparison the same GPUs per replica, with a note.
func (a *app) oneLayout(file *design.File) error {
	changes, err := sweep.OneLayout(file)
	for _, change := range changes {
		a.Note("%s", change)
	}
	return err
}

// noteLayouts says where points of one model differ in the GPUs per replica.
func (a *app) noteLayouts(plan *sweep.Plan) {
	for _, text := range plan.Layouts() {
		a.Note("%s", text)
	}
}

// runAll runs the points of a file, and keeps all results of each.
func (a *app) runAll(ctx context.Context, file *design.File, version string, o system.Options) (*comparison, *sweep.Outcome, error) {
	plan, err := sweep.NewPlan(file, version)
	if err != nil {
		return nil, nil, err
	}
	c := &comparison{plan: plan, runs: map[string]*comparedRun{}}
	plan.Simulate = func(ctx context.Context, p *sweep.Point, cfg *configs.Config, t *traces.Trace) (*results.Summary, error) {
		return c.simulate(ctx, p, cfg, t, o)
	}
	outcome, err := a.runPlan(ctx, plan, sweep.RunOptions{})
	return c, outcome, err
}

func (c *comparison) simulate(ctx context.Context, p *sweep.Point, cfg *configs.Config, t *traces.Trace, o system.Options) (*results.Summary, error) {
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	result, err := node.Run(ctx, t, o)
	if err != nil {
		return nil, err
	}
	summary, err := result.Summary(cfg)
	if err != nil {
		return nil, err
	}
	for _, r := range result.Recordings {
		r.Run = p.Name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[p.Hash] = &comparedRun{node, result, sweep.Run{Name: "default", Config: cfg, Trace: t, Summary: summary}}
	return summary, nil
}

// end returns the simulated seconds of the longest run.
func (c *comparison) end() float64 {
	end := 0.0
	for i := range c.plan.Points {
		if r := c.runs[c.plan.Points[i].Hash]; r != nil {
			end = max(end, r.Summary.SimulatedS)
		}
	}
	return end
}

// write writes the requested folders (one of all runs, in it one for each) and returns the recordings of all runs.
func (c *comparison) write(f *runFlags, o *sweep.Outcome) (recordings []*system.Recording, err error) {
	for i := range c.plan.Points {
		p := &c.plan.Points[i]
		r := c.runs[p.Hash]
		if r == nil {
			continue // it failed
		}
		recordings = append(recordings, r.result.Recordings...)
		folder := strings.NewReplacer("/", "_", `\`, "_").Replace(p.Name)
		if f.plots != "" {
			ext := filepath.Ext(f.page())
			if err := plotRun(strings.TrimSuffix(f.page(), ext)+"-"+folder+ext, r.node, r.result, r.Summary.ConfigSHA256); err != nil {
				return nil, err
			}
		}
		if f.out != "" {
			if err := f.writeRun(filepath.Join(f.out, folder), c.plan.FileOf(p), &r.Run, r.result); err != nil {
				return nil, err
			}
		}
	}
	if f.out == "" {
		return recordings, nil
	}
	all, err := c.plan.Folder("run", o, func(w io.Writer) error { return results.WriteJSON(w, c.summaries(o)) })
	if err != nil {
		return nil, err
	}
	return recordings, cli.WriteFiles("--out", f.out, all.Files())
}

// comparedJSON is the JSON of several runs.
type comparedJSON struct {
	Schema string              `json:"schema"`
	Runs   []*results.Summary  `json:"runs"` // each as for a single run, in the order of the flags
	Failed []sweep.FailedPoint `json:"failed_points"`
}

func (c *comparison) summaries(o *sweep.Outcome) *comparedJSON {
	out := &comparedJSON{"l3sim/runs/2", []*results.Summary{}, sweep.Failures(c.plan.Points, o)}
	for _, e := range o.Entries {
		if e.Summary != nil {
			named := *e.Summary
			named.Schema = results.Schema
			out.Runs = append(out.Runs, &named)
		}
	}
	return out
}

// done returns the runs that did not fail, and their names.
func (c *comparison) done(o *sweep.Outcome) (names []string, runs []*results.Summary) {
	for i, e := range o.Entries {
		if e.Summary != nil {
			names, runs = append(names, c.plan.Points[i].Name), append(runs, e.Summary)
		}
	}
	return names, runs
}

// printComparison prints the main columns of all runs, a row each.
func printComparison(w io.Writer, plan *sweep.Plan, outcome *sweep.Outcome) error {
	all, err := plan.Table(outcome)
	if err != nil {
		return err
	}
	columns := slices.Concat(plan.Keys, all.Headline())
	if outcome.Failed > 0 {
		columns = append(columns, tables.ErrorColumn)
	}
	chosen, err := all.Choose("--columns", columns)
	if err != nil {
		return err
	}
	t, legend := all.Marked(chosen)
	for i := range plan.Keys {
		t.Columns[i] = strings.TrimPrefix(strings.TrimSuffix(t.Columns[i], ".preset"), "run.")
	}
	return cmp.Or(t.WriteText(w), writeLegend(w, legend))
}

func (a *app) compareHardware(c *comparison) error {
	all := []system.Hardware{}
	for i := range c.plan.Points {
		cfg, err := c.plan.Config(&c.plan.Points[i])
		if err != nil {
			return err
		}
		h, err := hardwareOf(cfg)
		if err != nil {
			return err
		}
		all = append(all, h)
	}
	out := struct {
		Schema string            `json:"schema"`
		Runs   []system.Hardware `json:"runs"`
	}{"l3sim/hardware/1", all}
	return a.Print(out, func(w io.Writer) error {
		for i, h := range all {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := h.WriteText(w); err != nil {
				return err
			}
		}
		return nil
	})
}

func hardwareOf(cfg *configs.Config) (h system.Hardware, err error) {
	moments, err := system.TraceMoments(cfg)
	if err != nil {
		return h, err
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return h, err
	}
	return node.Hardware(moments), nil
}
