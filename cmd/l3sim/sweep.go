package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/sweep"
)

// sweepFlags are the flags of the sweep command.
type sweepFlags struct {
	out                     string
	workers                 int
	dryRun, force, failFast bool
}

func (a *app) newSweepCommand() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep FILE.toml",
		Short: "Run many configurations, resumable at any moment",
		Long: `Run many configurations, resumable at any moment.

FILE.toml lists points of the design space:

  config = "node.toml"            # overlay under all points, relative to FILE, optional
  repeats = 3                     # seeds of each point from run.seed upwards, 1 without
  where = ["node.ranksets * node.channels <= 64", 'run.model != "opt-66b"']
  [set]                           # keys that all points share
  run.requests = 200
  [grid]                          # each key an axis of its own
  node.ranksets = [2, 4, 8]
  [[zip]]                         # arrays that advance together, one axis
  name = ["small", "large"]
  node.channels = [8, 16]
  node.memory_capacity = ["1TiB", "2TiB"]
  [[list]]                        # all [[list]] entries: one axis, written out
  name = "two sub-batches"
  scheduler.sub_batches = 2

Points are all combinations of the axes; the last axis changes fastest. --out gets
results.csv, a row a point, each point's summary in points/, and journal.jsonl, from
which the same command goes on after any interruption: what it holds of the same
configuration, trace and program never runs again.`,
		Example: `  l3sim sweep examples/ranks.toml --dry-run
  l3sim sweep examples/ranks.toml --out results/ranks`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.sweep(cmd.Context(), args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "`folder` of the results and the journal")
	flags.IntVar(&f.workers, "workers", 0, "points that run at a time; 0 for one a core")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list the points and an estimate of the time, and stop")
	flags.BoolVar(&f.force, "force", false, "run the points that the journal holds, too")
	flags.BoolVar(&f.failFast, "fail-fast", false, "stop at the first point that fails")
	return cmd
}

// sweep plans and runs a sweep file.
func (a *app) sweep(ctx context.Context, path string, f *sweepFlags) error {
	if f.workers < 0 || f.workers > 4096 {
		return &input.InputError{Key: "--workers", Value: fmt.Sprint(f.workers), Expected: "0 to 4096"}
	}
	if f.out == "" && !f.dryRun {
		return &input.InputError{Key: "--out", Expected: "a folder for the results (or --dry-run)"}
	}
	plan, err := planSweep(path)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(ctx, plan, f)
	}
	if err := creatable(f.out); err != nil {
		return err
	}
	journal, err := sweep.OpenJournal(f.out)
	if err != nil {
		return err
	}
	defer journal.Close()
	if n := journal.Damaged(); n > 0 && !a.quiet {
		fmt.Fprintf(a.stderr, "l3sim: %s of the journal cannot be read; those points run again\n", plural(n, "line", "lines"))
	}
	outcome, err := a.runPlan(ctx, plan, sweep.RunOptions{Journal: journal, Workers: f.workers, Force: f.force, FailFast: f.failFast})
	if err != nil {
		if !a.quiet {
			fmt.Fprintf(a.stderr, "l3sim: %d of %d points are recorded; the same command goes on from there\n",
				len(plan.Points)-outcome.Missing, len(plan.Points))
		}
		return err
	}
	if outcome.Missing == 0 {
		if err := plan.Write(f.out, outcome); err != nil {
			return fmt.Errorf("--out %s: %w", f.out, err)
		}
		fmt.Fprintf(a.stdout, "%s: %d run, %d taken from the journal, %d failed; results in %s\n",
			plural(len(plan.Points), "point", "points"), outcome.Ran, outcome.Reused, outcome.Failed, f.out)
	}
	return failedPoints(plan, outcome)
}

// planSweep reads a sweep file and expands it.
func planSweep(path string) (*sweep.Plan, error) {
	file, err := sweep.ReadFile(path)
	if err != nil {
		return nil, err
	}
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	return sweep.NewPlan(file, version)
}

// runPlan carries out a plan under a progress display.
func (a *app) runPlan(ctx context.Context, plan *sweep.Plan, o sweep.RunOptions) (*sweep.Outcome, error) {
	show := a.newProgress("points")
	show.Start(int64(len(plan.Points)))
	defer show.Done()
	o.Progress = func(done, _ int64) { show.Set(done) }
	return plan.Run(ctx, o)
}

// failedPoints is the error of an outcome with failed points.
func failedPoints(plan *sweep.Plan, o *sweep.Outcome) error {
	for i, e := range o.Entries {
		if e != nil && e.Status == results.StatusFailed {
			return fmt.Errorf("%s of %d failed, the first is %s: %s", plural(o.Failed, "point", "points"), len(plan.Points), plan.Points[i].Name, e.Error)
		}
	}
	return nil
}

// dryRun lists the points and forecasts the time of those that are not done.
func (a *app) dryRun(ctx context.Context, plan *sweep.Plan, f *sweepFlags) error {
	var done map[string]*sweep.Entry
	if f.out != "" && !f.force {
		var err error
		if done, err = sweep.ReadJournal(f.out); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "point\tseed\trequests\toutput tokens\tstate")
	recorded := 0
	for i := range plan.Points {
		p := &plan.Points[i]
		state := "to run"
		switch e := done[p.Hash]; {
		case e != nil:
			state = e.Status
			recorded++
		case p.Err != nil:
			state = "will fail: " + p.Err.Error()
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", p.Name, p.Seed, p.Requests, p.Tokens, state)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	e, err := plan.Estimate(ctx, done, f.workers)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\n%s", plural(len(plan.Points), "point", "points"))
	if recorded > 0 {
		fmt.Fprintf(a.stdout, ", %d recorded", recorded)
	}
	if e.Points > 0 {
		fmt.Fprintf(a.stdout, "; about %s on %s, judged by the first %s of one point",
			roundTime(e.Wall), plural(e.Workers, "worker", "workers"), roundTime(e.Probe))
	}
	_, err = fmt.Fprintln(a.stdout)
	return err
}

// roundTime rounds a duration to what an estimate deserves.
func roundTime(d time.Duration) time.Duration {
	switch {
	case d > time.Minute:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}
