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
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

// planner is a call of plan or capacity: its flags, and the results of their configurations.
type planner struct {
	*app
	config          cli.ConfigFlags
	asked           *design.File // the configurations, as the flags describe them
	out             string       // folder
	by              string       // column that ranks the rows of plan; "" for capacity
	fewest, require bool
	search          plan.Search
	journal         *sweep.Journal // of plans' results; nil: results are not kept
	version         string         // of the code
	work            []*planning
	report          plan.Report
}

// register adds the flags that both commands have, and returns all.
func (p *planner) register(cmd *cobra.Command) *pflag.FlagSet {
	node := []cli.KeyFlag{ // hardware for which a service is planned
		cli.Key("ranksets", "node.ranksets", "", "ranks of DIMMs on a memory channel"),
		cli.Key("memory", "node.memory_capacity", "", "memory of all DIMMs, such as 1TiB"),
	}
	p.config.Register(cmd, slices.Concat(cli.RunKeys, node, cli.LoadKeys)...)
	flags := cmd.Flags()
	flags.Lookup("requests").Usage = fmt.Sprintf("number of requests, the first of a file: at least %d, and two for each user", plan.LeastRequests)
	flags.BoolVar(&p.JSON, "json", false, cli.JSONUsage)
	flags.BoolVar(&p.require, "require", false, "exit with 1 where no row holds the rate that is asked for, or none holds any")
	return flags
}

func (a *app) newPlanCommand() *cobra.Command {
	// The precision is that of capacity, so that its rows match those of plan.
	p := &planner{app: a, search: plan.Search{Precision: 0.02, Tune: true}, report: plan.Report{Schema: plan.PlanSchema, Rows: []*plan.Row{}}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Rank nodes that serve a model within targets of latency, by cost",
		Long: `Rank nodes that serve a model within targets of latency, by cost.

Each combination of --system, --gpu, --gpus, --ranksets, --memory, --prices and --model is a row. Of each, the server's
knobs are searched for the highest rate within the targets of --slo: tensor parallelism and so replicas, expert parallelism and
data-parallel attention of mixtures of experts, prefill policy, chunk, batch limit and admission, unless they are given. With
--rate or --users a row says whether it holds that, and else how much it holds, why not more, and how many such nodes hold it.
Finished combinations are kept in the user's cache folder (l3sim/plan): the same command goes on after an interruption.
docs/serve.md says more.`,
		Example: `  l3sim plan --model llama-3-70b --isl 4000 --osl 500 --slo ttft=2s,tbt=100ms --gpu h100-sxm,h200-sxm --system l3,gpu-only
  l3sim plan --model llama-3-8b --trace requests.csv --slo tbt.p99.tokens=50ms --rate 8 --gpus 1,2,4,8 --system gpu-only --min-gpus`,
	}
	flags := p.register(cmd)
	for _, name := range []string{"tp", "gpus", "ranksets", "memory", "prices"} { // other commands allow one value each
		flags.Lookup(name).Usage += ", or several (a,b) to compare"
	}
	flags.StringVar(&p.out, "out", "", "also write the rows into `folder`")
	flags.StringVar(&p.by, "by", plan.Columns[0], "`column` that ranks the rows: "+strings.Join(plan.Columns, ", "))
	flags.BoolVar(&p.fewest, "min-gpus", false, "of each, only the fewest GPUs that hold --rate")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(cli.NotEmpty(cmd, "out"), (&plan.Report{}).Rank(p.by)); err != nil {
			return err
		}
		if p.fewest && !flags.Changed("users") {
			if err := cli.RequireFlag(cmd, "rate", "the rate that the GPUs must hold, with --min-gpus"); err != nil {
				return err
			}
		}
		return p.start(cmd, p.plan, false, "prices.preset", "node.gpus", "model.tensor_parallel", "node.ranksets", "node.memory_capacity")
	}
	return cmd
}

// planning is a combination and its result.
type planning struct {
	*sweep.Combination
	called  string
	cfg     *configs.Config
	trace   *traces.Trace
	contest *plan.Contest
	unfit   error // why the model runs in no layout of the node
	row     *plan.Row
}

// plan searches each combination and prints the rows.
func (p *planner) plan(cmd *cobra.Command, all []sweep.Combination) error {
	if err := p.combine(all); err != nil {
		return err
	}
	p.openJournal()
	ended := p.searchAll(cmd.Context())
	if err := p.journal.Close(); err != nil {
		return err
	}
	if ended != nil && !errors.Is(ended, context.Canceled) {
		return ended
	}
	return p.print(cmd, ended)
}

// unable records why a combination has no row.
func (p *planner) unable(c *planning, why string) {
	p.report.Unable = append(p.report.Unable, c.called+": "+why)
}

// combine makes the folders of results, and the contests of combinations. In a plan, infeasible combinations and duplicates get no row; a wrong name or value is an error.
func (p *planner) combine(all []sweep.Combination) (err error) {
	if err := cli.WritableFolder("--out", p.out); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range all {
		c := &planning{Combination: &all[i], called: called(&all[i])}
		c.cfg, err = plan.AsGiven(c.Options)
		if p.by != "" && plan.Infeasible(err) {
			p.unable(c, err.Error())
			continue
		}
		if err == nil {
			c.trace, err = plan.Requests(c.cfg)
		}
		if err != nil {
			return err
		}
		p.noteReading(c.trace)
		key := plan.Distinct(c.cfg)
		if p.by != "" && seen[key] {
			p.unable(c, fmt.Sprintf("as another row, since %s does not use what differs", c.cfg.Run.System))
			continue
		}
		seen[key] = true
		if c.contest, err = p.search.Contest(c.Options, c.cfg, c.trace); err != nil {
			return err
		}
		if m := c.trace.Moments(); len(p.work) == 0 && len(c.Options.ConfigFiles) == 0 && !plan.Given(c.Options, "run.trace") {
			p.Note("no --trace: requests are those of %s, prompts of %.0f and answers of %.0f tokens in the mean; --isl and --osl, or --trace, describe others", c.trace.Name, m.InputMean, m.OutputMean)
		}
		p.work = append(p.work, c)
	}
	return nil
}

