package main

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/system"
)

func (a *app) newCapacityCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Find the highest rate of requests that a system serves within targets of latency",
		Long: `Find the highest rate of requests that a system serves within targets of latency.

The answer is the highest rate tried at which slo.attainment (0.99) of the requests meet the targets of --slo
and the node keeps up, or 0; with --rate or --users, that is judged, and the highest is searched where it fails. "limit" says why
higher rates fail, "binds" what more of raises the rate: twice a resource, or a target of twice the time. Each rate is judged by the
middle 80% of a run. Requests arrive in the pattern of the trace, or as --arrivals says. docs/serve.md says more.`,
		Example: `  l3sim capacity --slo ttft=2s,tbt=100ms --system l3,gpu-only --model llama-3-70b --trace requests.csv
  l3sim capacity --slo tbt=150ms --trace openthoughts --arrivals gamma --set arrivals.cv=2 --out out/capacity`,
	}
	f.register(a, cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "also write results.csv, a row for each rate that was tried, and the answers to `folder`")
	cmd.Flags().StringVar(&f.plots, "plots", "", "also draw latency over load, a line for each system, GPU and policy, into `folder`")
	cmd.Flags().BoolVar(&f.tune, "tune", false, "also search the server's knobs: tensor parallelism, batch limit, prefill policy, chunk and admission")
	cmd.Flags().Float64Var(&f.precision, "precision", 0.02, "largest relative distance from the answer to a rate that fails")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(f.precision >= 1e-4 && f.precision <= 1) {
			return &input.Error{Key: "--precision", Value: fmt.Sprint(f.precision), Expected: "0.0001 to 1"}
		}
		if err := cli.NotEmpty(cmd, "out", "plots"); err != nil {
			return err
		}
		all, err := a.configurations(cmd, &f, !f.tune) // --tune searches each row's own layout
		if err != nil {
			return err
		}
		return f.config.Locate(a.capacity(cmd, all, &f))
	}
	return cmd
}

// nodeKeys are flags of the hardware that a service is planned on.
var nodeKeys = []cli.KeyFlag{
	cli.Key("ranksets", "node.ranksets", "", "ranks of DIMMs on a memory channel"),
	cli.Key("memory", "node.memory_capacity", "", "memory of all DIMMs, such as 1TiB"),
}

// configurations returns what the flags amount to: one configuration, or all combinations of
// several systems, models, GPUs, policies and further keys, which may have one layout. Where they are several, one may be an error.
func (a *app) configurations(cmd *cobra.Command, f *planFlags, oneLayout bool, further ...string) (all []sweep.Combination, err error) {
	given, err := f.config.Given(cmd)
	if err != nil {
		return nil, err
	}
	if f.asked, err = design.OfLists(system.Configs(), given, further...); err != nil {
		return nil, err
	}
	if len(f.asked.Axes) == 0 {
		cfg, err := f.config.Load(cmd)
		all = []sweep.Combination{{Config: cfg, Options: given, Err: err}}
	} else {
		if oneLayout {
			err = a.oneLayout(f.asked)
		}
		if err == nil { // no plan, which would load each trace as a run does: a search takes more requests
			all, err = sweep.Combinations(f.asked)
		}
		if err != nil {
			return nil, err
		}
	}
	a.noteVariants(f.asked, all)
	a.nameTrace(all[0].Options)
	return all, nil
}

// noteVariants names the variants of a preset, none of which a search of rates tries.
func (a *app) noteVariants(asked *design.File, all []sweep.Combination) {
	for i := range all {
		if all[i].Err != nil {
			continue
		}
		if names, err := asked.Loader.Variants(all[i].Options); err == nil && len(names) > 0 {
			a.Note("%s runs as the preset has it; its variants %s are not tried, --set run.variant=NAME chooses one", all[i].Config.Run.System, strings.Join(names, ", "))
		}
	}
}

// capacity searches the highest rate of each configuration.
func (a *app) capacity(cmd *cobra.Command, all []sweep.Combination, f *planFlags) error {
	for i := range all {
		if all[i].Err != nil && !f.tune {
			return all[i].Err
		}
	}
	if err := cmp.Or(cli.Creatable(f.out), cli.WritableFolder("--plots", f.plots)); err != nil {
		return err
	}
	if n := lines(all); f.plots != "" && n > figure.MaxGroups {
		return &input.Error{Key: "--plots", Value: f.plots, Expected: fmt.Sprintf("at most %d combinations of system, GPU and policy, a line each: there are %d", figure.MaxGroups, n)}
	}
	show := a.NewProgress("runs")
	show.Start(0)
	defer show.Done()
	var done atomic.Int64
	out := &plan.Report{Schema: plan.CapacitySchema}
	work, err := a.combinations(all, &plan.Search{Precision: f.precision, Tune: f.tune, Meter: func(int64) { show.Set(done.Add(1)) }}, out)
	if err != nil {
		return err
	}
	for _, c := range work {
		show.Now(c.called)
		err := c.contest.Compare(cmd.Context())
		if err == nil {
			c.row, err = c.contest.Decide(cmd.Context())
		}
		if err != nil {
			return err
		}
	}
	show.Done()
	return a.printRows(work, f, out, nil)
}

// runs returns the runs of a combination at the rates that were tried, a point each. That of its row has the combination's name alone, so that
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

// lines returns how many lines a figure of combinations has, in each model's plot.
func lines(all []sweep.Combination) int {
	models := map[string]bool{}
	for i := range all {
		models[all[i].Names["run.model"]] = true
	}
	return len(all) / max(len(models), 1)
}
