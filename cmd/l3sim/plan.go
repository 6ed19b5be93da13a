package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

// planFlags are the flags of the plan command that no configuration key has.
type planFlags struct {
	config  cli.ConfigFlags
	asked   *design.File // the configurations, as the flags describe them
	out, by string
	fewest  bool
}

func (a *app) newPlanCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Rank nodes that serve a model within targets of latency, by cost",
		Long: `Rank nodes that serve a model within targets of latency, by cost.

Each combination of --system, --gpu, --gpus, --ranksets, --memory, --prices and --model is a row. Of each, the server's
knobs are searched for the highest rate within the targets of --slo: tensor parallelism and so replicas, batch limit, prefill policy
and chunk, unless they are given. With --rate a row is of that rate. "binds" says what more of raises the rate.
Below the rows stand the commands that give each. docs/serve.md says more.`,
		Example: `  l3sim plan --model llama-3-70b --trace requests.csv --slo ttft=2s,tbt=100ms --gpu h100-sxm,h200-sxm --system l3,gpu-only
  l3sim plan --model llama-3-8b --trace requests.csv --slo tbt.p99.tokens=50ms --rate 8 --gpus 1,2,4,8 --system gpu-only --min-gpus`,
	}
	f.config.Register(cmd, slices.Concat(cli.RunKeys, nodeKeys)...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.Flags().StringVar(&f.out, "out", "", "also write the rows into `folder`")
	cmd.Flags().StringVar(&f.by, "by", plan.ColumnNames()[0], "`column` that ranks the rows: "+strings.Join(plan.ColumnNames(), ", "))
	cmd.Flags().BoolVar(&f.fewest, "min-gpus", false, "of each, only the fewest GPUs that hold --rate")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(cli.NotEmpty(cmd, "out"), (&plan.Report{}).Rank(f.by)); err != nil {
			return err
		}
		if f.fewest {
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
		return f.config.Locate(a.plan(cmd, all, &f))
	}
	return cmd
}

// plan searches each combination and prints the rows.
func (a *app) plan(cmd *cobra.Command, all []sweep.Combination, f *planFlags) error {
	if err := cli.WritableFolder("--out", f.out); err != nil {
		return err
	}
	for i := range all { // a wrong name in the last combination is refused before the first one is searched
		if _, err := plan.AsGiven(all[i].Options); err != nil && !(len(all) > 1 && plan.Infeasible(all[i].Options)) {
			return err
		}
	}
	show := a.NewProgress("runs")
	show.Start(0)
	defer show.Done()
	var runs atomic.Int64
	search := plan.Search{Precision: planPrecision, Tune: true, Done: func() { show.Set(runs.Add(1)) }}
	out := &plan.Report{Rows: []plan.Row{}}
	var rows []sweep.Run
	differ := []string{"arrivals.rate_per_s"} // keys in which rows may differ beside those of the flags
	var wrong error                           // of the first combination that is not valid
	for i := range all {
		called := name(&all[i])
		tuned, trace, err := a.planned(cmd.Context(), &search, &all[i], out)
		if bad := (*input.Error)(nil); errors.As(err, &bad) && len(all) > 1 && plan.Infeasible(all[i].Options) {
			wrong = cmp.Or(wrong, err)
			out.Unable = append(out.Unable, fmt.Sprintf("%s: %v", called, err))
			continue
		} else if err != nil {
			return err
		}
		command := f.config.Command(cmd, "capacity", all[i].Names, tuned.Sets)
		if !cmd.Flags().Changed("rate") {
			command += " --rate " + strconv.FormatFloat(tuned.Answer.Best.RatePerS, 'g', -1, 64)
		}
		out.Add(tuned, called, command)
		if best := tuned.Answer.Best; best.Met {
			cfg := *tuned.Config
			cfg.Arrivals.RatePerS, cfg.Run.Requests = best.RatePerS, len(trace.Requests)
			rows = append(rows, sweep.Run{Name: cmp.Or(all[i].Point, "default"), Config: &cfg, Trace: trace, Summary: best.Summary})
		}
		for _, set := range tuned.Sets {
			key, _, _ := strings.Cut(set, "=")
			differ = append(differ, key)
		}
	}
	if wrong != nil && len(out.Unable) == len(all) && out.Schema == "" {
		return wrong
	}
	if f.fewest {
		out.Fewest()
	}
	if err := out.Rank(f.by); err != nil {
		return err
	}
	show.Done()
	if f.out != "" && len(rows) > 0 {
		slices.Sort(differ)
		folder, err := made("plan", f.asked, rows, out, slices.Compact(differ)...)
		if err == nil {
			err = cli.WriteFiles("--out", filepath.Clean(f.out), folder.Files())
		}
		if err != nil {
			return err
		}
	}
	return a.Print(out, out.WriteText)
}

// planPrecision is that of the command capacity, whose rows are those of plan.
const planPrecision = 0.02

func (a *app) planned(ctx context.Context, search *plan.Search, c *sweep.Combination, out *plan.Report) (*plan.Tuned, *traces.Trace, error) {
	cfg, err := plan.AsGiven(c.Options)
	if err != nil {
		return nil, nil, err
	}
	trace, err := capacity.Requests(cfg)
	if err != nil {
		return nil, nil, err
	}
	a.noteReading(trace)
	out.Trace = results.DescribeTrace(trace)
	tuned, err := search.Row(ctx, c.Options, cfg, trace)
	return tuned, trace, err
}

// name returns what the user calls a combination.
func name(c *sweep.Combination) string {
	if len(c.Names) == 0 {
		return "the node"
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(c.Names)) {
		all = append(all, key+" = "+c.Names[key])
	}
	return strings.Join(all, ", ")
}
