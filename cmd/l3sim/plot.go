package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

// selectionFlags adds the flags that select the content of a figure or table. Shells complete a
// flag of one letter only if it is its own short form.
func selectionFlags(flags *pflag.FlagSet, s *figure.Selection) {
	flags.StringVarP(&s.X, "x", "x", "", "`column` of the x axis")
	cli.ListVar(flags, &s.Y, "y", "y", "", "`column` of the y axis, or several of one unit: a,b")
	flags.StringVarP(&s.Z, "z", "z", "", "`column` of the values of a heat map, or the third goal of a Pareto front")
	flags.StringVar(&s.Group, "group", "", "`column` with a colour and marker for each value")
	flags.StringVar(&s.Facet, "facet", "", "`column` with a plot for each value")
	flags.StringVar(&s.NormalizeTo, "normalize-to", "", "divide by the row with `column=value` and the same x, group, facet and seed")
	flags.StringArrayVar(&s.Where, "where", nil, "only rows with `column=value`, or with <=, >=, < or > between numbers (repeatable)")
	flags.StringVar(&s.Best, "best", "", "of points that differ in KEY alone only the best: `'max COLUMN over KEY'` or min, or KEY,KEY")
}

func (a *app) newPlotCommand() *cobra.Command {
	var s figure.Selection
	var out, title, definition, width string
	cmd := &cobra.Command{
		Use:   "plot RESULTS...",
		Short: "Draw a figure of results",
		Long: `Draw a figure of results.

RESULTS is a folder of --out or a CSV file; of several, the column source says where a row is from. Column names may omit section and unit (ranksets for node.ranksets). Rows
that differ only in their seed are one point with an error bar of one standard deviation. Axes over more than
a factor of 16, of whose values most lie at the low end, are logarithmic.

A Pareto front looks for what --goals says, y first, then x; a third goal is shown as up to four levels. --figure
reads all of this from a file, as those of lab/claims/paper; flags that are given as well win. The written file says
which version drew it and hashes the configurations (config_sha256): PNG in the text Source, SVG in its
description, PDF in a comment at its end.`,
		Example: `  l3sim plot out/ranks --kind line --x ranksets --y output_tokens_per_s --group channels --out ranks.png
  l3sim plot out/systems --kind bar --x model --y output_tokens_per_s --group system --normalize-to system=l3 --out f.svg
  l3sim plot out/ranks --kind heatmap --x ranksets --y channels --z tbt_mean_ms --out tbt.pdf
  l3sim plot out/explore --kind pareto --goals 'max output_tokens_per_s, min tbt_p99_ms' --out front.png
  l3sim plot out/fig8 --figure lab/claims/paper/fig8.figure.toml --out fig8.svg`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "figure"); err != nil {
				return err
			}
			if definition != "" {
				d, err := figure.ReadDefinition(definition)
				if err != nil {
					return err
				}
				s = d.Under(s)
				if !cmd.Flags().Changed("title") {
					title = d.Title
				}
			}
			mm, err := figure.Width("--width", width)
			if err != nil {
				return err
			}
			return a.plot(args, &s, out, title, mm)
		},
	}
	cmd.Flags().StringVar(&s.Kind, "kind", "", "`kind` of figure: "+strings.Join(figure.Kinds(), ", "))
	selectionFlags(cmd.Flags(), &s)
	cli.ListVar(cmd.Flags(), &s.Goals, "goals", "", "", "`goals` of a Pareto front: two or three of 'max COLUMN' and 'min COLUMN'")
	cmd.Flags().StringVar(&definition, "figure", "", "`file` that defines the figure")
	cmd.Flags().StringVar(&title, "title", "", "`text` above the figure")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write: .png, .svg or .pdf")
	cmd.Flags().StringVar(&width, "width", "", "`column` of a journal: single (84 mm) or double (174 mm); without it for a screen")
	return cmd
}

func (a *app) plot(paths []string, s *figure.Selection, out, title string, width float64) error {
	table, err := tables.ReadTables(paths)
	if err != nil {
		return err
	}
	if out == "" {
		return &input.Error{Key: "--out", Expected: "a file that ends with .png, .svg or .pdf"}
	}
	format, err := figure.Format("--out", out)
	if err != nil {
		return err
	}
	if err := cli.WritableFile("--out", out); err != nil {
		return err
	}
	data, err := figure.Select(table, *s)
	if err != nil {
		return err
	}
	data.Width, data.Source = width, figure.SourceOf(table, "l3sim "+cli.Version)
	if err := data.Check(); err != nil {
		return err
	}
	if note := data.LeftOut(); note != "" {
		a.Warn("%s", note)
	}
	return results.WriteFileAtomic(out, func(w io.Writer) error { return data.Write(w, format, title) })
}
