package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

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

// planFlags are the flags of the plan command that no configuration key has.
type planFlags struct {
	config          cli.ConfigFlags
	asked           *design.File // the configurations, as the flags describe them
	out, by         string
	fewest, require bool
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
	f.config.Register(cmd, slices.Concat(cli.RunKeys, nodeKeys, cli.LoadKeys)...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.Flags().StringVar(&f.out, "out", "", "also write the rows into `folder`")
	cmd.Flags().StringVar(&f.by, "by", plan.ColumnNames()[0], "`column` that ranks the rows: "+strings.Join(plan.ColumnNames(), ", "))
	cmd.Flags().BoolVar(&f.fewest, "min-gpus", false, "of each, only the fewest GPUs that hold --rate")
	cmd.Flags().BoolVar(&f.require, "require", false, requireUsage)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(cli.NotEmpty(cmd, "out"), (&plan.Report{}).Rank(f.by)); err != nil {
			return err
		}
		if f.fewest && !cmd.Flags().Changed("users") {
			if err := cli.RequireFlag(cmd, "rate", "the rate that the GPUs must hold, with --min-gpus"); err != nil {
				return err
			}
		}
		asked, all, err := configurations(cmd, &f.config, "prices.preset", "node.gpus", "model.tensor_parallel", "node.ranksets", "node.memory_capacity")
		if err != nil {
			return err
		}
		f.asked = asked
		a.noteVariants(asked, all)
		a.nameTrace(cmd, all)
		return f.config.Locate(a.plan(cmd, all, &f))
	}
	return cmd
}

const requireUsage = "exit with 1 where no row holds the rate that is asked for, or none holds any"

// nameTrace names the trace where the user has named none.
func (a *app) nameTrace(cmd *cobra.Command, all []sweep.Combination) {
	o := all[0].Options
	named := func(key string) bool {
		return slices.ContainsFunc(o.Flags, func(f configs.Flag) bool { return f.Key == key }) || slices.ContainsFunc(o.Sets, func(s string) bool { return strings.HasPrefix(s, key+"=") })
	}
	if named("run.trace") || len(o.ConfigFiles) > 0 {
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
	coarse  *plan.Coarse
	unfit   error // why the model fits no layout of the node
	row     *plan.Row
	tuned   *configs.Config
	sets    []string
	summary *results.Summary
}

// plan searches each combination and prints the rows.
func (a *app) plan(cmd *cobra.Command, all []sweep.Combination, f *planFlags) error {
	if err := cli.WritableFolder("--out", f.out); err != nil {
		return err
	}
	out := &plan.Report{Schema: plan.PlanSchema, Rows: []plan.Row{}}
	work, err := a.combinations(all, out)
	if err != nil {
		return err
	}
	notes, err := a.openPlans()
	if err != nil {
		return err
	}
	ended := a.search(cmd, work, notes, f, out)
	if err := notes.Close(); err != nil {
		return err
	}
	if ended != nil && !errors.Is(ended, context.Canceled) {
		return ended
	}
	if err := a.planned(work, f, out, ended != nil); err != nil {
		return err
	}
	if ended != nil {
		a.Note("%d of %d combinations are done; the same command goes on from there", len(out.Rows), len(work))
		return ended
	}
	if f.require && !out.Holds() {
		return errors.New("no row holds what is asked for (--require)")
	}
	return nil
}

// combinations returns the combinations that can be searched. What cannot fit together is noted; a wrong name or value is an error.
func (a *app) combinations(all []sweep.Combination, out *plan.Report) (work []*planning, err error) {
	seen := map[string]bool{}
	for i := range all {
		c := &planning{Combination: &all[i], called: called(&all[i])}
		c.cfg, err = plan.AsGiven(all[i].Options)
		switch {
		case err != nil && plan.Infeasible(all[i].Options):
			out.Unable = append(out.Unable, fmt.Sprintf("%s: %v", c.called, err))
			continue
		case err != nil:
			return nil, err
		}
		if c.trace, err = plan.Requests(c.cfg); err != nil {
			return nil, err
		}
		a.noteReading(c.trace)
		if key := plan.Distinct(c.cfg); seen[key] {
			out.Unable = append(out.Unable, fmt.Sprintf("%s: as another row, since %s does not use what differs", c.called, c.cfg.Run.System))
			continue
		} else {
			seen[key] = true
		}
		work = append(work, c)
	}
	return work, nil
}

// search compares the knobs of all combinations, shows how they rank, and then judges each by all requests.
func (a *app) search(cmd *cobra.Command, work []*planning, notes *planNotes, f *planFlags, out *plan.Report) error {
	show := a.NewProgress("steps")
	show.Start(int64(3 * len(work))) // a comparison counts once, the judgement twice
	defer show.Done()
	search := &plan.Search{Precision: planPrecision, Tune: true}
	var done counter
	step := func(name string, by int64, do func(ctx context.Context, c *planning) error) error {
		group, ctx := errgroup.WithContext(cmd.Context())
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, c := range work {
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				show.Now(name + " " + c.called)
				err := do(ctx, c)
				show.Set(done.add(by))
				return err
			})
		}
		return group.Wait()
	}
	if err := step("comparing knobs:", 1, func(ctx context.Context, c *planning) error { return notes.compare(ctx, search, c) }); err != nil {
		return err
	}
	slices.SortStableFunc(work, func(x, y *planning) int { return cmp.Compare(y.coarse.Rate(), x.coarse.Rate()) })
	if len(work) > 1 && !a.Quiet {
		a.provisional(work)
	}
	return step("judging:", 2, func(ctx context.Context, c *planning) error {
		return notes.decide(ctx, search, c, func(t *plan.Tuned) string {
			command := f.config.Command(cmd, "capacity", c.Names, t.Sets)
			if t.Answer.Best.RatePerS == 0 {
				return command // which says that no rate holds
			}
			if !cmd.Flags().Changed("rate") || t.Answer.Asked != nil && !t.Answer.Asked.Met {
				command = withRate(command, t.Answer.Best)
			}
			return command
		})
	})
}

