package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu/measure"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

// tables returns the points of a kind's pictures: predicted and measured, and their ratio
// over size (Target.Size).
func (v *validation) tables(kind measure.Kind) (both, ratio *results.Table) {
	e := v.errors[kind]
	unit, scale := kind.Unit()
	suffix := "_" + strings.ToLower(unit) // as columns end
	both = &results.Table{Name: string(kind), Columns: []string{"measured" + suffix, "predicted" + suffix}}
	_, size := v.target.Size(&e.Relative[0].Sample)
	ratio = &results.Table{Name: string(kind), Columns: []string{size, "predicted_over_measured"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range e.Relative {
		p := &e.Relative[i]
		both.Rows = append(both.Rows, []string{number(scale * p.Sample.Seconds), number(scale * p.Predicted)})
		work, _ := v.target.Size(&p.Sample)
		ratio.Rows = append(ratio.Rows, []string{number(work), number(1 + p.Error)})
	}
	return both, ratio
}

// figures returns the pictures of a kind's errors.
func (v *validation) figures(kind measure.Kind) ([]results.File, error) {
	e := v.errors[kind]
	both, ratio := v.tables(kind)
	name := strings.ReplaceAll(string(kind), "_", " ") + " on " + v.target.GPU.Name
	var files []results.File
	for _, f := range []struct {
		name, title string
		table       *results.Table
		equal       bool
	}{
		{"predicted", fmt.Sprintf("%s: %d points, line: predicted = measured", name, e.Points), both, true},
		{"error", fmt.Sprintf("%s: mean absolute error %.1f%%", name, 100*e.MAPE), ratio, false},
	} {
		d, err := figure.Select(f.table, figure.Selection{Kind: "scatter", X: f.table.Columns[0], Y: f.table.Columns[1]})
		if err != nil {
			return nil, err
		}
		d.Equal = f.equal
		files = append(files, d.File(string(kind)+"_"+f.name, "png", f.title))
	}
	return files, nil
}
