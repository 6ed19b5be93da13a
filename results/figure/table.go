package figure

import (
	"slices"

	"github.com/l3sim/l3sim/results/tables"
)

// Table returns the figure's numbers: a row a cell with its facet, group, x and
// the mean of its samples; where cells have several, their sample standard
// deviation and number too. Of a CDF it has a row for each step.
func (d *Data) Table() *tables.Table {
	t := &tables.Table{}
	column := func(name string) {
		if name != "" {
			t.Columns = append(t.Columns, name)
		}
	}
	column(d.Facet)
	column(d.Group)
	column(d.X)
	repeated := false
	for i := range d.Cells {
		repeated = repeated || len(d.Cells[i].Samples) > 1 && d.Kind != "cdf"
	}
	value := d.Y
	if d.Kind == "heatmap" {
		column(d.Y)
		value = d.Z
	}
	if d.NormalizedTo != "" {
		value += " / " + d.NormalizedTo
	}
	column(value)
	if repeated {
		t.Columns = append(t.Columns, "std", "n")
	}
	number := func(v float64) tables.Value { return tables.Of(tables.Round(v, 6)) }
	whole := func(v tables.Value) tables.Value {
		if long, is := d.long[v]; is {
			return long
		}
		return v
	}
	for i := range d.Cells {
		c := &d.Cells[i]
		var row []any
		if d.Facet != "" {
			row = append(row, whole(d.Facets[c.Facet]))
		}
		if d.Group != "" {
			row = append(row, whole(d.GroupNames[c.Group]))
		}
		if d.Kind == "cdf" {
			for n, v := range c.Samples {
				t.Add(append(slices.Clone(row), number(v), number(float64(n+1)/float64(len(c.Samples))))...)
			}
			continue
		}
		if x := d.XNames[c.X]; d.XNumeric && c.XStd > 0 {
			row = append(row, number(c.XValue))
		} else {
			row = append(row, whole(x))
		}
		if d.Kind == "heatmap" {
			row = append(row, whole(d.YNames[c.Y]))
		}
		row = append(row, number(c.Mean()))
		if repeated {
			row = append(row, number(c.Std()), len(c.Samples))
		}
		t.Add(row...)
	}
	return t
}
