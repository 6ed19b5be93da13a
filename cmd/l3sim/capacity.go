package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/system"
)

// capacitySchema names the form of `capacity --json`.
const capacitySchema = "l3sim/capacity/1"

// capacityFlags are the flags of the capacity command that no configuration key has.
type capacityFlags struct {
	config    cli.ConfigFlags
	plots     string
	precision float64
}

func (a *app) newCapacityCommand() *cobra.Command {
	var f capacityFlags
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Find the highest rate of requests that a system serves within targets of latency",
		Long: `Find the highest rate of requests that a system serves within targets of latency.

The answer is the highest rate tried at which slo.attainment (0.99) of the requests meet the targets of --slo
and the node keeps up, or 0. Each rate is judged by the middle 80% of a run, at least 2,000 requests. Requests
arrive in the pattern of the trace, or as --arrivals says. docs/serve.md says more.`,
		Example: `  l3sim capacity --slo ttft=2s,tbt=100ms --system l3,gpu-only --model llama-3-70b --trace requests.csv
  l3sim capacity --slo tbt=150ms --trace openthoughts --arrivals gamma --set arrivals.cv=2 --plots out/capacity`,
	}
	f.config.Register(cmd, cli.RunKeys...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.Flags().StringVar(&f.plots, "plots", "", "also draw latency over load, a line for each system, GPU and policy, into `folder`")
	cmd.Flags().Float64Var(&f.precision, "precision", 0.02, "largest relative distance from the answer to a rate that fails")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(f.precision >= 1e-4 && f.precision <= 1) {
			return &input.Error{Key: "--precision", Value: fmt.Sprint(f.precision), Expected: "0.0001 to 1"}
		}
		if err := cli.NotEmpty(cmd, "plots"); err != nil {
			return err
		}
		all, err := f.configurations(cmd)
		if err != nil {
			return err
		}
		return f.config.Locate(a.capacity(cmd.Context(), all, &f))
	}
	return cmd
}

// configurations returns what the flags amount to: one configuration, or all combinations of
// several systems, models, GPUs and policies.
func (f *capacityFlags) configurations(cmd *cobra.Command) ([]sweep.Combination, error) {
	given, err := f.config.Given(cmd)
	if err != nil {
		return nil, err
	}
	several, err := comparisonOf(given)
	if err != nil {
		return nil, err
	}
	if several == nil {
		cfg, err := f.config.Load(cmd)
		return []sweep.Combination{{Config: cfg}}, err
	}
	// No plan: it would load each trace as a run does, and a search takes more requests.
	return several.Combinations()
}

// capacityJSON is the JSON of the command.
type capacityJSON struct {
	Schema   string        `json:"schema"`
	Trace    results.Trace `json:"trace"`
	Arrivals string        `json:"arrivals"`
	SLO      results.SLO   `json:"slo_ms"`
	Target   float64       `json:"attainment_target"`
	Measured int           `json:"measured_requests"`
	// Rates are the answers, in the order of the flags.
	Rates []capacityAnswer `json:"rates"`
	// Tried are all rates that were tried, of one system after another.
	Tried   []capacity.Load `json:"tried"`
	origins []int           // of each of Tried: the place of its answer in Rates
	// called is what the user calls the names of a row of Rates, in the order of capacityNames.
	called [][]string
}

// capacityAnswer is the highest rate of a system.
type capacityAnswer struct {
	capacity.Load
	// Dips says that a lower rate did not meet the targets.
	Dips bool `json:"lower_rate_fails"`
	// Alone says that where RatePerS is 0, requests miss the targets without waiting for one another.
	Alone    bool `json:"alone_fails"`
	TooLarge int  `json:"rejected_requests"`
	// Notes are those of its configuration, as a run's summary has them.
	Notes []string `json:"notes,omitempty"`
}

// capacity searches the highest rate of each configuration.
func (a *app) capacity(ctx context.Context, all []sweep.Combination, f *capacityFlags) error {
	if err := cli.WritableFolder("--plots", f.plots); err != nil {
		return err
	}
	if f.plots != "" {
		if n := lines(all); n > figure.MaxGroups {
			return &input.Error{Key: "--plots", Value: f.plots, Expected: fmt.Sprintf("at most %d combinations of system, GPU and policy, a line each: there are %d", figure.MaxGroups, n)}
		}
	}
	show := a.NewProgress("runs")
	show.Start(0)
	defer show.Done()
	var runs atomic.Int64
	search := capacity.Search{Precision: f.precision, Done: func() { show.Set(runs.Add(1)) }}
	out := &capacityJSON{Schema: capacitySchema}
	for i := range all {
		cfg := all[i].Config
		trace, err := capacity.Requests(cfg)
		if err != nil {
			return err
		}
		found, err := search.Find(ctx, cfg, trace)
		if err != nil {
			return err
		}
		out.Trace, out.Arrivals, out.Target = results.DescribeTrace(trace), cfg.Arrivals.Kind, cfg.SLO.Attainment
		out.SLO = results.SLO{TTFT: 1e3 * cfg.SLO.TTFT.Seconds(), TBT: 1e3 * cfg.SLO.TBT.Seconds()}
		out.Measured = found.Measured
		out.Rates = append(out.Rates, capacityAnswer{found.Best, found.Dips, found.Alone, found.TooLarge, system.Notes(cfg)})
		out.Tried = append(out.Tried, found.Tried...)
		out.origins = append(out.origins, slices.Repeat([]int{i}, len(found.Tried))...)
	}
	out.distinguish(all)
	show.Done()
	if f.plots != "" {
		if err := out.plot(f.plots); err != nil {
			return err
		}
	}
	return a.Print(out, out.writeText)
}
