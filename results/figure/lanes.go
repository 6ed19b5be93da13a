package figure

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lanes is a figure of busy times: a lane for each resource, with bars over one axis of time.
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

// The layout of lanes, in points.
const (
	lanesWidth = 760
	laneHeight = 24
	axisHeight = 34
	laneText   = 8
)

// Write draws the figure in a format of formats. The same lanes give the same bytes.
func (l *Lanes) Write(w io.Writer, format string) error {
	return writeCanvas(w, format, lanesWidth, vg.Length(titleHeight+axisHeight+laneHeight*len(l.Lanes)+2*margin), l.draw)
}

func (l *Lanes) draw(c draw.Canvas) {
	fill(c, c.Rectangle, paper)
	style := textStyle(laneText)
	left := vg.Length(0)
	end := 1.0
	for _, lane := range l.Lanes {
		left = max(left, style.Width(lane.Name))
		for _, b := range lane.Bars {
			end = max(end, b.To)
		}
	}
	left += 2 * margin
	title := textStyle(10)
	c.FillText(title, vg.Point{X: left, Y: c.Max.Y - titleHeight/2 - margin/2}, l.Title)
	bottom := vg.Length(margin + axisHeight)
	top := bottom + vg.Length(laneHeight*len(l.Lanes))
	at := func(x float64) vg.Length { return left + vg.Length(vg.Length(x/end)*(c.Max.X-left-margin)) }
	for _, tick := range (plot.DefaultTicks{}).Ticks(0, end) {
		if tick.Label == "" {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: faint, Width: 0.5}, at(tick.Value), bottom, at(tick.Value), top)
		centred := style
		centred.XAlign = draw.XCenter
		c.FillText(centred, vg.Point{X: at(tick.Value), Y: bottom - 9}, tick.Label)
	}
	axis := style
	axis.XAlign = draw.XCenter
	c.FillText(axis, vg.Point{X: (left + c.Max.X - margin) / 2, Y: margin + 6}, l.X)
	for i, lane := range l.Lanes {
		y := top - vg.Length(laneHeight*(i+1))
		name := style
		name.XAlign = draw.XRight
		c.FillText(name, vg.Point{X: left - margin/2, Y: y + laneHeight/2}, lane.Name)
		c.StrokeLine2(draw.LineStyle{Color: faint, Width: 0.5}, left, y, c.Max.X-margin, y)
		for _, b := range lane.Bars {
			box := vg.Rectangle{Min: vg.Point{X: at(b.From), Y: y + 4}, Max: vg.Point{X: max(at(b.To), at(b.From)+0.8), Y: y + laneHeight - 4}}
			fill(c, box, tint(styleColor(b.Colour), 0.45))
			c.StrokeLines(draw.LineStyle{Color: styleColor(b.Colour), Width: 0.7}, outline(box))
			if style.Width(b.Label) < box.Max.X-box.Min.X {
				c.FillText(axis, vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: y + laneHeight/2}, b.Label)
			} else if room := l.room(i, b, end); style.Width(b.Label) < vg.Length(room/end)*(c.Max.X-left-margin) {
				c.FillText(style, vg.Point{X: box.Max.X + 1.5, Y: y + laneHeight/2}, b.Label)
			}
		}
	}
}

// room returns how much of the axis is free behind a bar of a lane.
func (l *Lanes) room(lane int, of Bar, end float64) float64 {
	next := end
	for _, b := range l.Lanes[lane].Bars {
		if b.From > of.From {
			next = math.Min(next, b.From)
		}
	}
	return next - of.To
}

func fill(c draw.Canvas, r vg.Rectangle, with color.Color) {
	c.FillPolygon(with, outline(r)[:4])
}

// outline returns the corners of a rectangle, the first again at the end.
func outline(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}, r.Min}
}
