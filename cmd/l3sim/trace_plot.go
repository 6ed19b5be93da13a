package main

import (
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/traces"
)

func (a *app) newTracePlotCommand() *cobra.Command {
	var f traceFlags
	var out, format string
	cmd := &cobra.Command{
		Use:   "plot FILE",
		Short: "Draw the lengths of a file of requests, and what arrives over time",
		Long: `Draw the lengths of a file of requests, and what arrives over time.

lengths is the share of requests up to each length, arrivals the requests a second over
time, and tokens the mean lengths of what arrives. Time is cut into a hundred parts. Where
all requests arrive at once there is only the first. A file gets them below one another, a
folder one file each.`,
		Example: `  l3sim trace plot requests.csv --out requests.svg
  l3sim trace plot requests.csv --out out/requests
  l3sim trace plot requests.csv --window 0s:600s --format svg --out out/minutes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.RequireFlag(cmd, "out", "a file that ends with .png, .svg or .pdf, or a folder for the figures"); err != nil {
				return err
			}
			if _, err := figure.Format("--format", "."+format); err != nil {
				return &input.Error{Key: "--format", Value: format, Expected: "png, svg or pdf"}
			}
			ending, err := figure.Format("--out", out)
			file := err == nil
			if file && cmd.Flags().Changed("format") && ending != format {
				return &input.Error{Key: "--format", Value: format, Expected: "what the file of --out ends with, " + ending}
			}
			if file {
				err = cmp.Or(cli.WritableFile("--out", out), cli.CheckOutputs("--out", []string{out}, args[0]))
			} else {
				err = cli.Creatable(out)
			}
			if err != nil {
				return err
			}
			t, err := a.readTrace(cmd, args[0], &f)
			if err != nil {
				return err
			}
			figures := traceFigures(t)
			if file {
				return writeTracePage(figures, out, ending)
			}
			return writeTraceFigures(figures, out, format)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` for all figures, .png, .svg or .pdf, or folder for one file each")
	cmd.Flags().StringVar(&format, "format", "png", "of the files in a folder: png, svg or pdf")
	f.register(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"png", "svg", "pdf"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// The columns of the tables that are drawn.
const (
	inputColumn  = "length_prompt_tokens"
	outputColumn = "length_output_tokens"
	timeColumn   = "time_s"
	rateColumn   = "arrivals_per_s"
)

// traceFigure is a figure of a trace.
type traceFigure struct {
	name, title string
	table       *results.Table
	selection   figure.Selection
}

// traceFigures returns the figures of a trace.
func traceFigures(t *traces.Trace) []traceFigure {
	over, of := timeTable(t), " of "+cli.Plural(len(t.Requests), "request", "requests")
	all := []traceFigure{{"lengths", "lengths" + of, lengthTable(t), figure.Selection{Kind: "cdf", X: inputColumn + "," + outputColumn}}}
	if over != nil {
		all = append(all, traceFigure{"arrivals", "arrivals" + of, over, figure.Selection{Kind: "line", X: timeColumn, Y: rateColumn}},
			traceFigure{"tokens", "mean lengths" + of, over, figure.Selection{Kind: "line", X: timeColumn, Y: inputColumn + "," + outputColumn}})
	}
	return all
}

// writeTraceFigures writes each figure to a file in a folder.
func writeTraceFigures(figures []traceFigure, dir, format string) error {
	var files []results.File
	for _, f := range figures {
		file, err := figure.File(f.table, f.selection, f.name, format, f.title)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	return results.WriteFiles(dir, files)
}

// writeTracePage writes all figures to one file.
func writeTracePage(figures []traceFigure, path, format string) error {
	var page figure.Page
	for _, f := range figures {
		if err := page.Add(f.table, f.selection, f.title); err != nil {
			return err
		}
	}
	return results.WriteFileAtomic(path, func(w io.Writer) error { return page.Write(w, format) })
}

// The points of a figure's lines: quantiles of lengths, parts of the time.
const (
	quantiles = 500
	parts     = 100
)

// lengthTable has both lengths at equal steps of their shares, or all of a few.
func lengthTable(t *traces.Trace) *results.Table {
	n := len(t.Requests)
	in, out := make([]int, n), make([]int, n)
	for i := range t.Requests {
		in[i], out[i] = t.Requests[i].Input, t.Requests[i].Output
	}
	slices.Sort(in)
	slices.Sort(out)
	table := &results.Table{Name: t.Name, Columns: []string{inputColumn, outputColumn}}
	rows := min(n, quantiles)
	for k := 1; k <= rows; k++ {
		at := int((int64(k)*int64(n)+int64(rows)-1)/int64(rows)) - 1 // nearest rank
		table.Rows = append(table.Rows, []string{strconv.Itoa(in[at]), strconv.Itoa(out[at])})
	}
	return table
}

// timeTable has the middle of each part of the time, the rate in it and the mean lengths
// of what arrives; nil where all requests arrive at once.
func timeTable(t *traces.Trace) *results.Table {
	last := t.Requests[len(t.Requests)-1].Arrival
	if last == 0 {
		return nil
	}
	var count, in, out [parts]int64
	for i := range t.Requests {
		r := &t.Requests[i]
		part := min(int(r.Arrival.Seconds()/last.Seconds()*parts), parts-1)
		count[part]++
		in[part] += int64(r.Input)
		out[part] += int64(r.Output)
	}
	width := last.Seconds() / parts
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 8, 64) }
	table := &results.Table{Name: t.Name, Columns: []string{timeColumn, rateColumn, inputColumn, outputColumn}}
	for k := range parts {
		row := []string{number((float64(k) + 0.5) * width), number(float64(count[k]) / width), "", ""}
		if count[k] > 0 { // else there is no mean
			row[2], row[3] = number(float64(in[k])/float64(count[k])), number(float64(out[k])/float64(count[k]))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
