package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// planFlags are the flags of the commands plan and capacity that no configuration key has.
type planFlags struct {
	config                cli.ConfigFlags
	asked                 *design.File // the configurations, as the flags describe them
	out, plots, by        string
	fewest, require, tune bool
	precision             float64
}

// register adds the flags that both commands have.
func (f *planFlags) register(a *app, cmd *cobra.Command) {
	f.config.Register(cmd, slices.Concat(cli.RunKeys, nodeKeys, cli.LoadKeys)...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.Flags().BoolVar(&f.require, "require", false, "exit with 1 where no row holds the rate that is asked for, or none holds any")
}

func (a *app) newPlanCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Rank nodes that serve a model within targets of latency, by cost",
		Long: `Rank nodes that serve a model within targets of latency, by cost.

Each combination of --system, --gpu, --gpus, --ranksets, --memory, --prices and --model is a row. Of each, the server's
knobs are searched for the highest rate within the targets of --slo: tensor parallelism and so replicas, prefill policy, chunk,
batch limit and admission, unless they are given. With --rate or --users a row says whether it holds that, and else how much it
holds, why not more, and how many such nodes hold it. Finished combinations are kept in the user's cache folder (l3sim/plan): the same
command goes on after an interruption. docs/serve.md says more.`,
		Example: `  l3sim plan --model llama-3-70b --isl 4000 --osl 500 --slo ttft=2s,tbt=100ms --gpu h100-sxm,h200-sxm --system l3,gpu-only
  l3sim plan --model llama-3-8b --trace requests.csv --slo tbt.p99.tokens=50ms --rate 8 --gpus 1,2,4,8 --system gpu-only --min-gpus`,
	}
	f.register(a, cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "also write the rows into `folder`")
	cmd.Flags().StringVar(&f.by, "by", plan.Columns[0], "`column` that ranks the rows: "+strings.Join(plan.Columns, ", "))
	cmd.Flags().BoolVar(&f.fewest, "min-gpus", false, "of each, only the fewest GPUs that hold --rate")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(cli.NotEmpty(cmd, "out"), (&plan.Report{}).Rank(f.by)); err != nil {
			return err
		}
		if f.fewest && !cmd.Flags().Changed("users") {
			if err := cli.RequireFlag(cmd, "rate", "the rate that the GPUs must hold, with --min-gpus"); err != nil {
				return err
			}
		}
		all, err := a.configurations(cmd, &f, false, "prices.preset", "node.gpus", "model.tensor_parallel", "node.ranksets", "node.memory_capacity")
		if err != nil {
			return err
		}
		return f.config.Locate(a.plan(cmd, all, &f))
	}
	return cmd
}

// nameTrace names the trace where the user has named none.
func (a *app) nameTrace(o configs.Options) {
	if len(o.ConfigFiles) > 0 || plan.Given(o, "run.trace") {
		return
	}
	cfg, err := plan.AsGiven(o)
	if err != nil || !cfg.SLO.Given() {
		return
	}
	if m, err := system.TraceMoments(cfg); err == nil {
		a.Note("no --trace: requests are those of %s, prompts of %.0f and answers of %.0f tokens in the mean; --isl and --osl, or --trace, describe others", cfg.Run.Trace, m.InputMean, m.OutputMean)
	}
}

// planning is a combination and what has become of it.
type planning struct {
	*sweep.Combination
	called  string
	cfg     *configs.Config
	trace   *traces.Trace
	contest *plan.Contest
	unfit   error // why the model fits no layout of the node
	row     *plan.Row
}

// plan searches each combination and prints the rows.
func (a *app) plan(cmd *cobra.Command, all []sweep.Combination, f *planFlags) error {
	if err := cli.WritableFolder("--out", f.out); err != nil {
		return err
	}
	out := &plan.Report{Schema: plan.PlanSchema, Rows: []plan.Row{}}
	work, err := a.combinations(all, &plan.Search{Precision: planPrecision, Tune: true}, out)
	if err != nil {
		return err
	}
	notes := a.openPlans()
	ended := a.search(cmd.Context(), work, notes)
	if err := notes.Close(); err != nil {
		return err
	}
	if ended != nil && !errors.Is(ended, context.Canceled) {
		return ended
	}
	for _, c := range work {
		if c.unfit != nil {
			out.Unable = append(out.Unable, fmt.Sprintf("%s: %s fits no layout of this node: %v", c.called, c.cfg.Model.Name, c.unfit))
		}
		if c.row != nil {
			c.row.Command = f.command(cmd, c)
		}
	}
	return a.printRows(work, f, out, ended)
}

// combinations returns the combinations that can be searched. Of a plan, what cannot fit together or is as another is noted; a wrong name or
// value is an error.
func (a *app) combinations(all []sweep.Combination, search *plan.Search, out *plan.Report) (work []*planning, err error) {
	ranked, seen := out.Schema == plan.PlanSchema, map[string]bool{}
	for i := range all {
		c := &planning{Combination: &all[i], called: called(&all[i])}
		c.cfg, err = plan.AsGiven(c.Options)
		if ranked && plan.Infeasible(err) {
			out.Unable = append(out.Unable, fmt.Sprintf("%s: %v", c.called, err))
			continue
		}
		if err == nil {
			c.trace, err = plan.Requests(c.cfg)
		}
		if err != nil {
			return nil, err
		}
		a.noteReading(c.trace)
		key := plan.Distinct(c.cfg)
		if ranked && seen[key] {
			out.Unable = append(out.Unable, fmt.Sprintf("%s: as another row, since %s does not use what differs", c.called, c.cfg.Run.System))
			continue
		}
		seen[key] = true
		if c.contest, err = search.Contest(c.Options, c.cfg, c.trace); err != nil {
			return nil, err
		}
		work = append(work, c)
	}
	return work, nil
}

