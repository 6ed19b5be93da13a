package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/plan"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// capacityFlags are the flags of the capacity command that no configuration key has.
type capacityFlags struct {
	config    cli.ConfigFlags
	asked     *design.File // the configurations, as the flags describe them
	out       string
	plots     string
	precision float64
	tune      bool
	require   bool
}

func (a *app) newCapacityCommand() *cobra.Command {
	var f capacityFlags
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
	f.config.Register(cmd, slices.Concat(cli.RunKeys, nodeKeys, cli.LoadKeys)...)
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.Flags().StringVar(&f.out, "out", "", "also write results.csv, a row for each rate that was tried, and the answers to `folder`")
	cmd.Flags().StringVar(&f.plots, "plots", "", "also draw latency over load, a line for each system, GPU and policy, into `folder`")
	cmd.Flags().BoolVar(&f.tune, "tune", false, "also search the server's knobs: tensor parallelism, batch limit, prefill policy, chunk and admission")
	cmd.Flags().BoolVar(&f.require, "require", false, requireUsage)
	cmd.Flags().Float64Var(&f.precision, "precision", 0.02, "largest relative distance from the answer to a rate that fails")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(f.precision >= 1e-4 && f.precision <= 1) {
			return &input.Error{Key: "--precision", Value: fmt.Sprint(f.precision), Expected: "0.0001 to 1"}
		}
		if err := cli.NotEmpty(cmd, "out", "plots"); err != nil {
			return err
		}
		asked, all, err := configurations(cmd, &f.config)
		if err == nil && len(asked.Axes) > 0 && !f.tune { // --tune searches each row's own
			if err = a.oneLayout(asked); err == nil {
				all, err = sweep.Combinations(asked)
			}
		}
		if err != nil {
			return err
		}
		f.asked = asked
		a.noteVariants(asked, all)
		a.nameTrace(cmd, all)
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
// several systems, models, GPUs, policies and further keys. Where they are several, one may be an error.
func configurations(cmd *cobra.Command, f *cli.ConfigFlags, further ...string) (*design.File, []sweep.Combination, error) {
	given, err := f.Given(cmd)
	if err != nil {
		return nil, nil, err
	}
	asked, err := design.OfLists(system.Configs(), given, further...)
	if err != nil {
		return nil, nil, err
	}
	if len(asked.Axes) == 0 {
		cfg, err := f.Load(cmd)
		return asked, []sweep.Combination{{Config: cfg, Options: given, Err: err}}, nil
	}
	// No plan: it would load each trace as a run does, and a search takes more requests.
	all, err := sweep.Combinations(asked)
	return asked, all, err
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
func (a *app) capacity(cmd *cobra.Command, all []sweep.Combination, f *capacityFlags) error {
	for i := range all {
		if all[i].Err != nil && !f.tune {
			return all[i].Err
		}
	}
	if err := cmp.Or(cli.Creatable(f.out), cli.WritableFolder("--plots", f.plots)); err != nil {
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
	var runs counter
	search := plan.Search{Precision: f.precision, Tune: f.tune, Meter: plan.Meter{Done: func() { show.Set(runs.add(1)) }}}
	out := &plan.Report{Schema: plan.CapacitySchema}
	var tried []sweep.Run
	for i := range all {
		cfg, err := plan.AsGiven(all[i].Options)
		if err != nil {
			return err
		}
		trace, err := plan.Requests(cfg)
		if err != nil {
			return err
		}
		a.noteReading(trace)
		show.Now(called(&all[i]))
		found, err := search.Row(cmd.Context(), all[i].Options, cfg, trace)
		if err != nil {
			return err
		}
		out.Add(plan.NewRow(found, trace, all[i].Names), cfg, trace, found.Answer.Tried)
		tried = append(tried, runsOf(&all[i], found.Config, trace, found.Answer)...)
	}
	out.Distinguish()
	show.Done()
	if err := f.write(out, tried); err != nil {
		return err
	}
	if err := a.Print(out, out.WriteText); err != nil {
		return err
	}
	if f.require && !out.Holds() {
		return errors.New("no row holds what is asked for (--require)")
	}
	return nil
}

// runsOf returns the runs of a search, a point each. That of the answer has the combination's name alone, so that answers of
// several searches can be compared.
func runsOf(c *sweep.Combination, tuned *configs.Config, trace *traces.Trace, found *plan.Answer) (runs []sweep.Run) {
	for i := range found.Tried {
		load, cfg := &found.Tried[i], *tuned
		cfg.Arrivals.RatePerS, cfg.Run.Requests = load.RatePerS, len(trace.Requests)
		if load.Users > 0 {
			cfg.Arrivals.RatePerS, cfg.Arrivals.Users = 0, load.Users
		}
		name := cmp.Or(c.Point, "default")
		switch {
		case load.Users > 0 && load.Users != found.Best.Users:
			name = strings.TrimPrefix(fmt.Sprintf("%s,users=%d", c.Point, load.Users), ",")
		case load.Users == 0 && load.RatePerS != found.Best.RatePerS:
			name = strings.TrimPrefix(fmt.Sprintf("%s,rate=%.6g", c.Point, load.RatePerS), ",")
		}
		runs = append(runs, sweep.Run{Name: name, Config: &cfg, Trace: trace, Summary: load.Summary})
	}
	return runs
}

// write writes the folder of all rates that were tried, and figures of them.
func (f *capacityFlags) write(r *plan.Report, tried []sweep.Run) error {
	if f.out == "" && f.plots == "" {
		return nil
	}
	folder, err := made("capacity", f.asked, tried, r, "arrivals.rate_per_s", "arrivals.users")
	if err == nil && f.out != "" {
		err = cli.WriteFiles("--out", f.out, folder.Files())
	}
	if err != nil || f.plots == "" {
		return err
	}
	figures, err := r.Figures(folder.Table)
	return cmp.Or(err, cli.WriteFiles("--plots", filepath.Clean(f.plots), figures))
}

// made returns the folder of runs that a command made, with its report.
func made(command string, asked *design.File, runs []sweep.Run, report any, keys ...string) (*tables.Folder, error) {
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	plan, outcome, err := sweep.Made(asked, version, runs, keys...)
	if err != nil {
		return nil, err
	}
	return plan.Folder(command, outcome, func(w io.Writer) error { return results.WriteJSON(w, report) })
}

// lines returns how many lines a figure of combinations has, in each model's plot.
func lines(all []sweep.Combination) int {
	models := map[string]bool{}
	for i := range all {
		models[all[i].Names["run.model"]] = true
	}
	return len(all) / max(len(models), 1)
}
