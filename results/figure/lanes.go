package figure

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lanes is a figure of busy times: a lane for each resource, with bars along a time axis.
type Lanes struct {
	Title, X string // the axis with its unit
	Lanes    []Lane
}

// Lane is one resource.
type Lane struct {
	Name string
	Bars []Bar
}

// Bar is a span of the axis with a label and one of the house's colours.
type Bar struct {
	From, To float64
	Label    string
	Colour   int
}

// The layout of lanes and grids, in points.
const (
	lanesWidth = 760
	laneHeight = 24
	axisHeight = 40
	laneText   = 8
)

// laneAxes returns a plot of rows, first on top, along an axis from low to high.
func laneAxes(title, x string, low, high float64, rows []string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, x
	house(p, laneText, laneText)
	restyle(&p.Title.TextStyle, laneText)
	ticks := make(plot.ConstantTicks, len(rows))
	for i, name := range rows {
		ticks[i] = plot.Tick{Value: float64(len(rows) - 1 - i), Label: name}
	}
	p.Title.Padding, p.X.Tick.Marker = 4, ticker{scale: scale{size: 1}}
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.Width = ticks, 0, 0
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, high, -0.5, float64(len(rows))-0.5
	return p
}

// Write draws the figure in a format of formats. The same lanes give the same bytes.
func (l *Lanes) Write(w io.Writer, format string) error {
	end := 1.0
	var names []string
	for _, lane := range l.Lanes {
		names = append(names, lane.Name)
		for _, b := range lane.Bars {
			end = max(end, b.To)
		}
	}
	p := laneAxes(l.Title, l.X, 0, end, names)
	p.Add(newGrid(true, false), l)
	return writeCanvas(w, format, "", lanesWidth, vg.Length(titleHeight+axisHeight+laneHeight*len(l.Lanes)+2*margin), func(c draw.Canvas) {
		fill(c, c.Rectangle, paper)
		p.Draw(draw.Crop(c, margin, -margin, margin, -margin))
	})
}

// Plot implements plot.Plotter.
func (l *Lanes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style, centred := textStyle(laneText), textStyle(laneText)
	centred.XAlign = draw.XCenter
	for i, lane := range l.Lanes {
		middle := y(float64(len(l.Lanes) - 1 - i))
		for _, b := range lane.Bars {
			box := vg.Rectangle{Min: vg.Point{X: x(b.From), Y: middle - laneHeight/3}, Max: vg.Point{X: max(x(b.To), x(b.From)+0.8), Y: middle + laneHeight/3}}
			fill(c, box, tint(styleColor(b.Colour), 0.45))
			c.StrokeLines(draw.LineStyle{Color: styleColor(b.Colour), Width: 0.7}, outline(box))
			if style.Width(b.Label) < box.Max.X-box.Min.X {
				c.FillText(centred, vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: middle}, b.Label)
			} else if style.Width(b.Label) < x(lane.next(b, p.X.Max))-x(b.To) {
				c.FillText(style, vg.Point{X: box.Max.X + 1.5, Y: middle}, b.Label)
			}
		}
	}
}

// next returns the start of the bar after another, or end.
func (l *Lane) next(of Bar, end float64) float64 {
	for _, b := range l.Bars {
		if b.From > of.From {
			end = math.Min(end, b.From)
		}
	}
	return end
}

func fill(c draw.Canvas, r vg.Rectangle, with color.Color) {
	c.FillPolygon(with, outline(r)[:4])
}

// outline returns the corners of a rectangle, the first again at the end.
func outline(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min}
}
