package figure

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/results/tables"
)

// legend is the strip above the plots that names the groups; it hides no data there.
type legend struct {
	data   *Data
	labels []string
}

// The measures of a legend, in points.
const (
	legendText   = 9
	legendLine   = 15 // height of a row of entries
	legendThumb  = 22 // width of a line or bar beside its name
	legendSpace  = 14 // between entries
	legendMargin = 6
)

// newLegend returns the legend of a figure, nil for a single group.
func newLegend(d *Data) *legend {
	if d.Group == "" || d.kind.thumb == nil {
		return nil
	}
	l := &legend{data: d}
	for i, g := range d.GroupNames {
		l.labels = append(l.labels, shown(d.Group, g)+sign(d.marks.groups, i))
	}
	if len(d.references) > 0 {
		l.labels = append(l.labels, d.reference)
	}
	return l
}

// rows places the entries: the x of each, and its row.
func (l *legend) rows(width vg.Length) (x []vg.Length, row []int, count int) {
	style := textStyle(l.data.text(legendText))
	at, r := vg.Length(0), 0
	for i, label := range append([]string{l.title()}, l.labels...) {
		w := style.Width(label)
		if w > 0 {
			w += legendSpace
		}
		if i > 0 {
			w += legendThumb + 4
		}
		if at > 0 && at+w > width {
			at, r = 0, r+1
		}
		x, row = append(x, at), append(row, r)
		at += w
	}
	return x, row, r + 1
}

// title returns the name of the group's column; names of results and points need none.
func (l *legend) title() string {
	if l.data.Group == resultColumn || l.data.Group == tables.PointColumn {
		return ""
	}
	return tables.Describe(l.data.Group).Label + ":"
}

func (l *legend) height(width vg.Length) vg.Length {
	_, _, n := l.rows(width)
	return vg.Length(vg.Length(n)*legendLine) + legendMargin
}

func (l *legend) draw(c draw.Canvas) {
	style := textStyle(l.data.text(legendText))
	xs, rows, _ := l.rows(c.Max.X - c.Min.X)
	for i, x := range xs {
		at := vg.Point{X: c.Min.X + x, Y: c.Max.Y - vg.Length(vg.Length(rows[i])*legendLine) - legendLine/2}
		if i == 0 {
			c.FillText(style, at, l.title())
			continue
		}
		l.thumb(&c, at, i-1)
		c.FillText(style, vg.Point{X: at.X + legendThumb + 4, Y: at.Y}, l.labels[i-1])
	}
}

// thumb draws a group's style at the left of its name.
func (l *legend) thumb(c *draw.Canvas, at vg.Point, group int) {
	if group == len(l.data.GroupNames) {
		hollow(c, vg.Point{X: at.X + legendThumb/2, Y: at.Y}, ink)
		return
	}
	l.data.kind.thumb(c, at, l.data.style(group))
}
