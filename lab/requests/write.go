package requests

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

// WriteText writes a line for each metric.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d requests of %s: %s on %d x %s\n\n", r.Requests, r.Log, r.Model, r.GPUs, r.GPU)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "time\trequests\tmeasured\tsimulated\tmedian |error|\tp90\tbias\t")
	for _, m := range r.Metrics {
		if m.Requests == 0 {
			fmt.Fprintf(t, "%s\t0\t-\t-\t-\t-\t-\t\n", strings.ToUpper(m.Name))
			continue
		}
		scale, unit := 100.0, "%"
		if m.Unit != "ratio" {
			scale, unit = 1, " s"
		}
		fmt.Fprintf(t, "%s\t%d\t%.4g s\t%.4g s\t%.1f%s\t%.1f%s\t%+.1f%s\t\n", strings.ToUpper(m.Name), m.Requests, m.Measured, m.Simulated,
			scale*m.Median, unit, scale*m.P90, unit, scale*m.Bias, unit)
	}
	return t.Flush()
}

// WriteRows writes a CSV line for each request: its measured and simulated times, in seconds.
func (r *Report) WriteRows(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write(strings.Split("line,input,output,arrival_s,queue_s,ttft_s,e2e_s,simulated_queue_s,simulated_ttft_s,simulated_e2e_s", ",")) // Error has it
	for i := range r.Judged {
		m, s := &r.Judged[i].Measured, &r.Judged[i].Simulated
		fields := []string{strconv.Itoa(m.Line), strconv.Itoa(m.Input), strconv.Itoa(m.Output)}
		for _, v := range []float64{m.Arrival, m.Queue, m.TTFT, m.Latency, s.Queue, s.TTFT, s.Latency} {
			fields = append(fields, strconv.FormatFloat(v, 'f', 6, 64))
		}
		_ = c.Write(fields)
	}
	c.Flush()
	return c.Error()
}

// Page returns a figure of the distributions, measured and simulated, of each metric.
func (r *Report) Page() (*figure.Page, error) {
	page := &figure.Page{}
	for _, m := range r.Metrics {
		if m.Requests == 0 {
			continue
		}
		t := &tables.Table{Columns: []string{"source", m.Name + "_s"}}
		for _, p := range m.pairs {
			t.Add("measured", p.measured)
			t.Add("simulated", p.simulated)
		}
		if err := page.Add(t, figure.Selection{Kind: "cdf", X: m.Name + "_s", Group: "source"}, strings.ToUpper(m.Name)); err != nil {
			return nil, err
		}
	}
	return page, nil
}
