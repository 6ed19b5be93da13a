package loop

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

func nothingToFit(file string) error {
	return &input.Error{File: file, Expected: "three judged rows or more"}
}

// WriteText writes the errors of each series and over all rows, and lists the series left out.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s on %s\trows\tmean\tp90\tbias\tjoules\town kernels: mean\tp90\tbias\tjoules\t\n", r.File, r.Node)
	line := func(name string, e, own *Errors) {
		fmt.Fprintf(t, "%s\t%d\t%.1f%%\t%.1f%%\t%+.1f%%\t%+.1f%%\t%.1f%%\t%.1f%%\t%+.1f%%\t%+.1f%%\t\n", name, e.Rows,
			100*e.MAPE, 100*e.P90, 100*e.Bias, 100*e.JoulesBias, 100*own.MAPE, 100*own.P90, 100*own.Bias, 100*own.JoulesBias)
	}
	for i := range r.Series {
		line(r.Series[i].Case.String(), &r.Series[i].Errors, &r.Own[i].Errors)
	}
	for i, name := range []string{"all without chunks", "all with chunks"} {
		line(name, &r.All[i].Errors, &r.OwnAll[i].Errors)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range r.Left {
		if _, err := fmt.Fprintf(w, "not judged: %s: %s\n", &l.Case, l.Why); err != nil {
			return err
		}
	}
	return nil
}

// WriteFigure draws iteration time over the stand-in's latency, for the stand-in on the GPU and without
// chunks: measured values as points, predictions with the measured GPU part as lines. Format is png, svg or
// pdf.
func (r *Report) WriteFigure(w io.Writer, format string) error {
	t := &tables.Table{Name: "loop", Columns: []string{"attention_us", "iteration_ms", "model", "sub_batches_x_requests"}}
	var points []figure.Reference
	for i := range r.Rows {
		p := &r.Rows[i]
		if p.StandIn != Device || p.Chunk > 0 {
			continue
		}
		name := fmt.Sprintf("%d x %d", p.SubBatches, p.Batch)
		t.Add(tables.Round(p.PIM, 6), tables.Round(p.WithGPU, 6), p.Model, name)
		points = append(points, figure.Reference{Facet: p.Model, Group: name, X: figure.Label("attention_us", tables.Of(p.PIM)), Base: name, Factor: p.MS / p.WithGPU})
	}
	d, err := figure.Select(t, figure.Selection{Kind: "line", X: "attention_us", Y: "iteration_ms", Group: "sub_batches_x_requests", Facet: "model"})
	if err != nil {
		return err
	}
	if err := d.Refer("measured", points...); err != nil {
		return err
	}
	return d.Write(w, format, "Iterations of l3 whose attention is a stand-in")
}
