package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

// tableFormats are the values of --format.
var tableFormats = []string{"text", "markdown", "latex", "csv"}

const formatJSON = "json"

func (a *app) newTableCommand() *cobra.Command {
	var s figure.Selection
	var columns []string
	var format string
	var wide, listing bool
	var rank string
	cmd := &cobra.Command{
		Use:   "table RESULTS...",
		Short: "Print results as text, Markdown, LaTeX or CSV",
		Long: `Print results as text, Markdown, LaTeX (with booktabs) or CSV.

RESULTS is a folder of --out or a CSV file. Of several, the column source says where a row is from.

Without --y the command prints the table itself: all columns in CSV and JSON, else the keys that vary and the main
results, or --columns. With --y it prints the numbers of the figure that 'l3sim plot' draws.

With --rank, RESULTS is a folder of 'l3sim sweep --bands': a row for each pair of points of one model and trace, and of
one value of --group, with the draws that the first wins. A tie is what wins fewer than 90% of them.`,
		Example: `  l3sim table out/ranks
  l3sim table out/ranks --list-columns
  l3sim table out/ranks --columns point,tbt_p99_ms --format markdown
  l3sim table out/ranks --x ranksets --y output_tokens_per_s --group channels
  l3sim table out/bands --rank output_tokens_per_s`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if listing {
				t, err := tables.ReadTable(args[0])
				if err != nil {
					return err
				}
				return a.listColumns(t)
			}
			if a.JSON {
				format = formatJSON
			} else if !slices.Contains(tableFormats, format) {
				return input.UnknownName("--format", format, tableFormats)
			}
			if rank != "" {
				return a.rank(args, &s, rank, format)
			}
			return a.table(args, &s, columns, format, wide)
		},
	}
	selectionFlags(cmd.Flags(), &s)
	cmd.Flags().StringSliceVar(&columns, "columns", nil, "`columns` to print, in this order")
	cmd.Flags().BoolVar(&listing, "list-columns", false, "list the columns with their units, which direction is better, and what they mean")
	cmd.Flags().StringVar(&rank, "rank", "", "`column` by which to compare all pairs of points, draw by draw")
	cmd.Flags().StringVar(&format, "format", "text", "`form` of the table: "+strings.Join(tableFormats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(tableFormats, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.Flags().BoolVar(&wide, "wide", false, "with --x and --y: a column for each value of --x, means over seeds")
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print one JSON object: the columns' names, and the rows as arrays")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		err := cmp.Or(cli.NotEmpty(cmd, "rank"), cli.Exclusive(cmd, "json", "format"))
		for _, other := range []string{"columns", "list-columns", "wide", "best", "normalize-to", "facet", "x", "y", "z"} {
			err = cmp.Or(err, cli.Exclusive(cmd, "rank", other))
		}
		return err
	}
	return cmd
}

func (a *app) table(paths []string, s *figure.Selection, columns []string, format string, wide bool) error {
	t, err := tables.ReadTables(paths)
	if err != nil {
		return err
	}
	if s.X != "" || s.Y != "" || s.Z != "" {
		if len(columns) > 0 {
			return &input.Error{Key: "--columns", Expected: "no --x, --y or --z with it"}
		}
		s.Kind = "line"
		if s.Z != "" {
			s.Kind = "heatmap"
		}
		data, err := figure.Select(t, *s)
		if err != nil {
			return err
		}
		t, legend := data.Table(), ""
		if format != "csv" && format != formatJSON {
			t, legend = data.Marked()
		}
		if wide {
			x := slices.Index(t.Columns, data.X)
			t = t.Wide(x, x+1)
		}
		return cmp.Or(a.printTable(t, format), writeLegend(a.Stdout, legendIn(format, legend)))
	}
	if wide {
		return &input.Error{Key: "--wide", Expected: "--x and --y with it"}
	}
	for _, flag := range []struct{ name, value string }{{"--group", s.Group}, {"--facet", s.Facet}, {"--normalize-to", s.NormalizeTo}} {
		if flag.value != "" {
			return &input.Error{Key: flag.name, Expected: "--x and --y with it"}
		}
	}
	if t, err = t.Where("--where", s.Where); err == nil {
		t, err = t.Best("--best", s.Best)
	}
	if err != nil {
		return err
	}
	if (format == "csv" || format == formatJSON) && len(columns) == 0 {
		return a.printTable(t, format)
	}
	chosen, err := t.Choose("--columns", columns)
	if err != nil {
		return err
	}
	if format == "csv" || format == formatJSON {
		return a.printTable(t.Select(chosen), format)
	}
	marked, legend := t.Marked(chosen)
	return cmp.Or(a.printTable(marked, format), writeLegend(a.Stdout, legendIn(format, legend)))
}

// legendIn returns a legend in a format: in LaTeX as comments, for the document's caption.
func legendIn(format, legend string) string {
	if format == "latex" && legend != "" {
		return "% " + strings.ReplaceAll(legend, "\n", "\n% ")
	}
	return legend
}

// writeLegend writes the meaning of the signs in the table above, if there are any.
func writeLegend(w io.Writer, legend string) (err error) {
	if legend != "" {
		_, err = fmt.Fprintf(w, "\n%s\n", legend)
	}
	return err
}

// rank prints in how many draws of a sweep with bands each point wins.
func (a *app) rank(paths []string, s *figure.Selection, column, format string) error {
	if len(paths) > 1 {
		return &input.Error{Key: "--rank", Value: strconv.Quote(column), Expected: "one folder: draws of several are of different seeds"}
	}
	t, err := tables.ReadDraws(paths[0])
	if err == nil {
		t, err = t.Where("--where", s.Where)
	}
	if err != nil {
		return err
	}
	var groups []string
	if s.Group != "" {
		groups = []string{s.Group}
	}
	if t, err = t.Rank("--rank", column, "--group", groups...); err != nil {
		return err
	}
	return a.printTable(t, format)
}

// printTable prints a table in a format of tableFormats, or as JSON.
func (a *app) printTable(t *tables.Table, format string) error {
	switch format {
	case "markdown":
		return t.WriteMarkdown(a.Stdout)
	case "latex":
		return t.WriteLaTeX(a.Stdout)
	case "csv":
		return t.WriteCSV(a.Stdout)
	case formatJSON:
		return t.WriteJSON(a.Stdout)
	}
	return t.WriteText(a.Stdout)
}
