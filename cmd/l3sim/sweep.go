package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/internal/sweep/job"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

type sweepFlags struct {
	out                     string
	workers                 int
	dryRun, force, failFast bool
	shard                   string
	emit                    string
	shards                  int
	bands                   sweep.Bands
	drawn                   bool // --bands is given
}

func (a *app) newSweepCommand() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep FILE.toml",
		Short: "Run many configurations, resumable at any moment",
		Long: `Run many configurations, resumable at any moment.

FILE.toml lists points of the design space; docs/sweep.md has its other axes:

  repeats = 3                     # seeds of each point from run.seed on
  [set]                           # keys that all points share
  run.requests = 200
  [grid]                          # each key an axis of its own
  node.ranksets = [2, 4, 8]

Points are all combinations of the axes. --out gets results.csv and results.parquet with a row for each point, each
point's summary, and a journal, from which the same command goes on after any interruption.

--shard i/N runs the i-th part of N, from 0, into a folder of its own; 'l3sim sweep merge' makes one folder of them.
--emit writes a job for Slurm or Kubernetes that runs N shards and merges them.

--bands N runs each point that counts N times more, each with draws of what is uncertain: times of kernels, constants of energy, prices,
assumptions, the trace's seed. results.csv gets 10th and 90th percentiles, draws.csv has all draws; 'l3sim table --rank'
says how sure a ranking is.`,
		Example: `  l3sim sweep examples/ranks.toml --dry-run
  l3sim sweep examples/ranks.toml --out out/ranks
  l3sim sweep examples/ranks.toml --bands 50 --out out/bands
  l3sim sweep examples/ranks.toml --shard 0/2 --out out/ranks/shards/0
  l3sim sweep examples/ranks.toml --emit slurm --shards 8 --out out/ranks > ranks.sh`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "shard", "emit"); err != nil {
				return err
			}
			if f.emit != "" && !slices.Contains(job.JobForms(), f.emit) {
				return input.UnknownName("--emit", f.emit, job.JobForms())
			}
			if f.emit != "" || cmd.Flags().Changed("shards") {
				return a.emit(args[0], &f)
			}
			return a.sweep(cmd.Context(), args[0], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "`folder` of the results and the journal")
	flags.IntVar(&f.workers, "workers", 0, "points that run at a time; 0 for one a core")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list the points and an estimate of the time, and stop")
	flags.BoolVar(&f.force, "force", false, "run the points that the journal holds, too")
	flags.BoolVar(&f.failFast, "fail-fast", false, "stop at the first point that fails")
	flags.StringVar(&f.shard, "shard", "", "run one part of the points: `i/N`, auto (Slurm array) or auto/N (Kubernetes)")
	flags.IntVar(&f.bands.Draws, "bands", 0, "draws of each point, of what is uncertain: `number`")
	flags.Uint64Var(&f.bands.Seed, "bands-seed", 1, "`seed` of the draws")
	flags.BoolVar(&f.bands.Independent, "independent", false, "each point draws by itself, and shares nothing with others")
	flags.StringVar(&f.emit, "emit", "", "write a job to standard output and stop: `slurm or k8s`")
	flags.IntVar(&f.shards, "shards", 0, "parts that the job of --emit has")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage+": what became of the points, or with --dry-run the points")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		f.drawn = cmd.Flags().Changed("bands")
		err := cli.Exclusive(cmd, "json", "emit")
		for _, flag := range []string{"shard", "emit", "shards"} { // a shard's file does not record draws
			err = cmp.Or(err, cli.Exclusive(cmd, "bands", flag))
		}
		for _, flag := range []string{"bands-seed", "independent"} {
			if cmd.Flags().Changed(flag) && !f.drawn {
				err = cmp.Or(err, error(&input.Error{Key: "--" + flag, Expected: "--bands with it"}))
			}
		}
		return err
	}
	cmd.AddCommand(a.newMergeCommand())
	return cmd
}

// sweep plans and runs a sweep file, or one shard of it.
func (a *app) sweep(ctx context.Context, path string, f *sweepFlags) error {
	if err := cmp.Or(cli.Present(path), cli.Between("--workers", f.workers, 0, 4096)); err != nil {
		return err
	}
	if f.out == "" && !f.dryRun {
		return &input.Error{Key: "--out", Expected: "a folder for the results (or --dry-run)"}
	}
	var part *sweep.Part
	shard, err := sweep.Shard{}, error(nil)
	if f.shard != "" {
		shard, err = sweep.ParseShard("--shard", f.shard, os.Getenv)
	}
	if err != nil {
		return err
	}
	plan, err := planSweep(path)
	if err == nil && f.drawn {
		err = plan.Draw(f.bands)
	}
	if err != nil {
		return err
	}
	a.noteDropped(plan)
	a.noteLayouts(plan)
	if f.shard != "" {
		part = plan.Part(shard)
		plan = part.Plan
	}
	if f.dryRun {
		return a.dryRun(ctx, plan, f)
	}
	outcome, err := a.runInFolder(ctx, plan, part, f)
	if err != nil {
		return err
	}
	failed := failedPoints(plan.Points, outcome)
	if part != nil && outcome.Missing == 0 {
		// Failed points are results that no retry changes. A shard that has recorded all its points succeeds, so that a batch
		// system does not retry it and starts dependent jobs; the merge reports the failures.
		if failed != nil && !a.JSON {
			a.Warn("%v", failed)
		}
		failed = nil
	}
	counts := fmt.Sprintf("%d run, %d taken from the journal, %d failed", outcome.Ran, outcome.Reused, outcome.Failed)
	points := plan.Size()
	switch {
	case a.JSON:
		err = results.WriteJSON(a.Stdout, sweep.NewReport(plan, part, outcome, f.out))
	case outcome.Missing > 0: // --fail-fast
	case part != nil:
		fmt.Fprintf(a.Stdout, "shard %s, %s of %d: %s; journal in %s\n", part.Shard, points, part.Whole, counts, f.out)
	default:
		fmt.Fprintf(a.Stdout, "%s: %s; results in %s\n", points, counts, f.out)
	}
	return cmp.Or(err, failed)
}

