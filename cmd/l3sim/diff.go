package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results/tables"
)

type diffFlags struct {
	rules, metrics []string
	markdown       bool
	allowMissing   bool
	full           bool
}

func (a *app) newDiffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff BASE NEW",
		Short: "Show what changed between two results",
		Long: `Show what changed between two results.

BASE and NEW are folders of --out or their results.csv. Points are matched by name, else by configuration; the seeds
of a point are paired. A rule METRIC<LIMIT (or <=, >, >=) limits the change of a metric, in its unit or in percent of
the old value. The exit code is 1 where a rule trips, where a rule finds no point to judge, and, unless
--allow-missing is given, where points or seeds of BASE are missing in NEW.`,
		Example: `  l3sim diff out/base out/new
  l3sim diff base.csv new.csv --markdown --fail-if 'output_tokens_per_s<-2%' --fail-if 'tbt_p99_ms>5%'`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return a.diff(args[0], args[1], &f) },
	}
	cmd.Flags().StringArrayVar(&f.rules, "fail-if", nil, "exit with 1 where a metric's change is beyond this `rule` (repeatable)")
	cmd.Flags().StringSliceVar(&f.metrics, "metrics", nil, "`metrics` to show; all for every one (default: a few and those of rules)")
	cmd.Flags().BoolVar(&f.full, "full", false, "show every metric that changed")
	cmd.Flags().BoolVar(&f.allowMissing, "allow-missing", false, "rules pass though points of BASE are missing in NEW, or none is in both")
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print one JSON object, with every metric unless --metrics chooses")
	cmd.Flags().BoolVar(&f.markdown, "markdown", false, "print GitHub's Markdown")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return cmp.Or(cli.Exclusive(cmd, "json", "markdown"), cli.Exclusive(cmd, "full", "metrics"))
	}
	return cmd
}

func (a *app) diff(base, updated string, f *diffFlags) error {
	old, err := tables.ReadTable(base)
	if err != nil {
		return err
	}
	current, err := tables.ReadTable(updated)
	if err != nil {
		return err
	}
	c, err := tables.Compare(old, current)
	if err != nil {
		return err
	}
	o, err := f.options(c, a.JSON)
	if err != nil {
		return err
	}
	write := c.WriteText
	switch {
	case a.JSON:
		write = c.WriteJSON
	case f.markdown:
		write = c.WriteMarkdown
	}
	return cmp.Or(write(a.Stdout, o), c.Judge(o.Rules, f.allowMissing))
}

// diffMetrics are shown by default.
var diffMetrics = []string{"output_tokens_per_s", "tbt_p99_ms", "ttft_mean_ms", "gpu_energy_per_output_token_j", "usd_per_million_output_tokens"}

// options reads the rules and chooses the metrics to show.
func (f *diffFlags) options(c *tables.Comparison, json bool) (o tables.CompareOptions, err error) {
	switch {
	case slices.Contains(f.metrics, "all") || len(f.metrics) == 0 && (f.full || json):
		o.Metrics = slices.Clone(c.Metrics)
	case len(f.metrics) == 0:
		o.Metrics = slices.DeleteFunc(slices.Clone(diffMetrics), func(m string) bool { return !slices.Contains(c.Metrics, m) })
	}
	for _, m := range f.metrics {
		if m != "all" && !slices.Contains(c.Metrics, m) {
			return o, tables.NoMetric("--metrics", m, c.Metrics)
		}
		o.Metrics = append(o.Metrics, m)
	}
	for _, text := range f.rules {
		r, err := tables.ParseRule("--fail-if", text, c.Metrics)
		if err != nil {
			return o, err
		}
		o.Rules, o.Metrics = append(o.Rules, r), append(o.Metrics, r.Column)
	}
	return o, nil
}
