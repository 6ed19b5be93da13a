package main

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

func (a *app) newTracePlotCommand() *cobra.Command {
	var f traceFlags
	var out string
	cmd := &cobra.Command{
		Use:   "plot FILE",
		Short: "Draw the lengths of a file of requests, and what arrives over time",
		Long: `Draw the lengths of a file of requests, and what arrives over time, below one another in a file.

The figures are the share of requests up to each length, the requests a second over time,
and the mean lengths of what arrives. Time is cut into a hundred parts. Where all requests
arrive at once there is only the first figure.`,
		Example: `  l3sim trace plot requests.csv --out requests.svg
  l3sim trace plot requests.csv --window 0s:600s --out out/minutes.png`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := figure.Format("--out", out)
			if err = cmp.Or(err, cli.WritableFile("--out", out), cli.CheckOutputs("--out", []string{out}, args[0])); err != nil {
				return err
			}
			t, err := a.readTrace(cmd, args[0], &f)
			if err != nil {
				return err
			}
			page, err := tracePage(t)
			if err != nil {
				return err
			}
			return results.WriteFileAtomic(out, func(w io.Writer) error { return page.Write(w, format) })
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write: .png, .svg or .pdf")
	f.register(cmd.Flags())
	return cmd
}

// The columns of the drawn tables.
const (
	inputColumn  = "length_prompt_tokens"
	outputColumn = "length_output_tokens"
	timeColumn   = "time_s"
	rateColumn   = "arrivals_per_s"
)

func tracePage(t *traces.Trace) (*figure.Page, error) {
	var page figure.Page
	of := " of " + input.Plural(len(t.Requests), "request", "requests")
	err := page.Add(lengthTable(t), figure.Selection{Kind: "cdf", X: inputColumn + "," + outputColumn}, "lengths"+of)
	if over := timeTable(t); over != nil {
		err = cmp.Or(err, page.Add(over, figure.Selection{Kind: "line", X: timeColumn, Y: rateColumn}, "arrivals"+of),
			page.Add(over, figure.Selection{Kind: "line", X: timeColumn, Y: inputColumn + "," + outputColumn}, "mean lengths"+of))
	}
	return &page, err
}

const parts = 100 // intervals of time, with a point of the lines each

// lengthTable has both lengths of each request.
func lengthTable(t *traces.Trace) *tables.Table {
	table := &tables.Table{Name: t.Name, Columns: []string{inputColumn, outputColumn}}
	for i := range t.Requests {
		table.Add(t.Requests[i].Input, t.Requests[i].Output)
	}
	return table
}

// timeTable returns the middle of each interval of time, its rate and the mean lengths of its
// arrivals; nil if all requests arrive at once.
func timeTable(t *traces.Trace) *tables.Table {
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
	number := func(x float64) tables.Value { return tables.Of(tables.Round(x, 8)) }
	table := &tables.Table{Name: t.Name, Columns: []string{timeColumn, rateColumn, inputColumn, outputColumn}}
	for k := range parts {
		row := []any{number((float64(k) + 0.5) * width), number(float64(count[k]) / width), nil, nil}
		if count[k] > 0 { // otherwise there is no mean
			row[2], row[3] = number(float64(in[k])/float64(count[k])), number(float64(out[k])/float64(count[k]))
		}
		table.Add(row...)
	}
	return table
}
