package figure

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/results/tables"
)

const mostNamed = 8 // largest number of named points in a plot

// namePoints names the cells of a cloud by their designs, if the figure does not show these otherwise and knows which way
// is better.
func (s *selector) namePoints() {
	d := s.data
	point := slices.Index(s.table.Columns, tables.PointColumn)
	judged := func(column int) bool {
		return s.isDimension(column) || tables.Describe(s.table.Columns[column]).Better != tables.Neither
	}
	if !d.kind.designs || point < 0 || slices.Contains([]int{s.group, s.facet, s.x, s.y}, point) || !judged(s.x) || !judged(s.y) {
		return
	}
	if !d.kind.goals {
		s.directions()
	}
	var said []string
	for _, c := range []int{s.group, s.facet} {
		if c != none {
			said = append(said, tables.NameForms(s.table.Columns[c])...)
		}
	}
	short := s.table.ShortPoints(said...)
	if d.long == nil {
		d.long = map[tables.Value]tables.Value{}
	}
	for i := range d.Cells {
		c := &d.Cells[i]
		whole := s.table.Rows[c.row][point]
		c.name = short[whole].String()
		if len(c.name) > 0 && c.name[0] == '#' {
			d.long[short[whole]] = whole
		}
	}
}

// named returns the cells of a facet to name: those on its front in x and y, its ends first; with a third goal, those on the
// front of all three.
func (d *Data) named(cells []Cell) []int {
	members := make([]int, len(cells))
	for i := range cells {
		if members[i] = i; cells[i].name == "" {
			return nil
		}
	}
	front := d.front(cells, members, d.hasThirdGoal())
	if len(front) > 2 {
		last := len(front) - 1
		front = append([]int{front[0], front[last]}, front[1:last]...)
	}
	return front[:min(len(front), mostNamed)]
}

// nameTags writes the names of the best points beside them if there is room.
type nameTags struct {
	data  *Data
	cells []Cell
	axes  *axes
}

// Plot implements plot.Plotter.
func (b *nameTags) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := b.axes.transforms(&c, p)
	style := textStyle(b.data.text(7))
	var taken []vg.Rectangle
	for i := range b.cells {
		at := vg.Point{X: x(b.cells[i].XValue), Y: y(b.cells[i].Mean())}
		taken = append(taken, vg.Rectangle{Min: at.Sub(vg.Point{X: 3, Y: 3}), Max: at.Add(vg.Point{X: 3, Y: 3})})
		if sign := b.cells[i].sign; sign != "" {
			taken = append(taken, vg.Rectangle{Min: at, Max: at.Add(vg.Point{X: 3 + style.Width(sign), Y: 9})})
		}
	}
	for _, i := range b.data.named(b.cells) {
		text := b.cells[i].name
		w, h := style.Width(text), vg.Length(8)
		at := vg.Point{X: x(b.cells[i].XValue), Y: y(b.cells[i].Mean())}
		for _, corner := range []vg.Point{{X: at.X + 5, Y: at.Y + 1}, {X: at.X + 5 + style.Width(b.cells[i].sign), Y: at.Y + 1}, {X: at.X + 5, Y: at.Y - 1 - h}, {X: at.X - 5 - w, Y: at.Y + 1}, {X: at.X - 5 - w, Y: at.Y - 1 - h}, {X: at.X - vg.Length(w/2), Y: at.Y + 5}, {X: at.X - vg.Length(w/2), Y: at.Y - 5 - h}} {
			box := vg.Rectangle{Min: corner, Max: corner.Add(vg.Point{X: w, Y: h})}
			outside := box.Min.X < c.Min.X || box.Max.X > c.Max.X || box.Min.Y < c.Min.Y || box.Max.Y > c.Max.Y
			if outside || slices.ContainsFunc(taken, func(r vg.Rectangle) bool { return overlap(r, box) }) {
				continue
			}
			taken = append(taken, box)
			c.FillText(style, vg.Point{X: corner.X, Y: corner.Y + vg.Length(h/2)}, text)
			break
		}
	}
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// tagged returns the named designs whose names are numbers.
func (d *Data) tagged() (all []tables.Value) {
	for facet := range d.Facets {
		cells := slices.DeleteFunc(slices.Clone(d.Cells), func(c Cell) bool { return c.Facet != facet })
		for _, i := range d.named(cells) {
			if name := tables.Of(cells[i].name); !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}