// search compares the knobs of all combinations, shows how they rank, and then judges each by all requests.
func (a *app) search(ctx context.Context, work []*planning, notes *planNotes) error {
	show := a.NewProgress("steps")
	show.Start(int64(3 * len(work))) // a comparison counts once, the judgement twice
	defer show.Done()
	var done atomic.Int64
	step := func(name string, by int64, do func(ctx context.Context, c *planning) error) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, c := range work {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				show.Now(name + " " + c.called)
				err := do(ctx, c)
				show.Set(done.Add(by))
				return err
			})
		}
		return group.Wait()
	}
	if err := step("comparing knobs:", 1, notes.compare); err != nil {
		return err
	}
	slices.SortStableFunc(work, func(x, y *planning) int { return cmp.Compare(y.contest.Rate(), x.contest.Rate()) })
	if len(work) > 1 && !a.Quiet {
		a.provisional(work)
	}
	return step("judging:", 2, notes.decide)
}

// rateFlags are flags of what a node is offered.
var rateFlags = regexp.MustCompile(` --(rate|users) [^ ]+`)

// command returns the command of capacity that gives a row: at its rate, or number of users, where it holds one.
func (f *planFlags) command(cmd *cobra.Command, c *planning) string {
	text := f.config.Command(cmd, "capacity", c.Names, c.row.Sets)
	if c.row.Highest == 0 || cmd.Flags().Changed("rate") && c.row.Asked.Met {
		return text
	}
	rate := " --rate " + strconv.FormatFloat(c.row.RatePerS, 'g', -1, 64)
	if c.row.Users > 0 {
		rate = " --users " + strconv.Itoa(c.row.Users)
	}
	return rateFlags.ReplaceAllString(text, "") + rate
}

// provisional shows how combinations rank by the comparison of knobs.
func (a *app) provisional(work []*planning) {
	a.Note("so far, by few requests (an estimate of the highest rate; the table of costs follows):")
	for _, c := range work {
		fmt.Fprintf(a.Stderr, "  %8.3g requests/s  %s\n", c.contest.Rate(), c.called)
	}
}

// printRows adds the rows of combinations that are done to a report, writes the folder and the figures of their runs, and prints the rows. ended is
// why not all are done; nil: they are.
func (a *app) printRows(work []*planning, f *planFlags, out *plan.Report, ended error) error {
	ranked := out.Schema == plan.PlanSchema
	var runs []sweep.Run
	differ := []string{"arrivals.rate_per_s", "arrivals.users"}
	for _, c := range work {
		if c.row == nil {
			continue
		}
		out.Add(*c.row, c.Names, c.trace)
		runs = append(runs, c.runs()...)
		for _, set := range c.row.Sets {
			if key, _, _ := strings.Cut(set, "="); ranked {
				differ = append(differ, key)
			}
		}
	}
	if f.fewest && ended == nil {
		out.Fewest()
	}
	if ranked {
		if err := out.Rank(f.by); err != nil {
			return err
		}
	} else {
		out.List()
	}
	if (f.out != "" || f.plots != "") && len(runs) > 0 && ended == nil {
		slices.Sort(differ)
		if err := f.write(out, runs, slices.Compact(differ)); err != nil {
			return err
		}
	}
	err := a.Print(out, func(w io.Writer) error {
		err := out.WriteText(w)
		if ranked && a.OnTerminal() {
			out.WriteChart(w)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case ended != nil:
		a.Note("%d of %d combinations are done; the same command goes on from there", len(out.Rows), len(work))
	case f.require && !out.Holds():
		return errors.New("no row holds what is asked for (--require)")
	}
	return ended
}

// write writes the folder of runs that differ in keys, and figures of them.
func (f *planFlags) write(r *plan.Report, runs []sweep.Run, differ []string) error {
	command := strings.Split(r.Schema, "/")[1]
	folder, err := sweep.Made(command, f.asked, runs, func(w io.Writer) error { return results.WriteJSON(w, r) }, differ...)
	if err == nil && f.out != "" {
		err = cli.WriteFiles("--out", filepath.Clean(f.out), folder.Files())
	}
	if err != nil || f.plots == "" {
		return err
	}
	figures, err := r.Figures(folder.Table)
	return cmp.Or(err, cli.WriteFiles("--plots", filepath.Clean(f.plots), figures))
}

// planPrecision is that of the command capacity, whose rows are those of plan.
const planPrecision = 0.02

// called returns what the user calls a combination.
func called(c *sweep.Combination) string {
	if len(c.Names) == 0 {
		return "the node"
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(c.Names)) {
		all = append(all, key+" = "+c.Names[key])
	}
	return strings.Join(all, ", ")
}
