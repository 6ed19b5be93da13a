package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

// capacitySchema names the form of `capacity --json`.
const capacitySchema = "l3sim/capacity/1"

// capacityFlags are the flags of the capacity command that no configuration key has.
type capacityFlags struct {
	config    configFlags
	plots     string
	precision float64
}

func (a *app) newCapacityCommand() *cobra.Command {
	var f capacityFlags
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Find the highest rate of requests that a system serves within targets of latency",
		Long: `Find the highest rate of requests that a system serves within targets of latency.

A request attains the targets of --slo if its time to the first token, and the 99th
percentile of its times between tokens, are not above them; slo.attainment (0.99) of the
requests must. A rate is judged by the middle 80% of a run's requests, 2,000 at least
(--requests sets the number of all), and the node must keep up with it. Requests come in the
pattern of the trace's times, or as --arrivals says; all rates and systems see the same
pattern. The answer is the highest rate tried that meets the targets, up to --precision; where
a lower one did not meet them, it says so. Where no rate does, it is 0. See docs/metrics.md.`,
		Example: `  l3sim capacity --slo ttft=2s,tbt=100ms --system l3,gpu-only --model llama-3-70b --trace requests.csv
  l3sim capacity --slo tbt=150ms --trace openthoughts --arrivals gamma --set arrivals.cv=2 --plots out/capacity`,
	}
	f.config.register(cmd, runKeys...)
	cmd.Flags().BoolVar(&a.json, "json", false, jsonUsage)
	cmd.Flags().StringVar(&f.plots, "plots", "", "also draw latency over load, a line for each system, into `folder`")
	cmd.Flags().Float64Var(&f.precision, "precision", 0.02, "largest relative distance from the answer to a rate that fails")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(f.precision >= 1e-4 && f.precision <= 1) {
			return &input.Error{Key: "--precision", Value: fmt.Sprint(f.precision), Expected: "0.0001 to 1"}
		}
		if err := notEmpty(cmd, "plots"); err != nil {
			return err
		}
		all, err := f.configurations(cmd)
		if err != nil {
			return err
		}
		return f.config.locate(a.capacity(cmd.Context(), all, &f))
	}
	return cmd
}

// configurations returns what the flags amount to: one configuration, or all combinations of
// several systems, models, GPUs and policies.
func (f *capacityFlags) configurations(cmd *cobra.Command) ([]*configs.Config, error) {
	given, err := f.config.given(cmd)
	if err != nil {
		return nil, err
	}
	several, err := comparisonOf(given)
	if err != nil {
		return nil, err
	}
	if several == nil {
		cfg, err := f.config.load(cmd)
		return []*configs.Config{cfg}, err
	}
	// No plan: it would load each trace as a run does, and a search takes more requests.
	return several.Configurations()
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
	Tried []capacity.Load `json:"tried"`
}

// capacityAnswer is the highest rate of a system.
type capacityAnswer struct {
	capacity.Load
	// Dips says that a lower rate did not meet the targets.
	Dips bool `json:"lower_rate_fails"`
	// Alone says that where RatePerS is 0, requests miss the targets without waiting for one another.
	Alone    bool `json:"alone_fails"`
	TooLarge int  `json:"rejected_requests"`
}

// capacity searches the highest rate of each configuration.
func (a *app) capacity(ctx context.Context, all []*configs.Config, f *capacityFlags) error {
	if err := writableFolder("--plots", f.plots); err != nil {
		return err
	}
	show := a.newProgress("runs")
	show.Start(0)
	defer show.Done()
	var runs atomic.Int64
	search := capacity.Search{Precision: f.precision, Done: func() { show.Set(runs.Add(1)) }}
	out := &capacityJSON{Schema: capacitySchema}
	for _, cfg := range all {
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
		out.Rates = append(out.Rates, capacityAnswer{found.Best, found.Dips, found.Alone, found.TooLarge})
		out.Tried = append(out.Tried, found.Tried...)
	}
	show.Done()
	if f.plots != "" {
		if err := out.plot(f.plots); err != nil {
			return err
		}
	}
	return a.print(out, out.writeText)
}

// writeText writes a table, a row a system.
func (c *capacityJSON) writeText(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d requests measured at each rate; %g%% of them within", c.Trace.Name, c.Measured, 100*c.Target)
	for _, t := range []struct {
		name string
		ms   float64
	}{{"TTFT", c.SLO.TTFT}, {"TBT", c.SLO.TBT}} {
		if t.ms > 0 {
			fmt.Fprintf(out, " %s %g ms", t.name, t.ms)
		}
	}
	fmt.Fprint(out, "\n\n")
	return aligned(out, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, "system\tmodel\trequests/s\tattainment\tgoodput tokens/s\tTTFT p50\tp99 ms\tTBT p50\tp99 ms\t")
		for i := range c.Rates {
			r := &c.Rates[i]
			note := ""
			switch {
			case r.RatePerS == 0 && r.Alone:
				note = "no rate meets the targets, as requests do not even where none waits for another"
			case r.RatePerS == 0:
				note = "no rate meets the targets; latencies of the lowest tried"
			case r.Dips:
				note = "a lower rate fails"
			}
			fmt.Fprintf(w, "%s\t%s\t%.4g\t%.2f%%\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%s\n", r.System, r.Model, r.RatePerS, 100*r.Attainment, r.GoodputTokens,
				r.TTFT.P50, r.TTFT.P99, r.TBT.P50, r.TBT.P99, note)
		}
	})
}

// plot draws latency, attainment and goodput over the rates that were tried into a folder, and
// writes their table there.
func (c *capacityJSON) plot(dir string) error {
	t := &results.Table{Name: "capacity", Columns: []string{"system", "model", "gpu", "rate_per_s", "attainment", "goodput_tokens_per_s",
		"ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms", "tbt_mean_ms", "tbt_p50_ms", "tbt_p99_ms", "tpot_mean_ms", "e2e_mean_ms"}}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for i := range c.Tried {
		l := &c.Tried[i]
		row := []string{l.System, l.Model, l.GPU}
		for _, v := range []float64{l.RatePerS, l.Attainment, l.GoodputTokens, l.TTFT.Mean, l.TTFT.P50, l.TTFT.P99, l.TBT.Mean, l.TBT.P50, l.TBT.P99, l.TPOT.Mean, l.E2E.Mean} {
			row = append(row, number(v))
		}
		t.Rows = append(t.Rows, row)
	}
	files := []results.File{{Name: "rates.csv", Write: t.WriteCSV}}
	facet := ""
	if slices.ContainsFunc(t.Rows, func(row []string) bool { return row[1] != t.Rows[0][1] }) {
		facet = "model"
	}
	for _, y := range []string{"ttft_p99_ms", "ttft_mean_ms", "tbt_p99_ms", "tpot_mean_ms", "attainment", "goodput_tokens_per_s"} {
		file, err := figure.File(t, figure.Selection{Kind: "line", X: "rate_per_s", Y: y, Group: "system", Facet: facet}, y, "svg", "")
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	return writeFiles("--plots", filepath.Clean(dir), files)
}
