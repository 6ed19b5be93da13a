package figure

import (
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/input/list"
)

// newGrid returns the lines under the data.
func newGrid(horizontal, vertical bool) plot.Plotter {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = nil, nil
	if horizontal {
		g.Horizontal.Color = faint
	}
	if vertical {
		g.Vertical.Color = faint
	}
	return g
}

const barSlot = 0.8 // share of a name's space that its bars fill

// slot returns the left and right end of a cell's bar on the x axis.
func slot(d *Data, c *Cell) (left, right float64) {
	if d.kind.bars == stacked {
		return float64(c.X) - barSlot/2, float64(c.X) + barSlot/2
	}
	width := barSlot / float64(len(d.GroupNames))
	left = float64(c.X) - barSlot/2 + float64(float64(c.Group)*width)
	return left, left + width
}

// errorBar draws a vertical bar with caps, half a cap wide to either side.
func errorBar(c *draw.Canvas, line color.Color, x, low, high, half vg.Length) {
	c.StrokeLines(draw.LineStyle{Color: line, Width: 0.75}, []vg.Point{{X: x, Y: low}, {X: x, Y: high}},
		[]vg.Point{{X: x - half, Y: low}, {X: x + half, Y: low}}, []vg.Point{{X: x - half, Y: high}, {X: x + half, Y: high}})
}

// bars draws the bars of groups: side by side from zero with error bars, or stacked, the first
// group's lowest.
type bars struct {
	data  *Data
	cells []Cell
	facet int
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	height := make([]float64, len(b.data.XNames)) // of the stacks so far
	for i := range b.cells {
		cell := &b.cells[i]
		left, right := slot(b.data, cell)
		if b.data.kind.bars == stacked {
			from := height[cell.X]
			height[cell.X] += cell.Mean()
			fillBar(&c, vg.Rectangle{Min: vg.Point{X: x(left), Y: y(from)}, Max: vg.Point{X: x(right), Y: y(height[cell.X])}}, b.data.style(cell.Group))
			b.data.drawSign(&c, cell.sign, vg.Point{X: x(float64(cell.X)), Y: y(height[cell.X]) + 1}, true)
			continue
		}
		zero, top := y(0), y(cell.Mean())
		fillBar(&c, vg.Rectangle{Min: vg.Point{X: x(left), Y: min(zero, top)}, Max: vg.Point{X: x(right), Y: max(zero, top)}}, b.data.style(cell.Group))
		if s := cell.Std(); s > 0 {
			errorBar(&c, ink, x((left+right)/2), y(cell.Mean()-s), y(cell.Mean()+s), min(3, (x(right)-x(left))/4))
		}
		b.data.drawSign(&c, cell.sign, vg.Point{X: x((left + right) / 2), Y: max(zero, y(cell.Mean()+cell.Std())) + 1}, true)
	}
	for _, cell := range b.data.absent() {
		if left, right := slot(b.data, &cell); cell.Facet == b.facet {
			b.data.drawSign(&c, absentSign, vg.Point{X: x((left + right) / 2), Y: y(0) + 1}, true)
		}
	}
}

const mostSteps = 1000 // largest number in a distribution's curve

// steps draws, for each group, the share of its samples up to x.
type steps struct {
	cells []Cell
	axes  *axes
}

// Plot implements plot.Plotter.
func (b *steps) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := b.axes.transforms(&c, p)
	for _, cell := range b.cells {
		line := []vg.Point{{X: x(cell.Samples[0]), Y: y(0)}}
		last := len(cell.Samples) - 1
		for step := range min(last+1, mostSteps) {
			i := int(int64(last) * int64(step) / int64(max(min(last, mostSteps-1), 1)))
			at := vg.Point{X: x(cell.Samples[i]), Y: y(float64(i+1) / float64(last+1))}
			line = append(line, vg.Point{X: at.X, Y: line[len(line)-1].Y}, at)
		}
		c.StrokeLines(styleLine(b.axes.data.style(cell.Group)), line)
	}
}

// crowded is the number of cells from which a cloud's markers are small and translucent, to show
// density.
const crowded = 100

// manyMarkers is the number of cells from which a line marks only some.
const manyMarkers = 30

// points draws markers at the cells, joined in order of x for a line.
type points struct {
	data  *Data
	cells []Cell
	axes  *axes
}

func (d *Data) position(cell *Cell) float64 {
	if d.XNumeric {
		return cell.XValue
	}
	return float64(cell.X)
}

// Plot implements plot.Plotter.
func (b *points) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := b.axes.transforms(&c, p)
	groups := len(b.data.GroupNames)
	for group := range groups {
		var cells []Cell
		var line []vg.Point
		aside := b.data.aside(group, x)
		for _, cell := range b.cells {
			if cell.Group == group {
				cells = append(cells, cell)
				line = append(line, vg.Point{X: x(b.data.position(&cell)) + vg.Length(aside), Y: y(cell.Mean())})
			}
		}
		style := b.data.style(group)
		every := 1
		if b.data.kind.joined {
			c.StrokeLines(styleLine(style), line)
			if len(line) >= manyMarkers {
				every = max(1, len(line)/6)
			}
		}
		marker := styleMarker(style)
		if b.data.kind.cloud && len(b.cells) >= crowded {
			fill := styleColor(style)
			marker.Color, marker.Radius = color.NRGBA{fill.R, fill.G, fill.B, 0x60}, 1.5
		}
		for i := range cells {
			b.axes.errorBars(&c, p, &cells[i], line[i].X, styleColor(style))
			// Markers tell groups apart; those of several groups are not at the same x.
			if every == 1 || groups > 1 && (i+every*group/groups)%every == every/2 {
				c.DrawGlyphNoClip(marker, line[i])
			}
			b.data.drawSign(&c, cells[i].sign, vg.Point{X: line[i].X + 3, Y: line[i].Y + 1}, false)
		}
	}
}