// searchAll compares the knobs of all combinations, shows their ranking, and then judges each by all requests.
func (p *planner) searchAll(ctx context.Context) error {
	show := p.NewProgress("steps")
	show.Start(int64(3 * len(p.work))) // a comparison counts once, a judgement twice
	defer show.Done()
	var done atomic.Int64
	step := func(name string, by int64, do func(ctx context.Context, c *planning) error) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, c := range p.work {
			group.Go(func() error {
				show.Now(name + " " + c.called)
				err := do(ctx, c)
				show.Set(done.Add(by))
				return err
			})
		}
		return group.Wait()
	}
	if err := step("comparing knobs:", 1, p.compare); err != nil {
		return err
	}
	slices.SortStableFunc(p.work, func(x, y *planning) int { return cmp.Compare(y.contest.Rate(), x.contest.Rate()) })
	if len(p.work) > 1 && p.work[0].contest.Rate() > 0 && !p.Quiet {
		p.Note("so far, by few requests (an estimate of the highest rate, or number of users, where one holds any; the table of costs follows):")
		for _, c := range p.work {
			if rate := c.contest.Rate(); rate > 0 {
				fmt.Fprintf(p.Stderr, "  %8.3g  %s\n", rate, c.called)
			}
		}
	}
	return step("judging:", 2, p.decide)
}

// rateFlags are the flags for a node's load.
var rateFlags = regexp.MustCompile(` --(rate|users) [^ ]+`)

// command returns the command of capacity that reproduces a row: at its rate, or number of users, if it holds
// one.
func (p *planner) command(cmd *cobra.Command, c *planning) string {
	text := p.config.Command(cmd, "capacity", c.Names, c.row.Sets)
	if c.row.Highest == 0 || cmd.Flags().Changed("rate") && c.row.Asked.Met {
		return text
	}
	rate := fmt.Sprintf(" --rate %v", c.row.RatePerS)
	if c.row.Users > 0 {
		rate = fmt.Sprintf(" --users %d", c.row.Users)
	}
	return rateFlags.ReplaceAllString(text, "") + rate
}

// runs returns the runs of a combination at the tried rates, one point each. The run of its row has the combination's name alone, so that
// answers of several searches can be compared.
func (c *planning) runs() (runs []sweep.Run) {
	for i := range c.row.Tried {
		l, cfg, at := &c.row.Tried[i], *c.row.Config, ""
		cfg.Arrivals.RatePerS, cfg.Run.Requests = l.RatePerS, len(c.trace.Requests)
		if l.RatePerS != c.row.RatePerS {
			at = fmt.Sprintf("rate=%.6g", l.RatePerS)
		}
		if l.Users > 0 {
			cfg.Arrivals.RatePerS, cfg.Arrivals.Users = 0, l.Users
		}
		if l.Users != c.row.Users {
			at = fmt.Sprintf("users=%d", l.Users)
		}
		name := cmp.Or(strings.Trim(c.Point+","+at, ","), "default")
		runs = append(runs, sweep.Run{Name: name, Config: &cfg, Trace: c.trace, Summary: l.Summary})
	}
	return runs
}

// print writes the folder of the finished combinations, and prints their rows. ended is why not all are finished; nil: all are.
func (p *planner) print(cmd *cobra.Command, ended error) error {
	r, differ := &p.report, []string{"arrivals.rate_per_s", "arrivals.users"}
	var runs []sweep.Run
	for _, c := range p.work {
		if c.unfit != nil {
			p.unable(c, fmt.Sprintf("%s runs in no layout of this node: %v", c.cfg.Model.Name, c.unfit))
		}
		if c.row == nil {
			continue
		}
		r.Add(c.row, c.Names, c.trace)
		runs = append(runs, c.runs()...)
		if p.by == "" {
			continue
		}
		c.row.Command = p.command(cmd, c)
		for _, set := range c.row.Sets {
			key, _, _ := strings.Cut(set, "=")
			differ = append(differ, key)
		}
	}
	if p.fewest && ended == nil {
		r.Fewest()
	}
	if p.by == "" {
		r.List()
	} else if err := r.Rank(p.by); err != nil {
		return err
	}
	if p.out != "" && len(runs) > 0 && ended == nil {
		slices.Sort(differ)
		if err := p.write(cmd.Name(), runs, slices.Compact(differ)); err != nil {
			return err
		}
	}
	err := p.Print(r, func(w io.Writer) error {
		err := r.WriteText(w)
		if p.by != "" && p.OnTerminal() {
			r.WriteChart(w)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case ended != nil:
		p.Note("%d of %d combinations are done; the same command goes on from there", len(r.Rows), len(p.work))
	case p.require && !r.Holds():
		return errors.New("no row holds what is asked for (--require)")
	case len(r.Rows) == 0:
		return errors.New("no combination is a node that runs the model")
	}
	return ended
}

// write writes a command's folder of runs that differ in keys.
func (p *planner) write(command string, runs []sweep.Run, differ []string) error {
	folder, err := sweep.Made(command, p.asked, runs, func(w io.Writer) error { return results.WriteJSON(w, &p.report) }, differ...)
	if err != nil {
		return err
	}
	return cli.WriteFiles("--out", filepath.Clean(p.out), folder.Files())
}

// called returns the user's name of a combination.
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
