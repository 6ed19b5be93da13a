package figure

import (
	"image/color"
	"io"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Grids is a figure of panels of cells, one below the other.
type Grids struct {
	Title  string
	Panels []Grid
}

// Grid is a panel: columns by rows of cells, the first row on top.
type Grid struct {
	Title, X string
	Columns  int
	Rows     []string // their names
	// Cell says how dark a cell is, from 0 to 1, what stands in it if there is room, and whether it is
	// marked. A cell of less than 0 is empty.
	Cell func(column, row int) (share float64, label string, marked bool)
}

const gridRow = 11 // points, as the names of rows need

func (g *Grid) height() vg.Length { return titleHeight + axisHeight + vg.Length(gridRow*len(g.Rows)) }

// Write draws the figure in a format of formats. The same grids give the same bytes.
func (g *Grids) Write(w io.Writer, format string) error {
	height := vg.Length(titleHeight + 2*margin)
	for i := range g.Panels {
		height += g.Panels[i].height()
	}
	return writeCanvas(w, format, lanesWidth, height, func(c draw.Canvas) {
		fill(c, c.Rectangle, paper)
		top := c.Max.Y - margin
		c.FillText(textStyle(10), vg.Point{X: margin, Y: top - titleHeight/2}, g.Title)
		top -= titleHeight
		for i := range g.Panels {
			g.Panels[i].draw(c, top)
			top -= g.Panels[i].height()
		}
	})
}

// draw draws a panel below top.
func (g *Grid) draw(c draw.Canvas, top vg.Length) {
	style, left := textStyle(laneText), vg.Length(0)
	for _, name := range g.Rows {
		left = max(left, style.Width(name))
	}
	left += 2 * margin
	c.FillText(style, vg.Point{X: left, Y: top - titleHeight/2}, g.Title)
	top -= titleHeight
	width := (c.Max.X - left - margin) / vg.Length(g.Columns)
	x, y := func(column int) vg.Length { return left + vg.Length(vg.Length(column)*width) }, func(row int) vg.Length { return top - vg.Length(row*gridRow) }
	small, right, centred := textStyle(6), style, style
	small.XAlign, right.XAlign, centred.XAlign = draw.XCenter, draw.XRight, draw.XCenter
	var marks []vg.Rectangle
	for row, name := range g.Rows {
		c.FillText(right, vg.Point{X: left - margin/2, Y: y(row) - gridRow/2}, name)
		for column := range g.Columns {
			share, label, marked := g.Cell(column, row)
			if share < 0 {
				continue
			}
			box := vg.Rectangle{Min: vg.Point{X: x(column), Y: y(row + 1)}, Max: vg.Point{X: x(column + 1), Y: y(row)}}
			fill(c, box, ramp(share))
			if small.Color = color.Color(ink); share > 0.4 {
				small.Color = paper
			}
			if label != "" && small.Width(label) < width {
				c.FillText(small, vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: (box.Min.Y + box.Max.Y) / 2}, label)
			}
			if marked {
				marks = append(marks, box)
			}
		}
	}
	for _, box := range marks { // over their neighbours
		c.StrokeLines(draw.LineStyle{Color: palette[3], Width: 1.5}, outline(box))
	}
	every := max(1, g.Columns/16)
	for column := 0; column < g.Columns; column += every {
		c.FillText(centred, vg.Point{X: (x(column) + x(column+1)) / 2, Y: y(len(g.Rows)) - 7}, strconv.Itoa(column))
	}
	c.FillText(centred, vg.Point{X: (left + c.Max.X - margin) / 2, Y: y(len(g.Rows)) - 18}, g.X)
}
