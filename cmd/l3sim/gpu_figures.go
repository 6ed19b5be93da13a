package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu/measure"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

// figures returns the pictures of a kind's errors: predicted over measured time, and
// relative error over size (FLOPs, or bytes for what computes none).
func (v *validation) figures(kind measure.Kind) ([]results.File, error) {
	e := v.errors[kind]
	size, unit := "size_bytes", 1.0
	if _, flops := v.target.Size(&e.Relative[0].Sample); flops {
		size, unit = "work_MFLOP", 1e6
	}
	times := &results.Table{Name: string(kind), Columns: []string{"measured_us", "predicted_us"}}
	errors := &results.Table{Name: string(kind), Columns: []string{size, "predicted_over_measured"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range e.Relative {
		p := &e.Relative[i]
		times.Rows = append(times.Rows, []string{number(1e6 * p.Sample.Seconds), number(1e6 * p.Predicted)})
		work, _ := v.target.Size(&p.Sample)
		errors.Rows = append(errors.Rows, []string{number(work / unit), number(1 + p.Error)})
	}
	name := strings.ReplaceAll(string(kind), "_", " ") + " on " + v.target.GPU.Name
	var files []results.File
	for _, f := range []struct {
		name, title string
		table       *results.Table
		equal       bool
	}{
		{"predicted", fmt.Sprintf("%s: %d kernels, line: predicted = measured", name, e.Points), times, true},
		{"error", fmt.Sprintf("%s: mean absolute error %.1f%%", name, 100*e.MAPE), errors, false},
	} {
		d, err := figure.Select(f.table, figure.Selection{Kind: "scatter", X: f.table.Columns[0], Y: f.table.Columns[1]})
		if err != nil {
			return nil, err
		}
		d.Equal = f.equal
		files = append(files, results.File{Name: string(kind) + "_" + f.name + ".png", Write: func(w io.Writer) error { return d.Write(w, "png", f.title) }})
	}
	return files, nil
}
