package figure

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/results/tables"
)

// Table returns the figure's numbers: a row for each cell with its facet, group, x and mean; if
// cells have several samples, also their sample standard deviation and number. A CDF has a row for
// each step.
func (d *Data) Table() *tables.Table { return d.table(false) }

// Marked is Table for people: runs that exceed limits of real servers have signs, which legend explains; it is "" without such
// runs. A limit that all runs exceed appears in the legend alone.
func (d *Data) Marked() (t *tables.Table, legend string) {
	return d.table(true), strings.Join(d.marks.legend(), "\n")
}

func (d *Data) table(signs bool) *tables.Table {
	columns, value := []string{d.Facet, d.Group, d.X, ""}, d.Y
	if d.kind.samples == ofZ {
		columns[3], value = d.Y, d.Z
	}
	if d.NormalizedTo != "" {
		value += " / " + d.NormalizedTo
	}
	t := &tables.Table{Columns: append(slices.DeleteFunc(slices.Clone(columns), func(name string) bool { return name == "" }), value)}
	add := func(c *Cell, x tables.Value, results ...any) {
		var row []any
		for i, v := range []tables.Value{d.Facets[c.Facet], d.GroupNames[c.Group], x, d.yName(c)} {
			if long, is := d.long[v]; is {
				v = long
			}
			if columns[i] != "" {
				row = append(row, v)
			}
		}
		t.Add(append(row, results...)...)
	}
	number := func(v float64) tables.Value { return tables.Of(tables.Round(v, 6)) }
	repeated := d.kind.samples != ofX && slices.ContainsFunc(d.Cells, func(c Cell) bool { return len(c.Samples) > 1 })
	if repeated {
		t.Columns = append(t.Columns, "std", "n")
	}
	for i := range d.Cells {
		c := &d.Cells[i]
		x := d.XNames[c.X]
		if d.XNumeric && c.XStd > 0 {
			x = number(c.XValue)
		}
		mean := number(c.Mean())
		if text := c.Limits.Without(d.marks.all).Sign(); signs && text != "" {
			mean = tables.Of(mean.String() + text)
		}
		switch {
		case d.kind.samples == ofX:
			for n, v := range c.Samples {
				add(c, number(v), number(float64(n+1)/float64(len(c.Samples))))
			}
		case repeated:
			add(c, x, mean, number(c.Std()), len(c.Samples))
		default:
			add(c, x, mean)
		}
	}
	return t
}

// yName returns a cell's name on the y axis of a heat map.
func (d *Data) yName(c *Cell) tables.Value {
	if c.Y < 0 {
		return tables.Value{}
	}
	return d.YNames[c.Y]
}
