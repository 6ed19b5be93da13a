package figure

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/results/tables"
)

// Reference is a number from elsewhere, drawn as a hollow marker beside the figure's own number. It
// is Factor times the figure's own number of the group Base at the same x, or at BaseX.
type Reference struct {
	Facet, Group, X string // as the figure writes them; without X it is a line across the plot of each facet
	Base, BaseX     string
	Factor          float64
}

// placed is a reference in the units of the figure.
type placed struct {
	cell  *Cell // nil for a line
	group int
	y     float64
}

// Refer adds references under a common name in the legend. A reference to something that the figure
// does not show returns an error.
func (d *Data) Refer(name string, references ...Reference) error {
	d.reference = name
	for _, r := range references {
		at := placed{group: d.groupOf(r.Group), y: r.Factor}
		if r.X != "" {
			if r.BaseX == "" {
				r.BaseX = r.X
			}
			base := d.cellOf(r.Facet, r.Base, r.BaseX)
			if at.cell = d.cellOf(r.Facet, r.Group, r.X); at.cell == nil || base == nil {
				return fmt.Errorf("a figure of %s has no %s at %s, or no %s at %s", d.Y, r.Group, r.X, r.Base, r.BaseX)
			}
			at.y *= base.Mean()
		}
		if at.group < 0 {
			return fmt.Errorf("a figure of %s has no %s", d.Y, r.Group)
		}
		d.references = append(d.references, at)
	}
	return nil
}

func (d *Data) groupOf(label string) int {
	return slices.IndexFunc(d.GroupNames, func(name tables.Value) bool { return Label(d.Group, name) == label })
}

func (d *Data) cellOf(facet, group, x string) *Cell {
	for i := range d.Cells {
		c := &d.Cells[i]
		if (facet == "" || Label(d.Facet, d.Facets[c.Facet]) == facet) && Label(d.Group, d.GroupNames[c.Group]) == group && Label(d.X, d.XNames[c.X]) == x {
			return c
		}
	}
	return nil
}

// references draws the references of a facet above its data.
type references struct {
	data  *Data
	facet int
	axes  *axes
}

// Plot implements plot.Plotter.
func (b *references) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := b.axes.transforms(&c, p)
	for _, r := range b.data.references {
		switch {
		case r.cell == nil:
			line := draw.LineStyle{Color: styleColor(b.data.style(r.group)), Width: 1, Dashes: []vg.Length{4, 2}}
			c.StrokeLine2(line, c.Min.X, y(r.y), c.Max.X, y(r.y))
			hollow(&c, vg.Point{X: c.Max.X - 5, Y: y(r.y)}, ink)
		case r.cell.Facet == b.facet:
			at, line := b.data.position(r.cell), styleColor(b.data.style(r.group))
			if b.data.kind.bars == sideBySide {
				left, right := slot(b.data, r.cell)
				at, line = (left+right)/2, ink
			}
			hollow(&c, vg.Point{X: x(at) + vg.Length(b.data.aside(r.group, x)), Y: y(r.y)}, line)
		}
	}
}

// hollow draws a reference's marker, a diamond that does not hide what is under it.
func hollow(c *draw.Canvas, at vg.Point, line color.Color) {
	const size = 4
	corners := []vg.Point{{X: at.X - size, Y: at.Y}, {X: at.X, Y: at.Y + size}, {X: at.X + size, Y: at.Y}, {X: at.X, Y: at.Y - size}, {X: at.X - size, Y: at.Y}}
	c.StrokeLines(draw.LineStyle{Color: line, Width: 1.25}, corners)
}
