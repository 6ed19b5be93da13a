package main

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

func (a *app) newCapacityCommand() *cobra.Command {
	p := &planner{app: a, report: plan.Report{Schema: plan.CapacitySchema}}
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
	flags := p.register(cmd)
	flags.StringVar(&p.out, "out", "", "also write results.csv, a row for each rate that was tried, and the answers to `folder`")
	flags.BoolVar(&p.search.Tune, "tune", false, "also search the server's knobs: tensor parallelism, batch limit, prefill policy, chunk and admission")
	flags.Float64Var(&p.search.Precision, "precision", 0.02, "largest relative distance from the answer to a rate that fails")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if precision := p.search.Precision; !(precision >= 1e-4 && precision <= 1) {
			return &input.Error{Key: "--precision", Value: fmt.Sprint(precision), Expected: "0.0001 to 1"}
		}
		if err := cli.NotEmpty(cmd, "out"); err != nil {
			return err
		}
		return p.start(cmd, p.capacity, !p.search.Tune) // capacity without a search keeps each row's own layout
	}
	return cmd
}

// start runs do with the combinations that the flags give: one configuration, or all combinations of several systems, models, GPUs,
// policies and further keys. With oneLayout they share one layout. If there are several, some may be errors.
func (p *planner) start(cmd *cobra.Command, do func(*cobra.Command, []sweep.Combination) error, oneLayout bool, further ...string) error {
	given, err := p.config.Given(cmd)
	if err == nil {
		p.asked, err = design.OfLists(system.Configs(), given, further...)
	}
	if err != nil {
		return err
	}
	var all []sweep.Combination
	several := len(p.asked.Axes) > 0
	if several && oneLayout {
		err = p.oneLayout(p.asked)
	}
	switch {
	case !several:
		cfg, err := p.config.Load(cmd)
		all = []sweep.Combination{{Config: cfg, Options: given, Err: err}}
	case err == nil: // not a plan, which would load each trace as a run does: a search takes more requests
		all, err = sweep.Combinations(p.asked)
	}
	if err != nil {
		return err
	}
	for i := range all { // a search of rates does not try variants of a preset
		c := &all[i]
		if names, err := p.asked.Loader.Variants(c.Options); c.Err == nil && err == nil && len(names) > 0 {
			p.Note("%s runs as the preset has it; its variants %s are not tried, --set run.variant=NAME chooses one", c.Config.Run.System, strings.Join(names, ", "))
		}
	}
	return p.config.Locate(do(cmd, all))
}

// capacity searches the highest rate of each configuration.
func (p *planner) capacity(cmd *cobra.Command, all []sweep.Combination) error {
	for i := range all {
		if all[i].Err != nil && !p.search.Tune {
			return all[i].Err
		}
	}
	show := p.NewProgress("runs")
	show.Start(0)
	defer show.Done()
	var done atomic.Int64
	p.search.Meter = func(int64) { show.Set(done.Add(1)) }
	if err := p.combine(all); err != nil {
		return err
	}
	for _, c := range p.work {
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
	return p.print(cmd, nil)
}