// runInFolder runs a plan with the journal in --out, and makes the folder. part is the shard of a
// larger plan; it is nil for a whole plan, whose results are written.
func (a *app) runInFolder(ctx context.Context, plan *sweep.Plan, part *sweep.Part, f *sweepFlags) (outcome *sweep.Outcome, err error) {
	if err := cli.Creatable(f.out); err != nil {
		return nil, err
	}
	journal, err := sweep.OpenJournal(f.out)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, journal.Close()) }()
	a.noteDamage(journal.Damage())
	if part != nil {
		if err := part.Describe(f.out); err != nil {
			return nil, err
		}
	}
	outcome, err = a.runPlan(ctx, plan, sweep.RunOptions{Journal: journal, Workers: f.workers, Force: f.force, FailFast: f.failFast})
	there := journal.Check()
	if err != nil && there == nil {
		a.Note("%d of %d points are recorded; the same command goes on from there", len(plan.Points)-outcome.Missing-outcome.Left, len(plan.Points)-outcome.Left)
	}
	if err = cmp.Or(err, there); err != nil || part != nil || outcome.Missing > 0 { // before writing results makes the folder again
		return outcome, err
	}
	return outcome, cli.OutError(f.out, plan.Write(f.out, outcome))
}

// noteDamage reports changed lines of a journal.
func (a *app) noteDamage(d sweep.Damage) {
	if d.Count > 0 {
		a.Note("%v; what no other line records runs again", &d)
	}
}

// emit writes the job that runs a sweep's shards and merges them.
func (a *app) emit(path string, f *sweepFlags) error {
	if err := cli.Between("--workers", f.workers, 0, 4096); err != nil {
		return err
	}
	switch {
	case f.emit == "":
		return &input.Error{Key: "--shards", Value: fmt.Sprint(f.shards), Expected: "--emit beside it; a shard is run by --shard i/N"}
	case f.shard != "" || f.dryRun || f.force || f.failFast:
		return &input.Error{Key: "--emit", Value: f.emit, Expected: "no --shard, --dry-run, --force or --fail-fast beside it"}
	case f.out == "":
		return &input.Error{Key: "--out", Expected: "a folder for the results of the job"}
	}
	plan, err := planSweep(path)
	if err != nil {
		return err
	}
	return job.Emit(a.Stdout, f.emit, &job.Job{
		File: path, Out: f.out, Shards: f.shards, Workers: f.workers, Points: len(plan.Points),
	})
}

// noteDropped reports the dropped samples of a Latin hypercube.
func (a *app) noteDropped(plan *sweep.Plan) {
	for _, axis := range plan.File.Axes {
		if axis.Dropped > 0 {
			a.Note("latin_hypercube: %d of %s equal an earlier one in every key and are left out",
				axis.Dropped, input.Plural(axis.Dropped+len(axis.Choices), "sample", "samples"))
		}
	}
}

func planSweep(path string) (*sweep.Plan, error) {
	file, err := design.ReadFile(system.Configs(), path)
	if err != nil {
		return nil, err
	}
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	return sweep.NewPlan(file, version)
}

// runPlan runs a plan under a progress display.
func (a *app) runPlan(ctx context.Context, plan *sweep.Plan, o sweep.RunOptions) (*sweep.Outcome, error) {
	show := a.NewProgress("points")
	show.Start(int64(len(plan.Points)))
	defer show.Done()
	o.Progress = func(done, _ int64) { show.Set(done) }
	return plan.Run(ctx, o)
}

func failedPoints(points []sweep.Point, o *sweep.Outcome) error {
	if all := sweep.Failures(points, o); len(all) > 0 {
		return fmt.Errorf("%s of %d failed, the first is %s: %s", input.Plural(o.Failed, "point", "points"), len(points), all[0].Point, all[0].Error)
	}
	return nil
}

// dryRun lists the points and forecasts the time of the unfinished ones.
func (a *app) dryRun(ctx context.Context, plan *sweep.Plan, f *sweepFlags) error {
	var done map[string]*sweep.Entry
	if f.out != "" && !f.force {
		var err error
		var damage sweep.Damage
		if done, damage, err = sweep.ReadJournal(f.out); err != nil {
			return err
		}
		a.noteDamage(damage)
	}
	r, err := plan.Report(ctx, done, f.workers)
	if err != nil {
		return err
	}
	return a.Print(r, func(w io.Writer) error { return writePlan(w, r) })
}

func writePlan(w io.Writer, r *sweep.PlanReport) error {
	recorded := 0
	err := cli.Aligned(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "point\tseed\trequests\toutput tokens\tstate")
		for _, p := range r.Points {
			switch p.State {
			case "to run":
			case "will fail":
				p.State += ": " + p.Error
			default:
				recorded++
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", p.Point, p.Seed, p.Requests, p.OutputTokens, p.State)
		}
	})
	if err != nil {
		return err
	}
	e := r.Estimate
	fmt.Fprintf(w, "\n%s", r.Size)
	if recorded > 0 {
		fmt.Fprintf(w, ", %d recorded", recorded)
	}
	if e.Points > 0 {
		fmt.Fprintf(w, "; about %s on %s, judged by the first %s of one point",
			sweep.RoundTime(e.Wall), input.Plural(e.Workers, "worker", "workers"), sweep.RoundTime(e.Probe))
	}
	_, err = fmt.Fprintln(w)
	return err
}
