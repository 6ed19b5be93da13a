package figure

import (
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
)

// marks places the signs of limits that a figure's runs exceed: under the figure if every run exceeds a limit; after the name of
// a facet, group or x if all its runs do; otherwise beside the cell.
type marks struct {
	all                results.Limits
	facets, groups, xs []results.Limits
	cells              []results.Limits // by index of Data.Cells
}

// findMarks finds the marks of cells.
func (d *Data) findMarks() {
	m := &marks{all: commonLimits(d.Cells, func(*Cell) bool { return true })}
	left := func(c *Cell) results.Limits {
		l := c.Limits.Without(m.all)
		for _, names := range []struct {
			of []results.Limits
			at int
		}{{m.facets, c.Facet}, {m.groups, c.Group}, {m.xs, c.X}} {
			if len(names.of) > 0 {
				l = l.Without(names.of[names.at])
			}
		}
		return l
	}
	under := func(n int, at func(c *Cell) int) []results.Limits {
		of := make([]results.Limits, n)
		for i := range of {
			of[i] = commonLimits(d.Cells, func(c *Cell) bool { return at(c) == i }).Without(m.all)
		}
		return of
	}
	if d.Facet != "" {
		m.facets = under(len(d.Facets), func(c *Cell) int { return c.Facet })
	}
	if d.Group != "" && d.kind.samples != ofZ {
		m.groups = under(len(d.GroupNames), func(c *Cell) int { return c.Group })
	}
	if !d.XNumeric && d.kind.samples != ofZ {
		m.xs = under(len(d.XNames), func(c *Cell) int { return c.X })
	}
	m.cells = list.Map(d.Cells, func(c Cell) results.Limits { return left(&c) })
	d.marks = m
	for i := range d.Cells {
		d.Cells[i].sign = strings.TrimSpace(m.cells[i].Sign())
	}
}

// commonLimits returns the limits that all cells with of exceed.
func commonLimits(cells []Cell, of func(c *Cell) bool) (common results.Limits) {
	first := true
	for i := range cells {
		if c := &cells[i]; of(c) {
			if first {
				common = c.Limits
			}
			common, first = common.And(c.Limits), false
		}
	}
	return common
}

// sign returns the suffix of the i-th name.
func sign(of []results.Limits, i int) string {
	if i >= len(of) {
		return ""
	}
	return of[i].Sign()
}

// legend explains the signs under the figure, one per line.
func (m *marks) legend() (lines []string) {
	if m == nil {
		return nil
	}
	var some results.Limits
	for _, of := range [][]results.Limits{m.facets, m.groups, m.xs, m.cells} {
		for _, l := range of {
			some = some.Or(l)
		}
	}
	if text := m.all.Legend(); text != "" {
		for _, line := range strings.Split(text, "\n") {
			lines = append(lines, "all: "+line)
		}
	}
	if text := some.Legend(); text != "" {
		lines = append(lines, strings.Split(text, "\n")...)
	}
	return lines
}

const signText = 8 // points

// drawSign draws a cell's sign with its lower left corner at a point, or centred over it.
func (d *Data) drawSign(c *draw.Canvas, sign string, at vg.Point, centred bool) {
	if sign == "" {
		return
	}
	style := textStyle(d.text(signText))
	style.YAlign = draw.YBottom
	if centred {
		style.XAlign = draw.XCenter
	}
	c.FillText(style, at, sign)
}

// absentNote explains the sign of a missing bar.
const absentSign, absentNote = "×", "× no result"

// absent returns the missing cells of a figure of bars: a group has no result at an x where others of the facet have one.
func (d *Data) absent() (cells []Cell) {
	if d.kind.bars != sideBySide {
		return nil
	}
	have := map[[3]int]bool{}
	shown := map[[2]int]bool{}
	for i := range d.Cells {
		c := &d.Cells[i]
		have[[3]int{c.Facet, c.Group, c.X}], shown[[2]int{c.Facet, c.X}] = true, true
	}
	for facet := range d.Facets {
		for x := range d.XNames {
			for group := range d.GroupNames {
				if shown[[2]int{facet, x}] && !have[[3]int{facet, group, x}] {
					cells = append(cells, Cell{Facet: facet, Group: group, X: x})
				}
			}
		}
	}
	return cells
}

// unity is the line at 1 for values relative to a baseline.
type unity struct{ axes *axes }

// Plot implements plot.Plotter.
func (u unity) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := u.axes.transforms(&c, p)
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{5, 3}}, c.Min.X, y(1), c.Max.X, y(1))
}

// hasUnity says that a figure has a line at 1.
func (d *Data) hasUnity(a *axes) bool {
	return d.NormalizedTo != "" && d.kind.unity && a.yMin <= 1 && a.yMax >= 1
}