// aside returns the offset of a line's group from its x, so that error bars of groups do not overlap: 0 without error bars, at
// most half of the smallest gap between two x.
func (d *Data) aside(group int, x func(float64) vg.Length) vg.Length {
	groups := len(d.GroupNames)
	if !d.kind.joined || !slices.ContainsFunc(d.Cells, func(c Cell) bool { return c.Std() > 0 && c.XStd == 0 }) {
		return 0
	}
	at := distinct(list.Map(d.Cells, func(c Cell) float64 { return float64(x(d.position(&c))) }))
	step := vg.Length(5)
	for i := range at[1:] {
		step = min(step, vg.Length(at[i+1]-at[i])/2/vg.Length(groups))
	}
	return vg.Length(step * vg.Length(2*group-groups+1) / 2)
}

// errorBars draws one sample standard deviation of y, and of x if that is a result too, clipped at
// the end of a logarithmic axis.
func (a *axes) errorBars(c *draw.Canvas, p *plot.Plot, cell *Cell, at vg.Length, line color.Color) {
	x, y := a.transforms(c, p)
	if s := cell.Std(); s > 0 {
		errorBar(c, line, at, y(cell.Mean()-s), y(cell.Mean()+s), 2.5)
	}
	if s := cell.XStd; s > 0 && a.data.XNumeric {
		c.StrokeLine2(draw.LineStyle{Color: line, Width: 0.75}, x(cell.XValue-s), y(cell.Mean()), x(cell.XValue+s), y(cell.Mean()))
	}
}

// heatmap draws a coloured field for each (x, y), with its value if there is room.
type heatmap struct {
	data  *Data
	cells []Cell
}

// valueRange returns the smallest and the largest value of a heat map.
func valueRange(d *Data) (low, high float64) {
	means := list.Map(d.Cells, func(c Cell) float64 { return c.Mean() })
	return slices.Min(means), slices.Max(means)
}

// Plot implements plot.Plotter.
func (h *heatmap) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	low, high := valueRange(h.data)
	for i := range h.cells {
		cell := &h.cells[i]
		v := cell.Mean()
		share := 0.5
		if high > low {
			share = (v - low) / (high - low)
		}
		r := vg.Rectangle{
			Min: vg.Point{X: x(float64(cell.X) - 0.5), Y: y(float64(cell.Y) - 0.5)},
			Max: vg.Point{X: x(float64(cell.X) + 0.5), Y: y(float64(cell.Y) + 0.5)},
		}
		c.FillPolygon(ramp(share), outline(r))
		c.StrokeLines(draw.LineStyle{Color: paper, Width: 1}, outline(r))
		style := textStyle(h.data.text(8))
		style.XAlign = draw.XCenter
		if share > 0.3 {
			style.Color = paper
		}
		label := shortLabel(h.data, v)
		if cell.sign != "" {
			label += " " + cell.sign
		}
		if style.Width(label) < r.Max.X-r.Min.X-2 && r.Max.Y-r.Min.Y > 10 {
			c.FillText(style, vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}, label)
		}
	}
}

// shortLabel writes a value to three significant digits.
func shortLabel(d *Data, v float64) string {
	v = significant(v, 3)
	if d.NormalizedTo != "" {
		return numberLabel(v)
	}
	return tickLabel(d.Z, v)
}

const scaleHeight = 22 // the height of a heat map's scale, in points

// drawScale draws the colours from the smallest to the largest value, above the plots.
func drawScale(c draw.Canvas, d *Data) {
	style := textStyle(d.text(legendText))
	low, high := valueRange(d)
	label := axisTitle(d.Z)
	if d.NormalizedTo != "" {
		label, _, _ = strings.Cut(label, " (")
		label += " relative to " + d.normLabel()
	}
	label += ":  " + shortLabel(d, low)
	y := c.Max.Y - legendLine/2
	c.FillText(style, vg.Point{X: c.Min.X, Y: y}, label)
	left := c.Min.X + style.Width(label) + 5
	const steps, width = 60, 90
	for i := range steps {
		x := left + vg.Length(i)*width/steps
		// Each field extends to the end, so that no seam shows between two.
		c.FillPolygon(ramp((float64(i)+0.5)/steps), []vg.Point{{X: x, Y: y - 5}, {X: left + width, Y: y - 5}, {X: left + width, Y: y + 5}, {X: x, Y: y + 5}})
	}
	c.FillText(style, vg.Point{X: left + width + 5, Y: y}, shortLabel(d, high))
}
