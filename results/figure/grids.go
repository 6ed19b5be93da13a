package figure

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Grids is a figure of panels of cells, stacked.
type Grids struct {
	Title  string
	Panels []Grid
}

// Grid is a panel: columns by rows of cells, the first row on top.
type Grid struct {
	Title, X string
	Columns  int
	Rows     []string // their names
	// Cell returns how dark a cell is (0 to 1; below 0: empty), its text if there is room, and whether
	// it is marked.
	Cell func(column, row int) (share float64, label string, marked bool)
}

const gridRow = 11 // points, enough for the names of rows

func (g *Grid) height() vg.Length {
	return titleHeight + axisHeight + margin + vg.Length(gridRow*len(g.Rows))
}

// Write draws the figure in a format of formats. The same grids give the same bytes.
func (g *Grids) Write(w io.Writer, format string) error {
	height := vg.Length(titleHeight + 2*margin)
	for i := range g.Panels {
		height += g.Panels[i].height()
	}
	return writeCanvas(w, format, "", lanesWidth, height, func(c draw.Canvas) {
		fill(c, c.Rectangle, paper)
		c = draw.Crop(c, margin, -margin, margin, -margin)
		c.FillText(textStyle(10), vg.Point{X: c.Min.X, Y: c.Max.Y - titleHeight/2}, g.Title)
		c.Max.Y -= titleHeight
		for i := range g.Panels {
			panel := &g.Panels[i]
			p := laneAxes(panel.Title, panel.X, -0.5, float64(panel.Columns)-0.5, panel.Rows)
			p.Add(panel)
			p.Draw(draw.Crop(c, 0, 0, c.Max.Y-c.Min.Y-panel.height()+margin, 0))
			c.Max.Y -= panel.height()
		}
	})
}

// Plot implements plot.Plotter.
func (g *Grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	small := textStyle(6)
	small.XAlign = draw.XCenter
	var marks [][]vg.Point
	for row := range g.Rows {
		middle := float64(len(g.Rows) - 1 - row)
		for column := range g.Columns {
			share, label, marked := g.Cell(column, row)
			if share < 0 {
				continue
			}
			at := float64(column)
			box := vg.Rectangle{Min: vg.Point{X: x(at - 0.5), Y: y(middle - 0.5)}, Max: vg.Point{X: x(at + 0.5), Y: y(middle + 0.5)}}
			fill(c, box, ramp(share))
			if small.Color = color.Color(ink); share > 0.4 {
				small.Color = paper
			}
			if small.Width(label) < box.Size().X {
				c.FillText(small, vg.Point{X: x(at), Y: y(middle)}, label)
			}
			if marked {
				marks = append(marks, outline(box))
			}
		}
	}
	c.StrokeLines(draw.LineStyle{Color: palette[3], Width: 1.5}, marks...) // over neighbouring cells
}