// withRate returns a command of capacity that judges the rate, or the number of users, of a row.
func withRate(command string, l plan.Load) string {
	flag := " --rate " + strconv.FormatFloat(l.RatePerS, 'g', -1, 64)
	if l.Users > 0 {
		flag = " --users " + strconv.Itoa(l.Users)
	}
	words := strings.Split(command, " --")
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "rate ") || strings.HasPrefix(w, "users ") })
	return strings.Join(words, " --") + flag
}

// provisional shows how combinations rank by the comparison of knobs.
func (a *app) provisional(work []*planning) {
	a.Note("so far, by few requests (an estimate of the highest rate; the table of costs follows):")
	for _, c := range work {
		fmt.Fprintf(a.Stderr, "  %8.3g requests/s  %s\n", c.coarse.Rate(), c.called)
	}
}

// planned prints the rows that are done, and writes their folder.
func (a *app) planned(work []*planning, f *planFlags, out *plan.Report, interrupted bool) error {
	var rows []sweep.Run
	differ := []string{"arrivals.rate_per_s", "arrivals.users"}
	for _, c := range work {
		if c.unfit != nil {
			out.Unable = append(out.Unable, fmt.Sprintf("%s: %s fits no layout of this node: %v", c.called, c.cfg.Model.Name, c.unfit))
		}
		if c.row == nil {
			continue
		}
		out.Add(*c.row, c.cfg, c.trace, nil)
		if c.row.Highest > 0 {
			cfg := *c.tuned
			cfg.Arrivals.RatePerS, cfg.Run.Requests = c.row.RatePerS, len(c.trace.Requests)
			if c.row.Users > 0 {
				cfg.Arrivals.RatePerS, cfg.Arrivals.Users = 0, c.row.Users
			}
			rows = append(rows, sweep.Run{Name: cmp.Or(c.Point, "default"), Config: &cfg, Trace: c.trace, Summary: c.summary})
		}
		for _, set := range c.sets {
			key, _, _ := strings.Cut(set, "=")
			differ = append(differ, key)
		}
	}
	if f.fewest && !interrupted {
		out.Fewest()
	}
	if err := out.Rank(f.by); err != nil {
		return err
	}
	if f.out != "" && len(rows) > 0 && !interrupted {
		slices.Sort(differ)
		folder, err := made("plan", f.asked, rows, out, slices.Compact(differ)...)
		if err == nil {
			err = cli.WriteFiles("--out", filepath.Clean(f.out), folder.Files())
		}
		if err != nil {
			return err
		}
	}
	return a.Print(out, func(w io.Writer) error {
		err := out.WriteText(w)
		if a.OnTerminal() {
			out.WriteChart(w)
		}
		return err
	})
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
