package figure

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// axes are the scales that all facets share.
type axes struct {
	data                   *Data
	xMin, xMax, yMin, yMax float64
	logX, logY             bool
	xs                     []float64 // of the data, if x is numeric
}

// onAxis returns the position of a value on an axis that is linear for plot.Plot. plot.LogScale is
// not used, since the layout reserves space for an axis's label at the scale's middle of its ends,
// which would be at the upper end.
func onAxis(v float64, logarithmic bool) float64 {
	if logarithmic {
		return math.Log10(v)
	}
	return v
}

// transforms returns functions from values to positions on a canvas. A value below a logarithmic
// axis, such as an error bar that reaches zero, is drawn at its end.
func (a *axes) transforms(c *draw.Canvas, p *plot.Plot) (x, y func(float64) vg.Length) {
	px, py := p.Transforms(c)
	x = func(v float64) vg.Length {
		if a.logX {
			v = max(v, a.xMin)
		}
		return px(onAxis(v, a.logX))
	}
	y = func(v float64) vg.Length {
		if a.logY {
			v = max(v, a.yMin)
		}
		return py(onAxis(v, a.logY))
	}
	return x, y
}

// newAxes finds the scales: y starts at 0 for bars and lines, whose heights are compared, and spans
// the data otherwise.
func newAxes(d *Data) *axes {
	a := &axes{data: d, xMin: -0.5, xMax: float64(len(d.XNames)) - 0.5}
	var ys []float64
	low, high := math.Inf(1), math.Inf(-1)
	left, right := math.Inf(1), math.Inf(-1)
	stacks := map[[2]int]float64{} // heights so far, by facet and x
	for i := range d.Cells {
		c := &d.Cells[i]
		bottom, top := c.Mean()-c.Std(), c.Mean()+c.Std()
		if d.kind.samples == ofX {
			low, high = 0, 1
			left, right = min(left, c.Samples[0]), max(right, c.Samples[len(c.Samples)-1])
			a.xs, ys = append(a.xs, c.Samples[0], c.Samples[len(c.Samples)-1]), append(ys, 1)
			continue
		}
		if d.kind.bars == stacked {
			stacks[[2]int{c.Facet, c.X}] += c.Mean()
			bottom, top = 0, stacks[[2]int{c.Facet, c.X}]
		}
		low, high = min(low, bottom), max(high, top)
		left, right = min(left, c.XValue-c.XStd), max(right, c.XValue+c.XStd)
		a.xs, ys = append(a.xs, c.XValue), append(ys, c.Mean())
	}
	for _, r := range d.references {
		low, high = min(low, r.y), max(high, r.y)
	}
	if d.kind.fromZero {
		low, high = min(low, 0), max(high, 0)
	}
	pad := float64(0.06 * (high - low))
	if pad == 0 {
		pad = float64(0.06 * max(math.Abs(high), 1))
	}
	a.yMin, a.yMax = low-pad, high+pad
	if low == 0 {
		a.yMin = 0
	}
	if isUtilization(d.Y) && d.NormalizedTo == "" && high > 0.5 { // readers look for the distance to 100%
		a.yMax = max(high, 1.02)
	}
	if d.kind.samples == ofZ {
		a.yMin, a.yMax = -0.5, float64(len(d.YNames))-0.5
	}
	if d.XNumeric {
		a.logX = crowdedLow(a.xs)
		if a.logX { // an error bar may reach zero, a logarithmic axis cannot
			left = max(left, slices.Min(a.xs))
		}
		a.xMin, a.xMax = widen(left, right, a.logX)
	}
	if a.logY = d.kind.designs && crowdedLow(ys); a.logY {
		a.yMin, a.yMax = widen(slices.Min(ys), high, true)
	}
	return a
}

// widen adds a margin to a range of data.
func widen(low, high float64, logarithmic bool) (float64, float64) {
	if logarithmic {
		m := math.Pow(high/low, 0.05)
		return low / m, high * m
	}
	pad := float64(0.05 * (high - low))
	if pad == 0 {
		pad = float64(0.5 * max(math.Abs(high), 1))
	}
	return low - pad, high + pad
}

// house sets the lines and texts of a plot's axes to the house style.
func house(p *plot.Plot, title, tick vg.Length) {
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Padding, axis.Width = ink, 0, 0.75
		axis.Tick.Color, axis.Tick.Width, axis.Tick.Length = ink, 0.75, 4
		restyle(&axis.Label.TextStyle, title)
		restyle(&axis.Tick.Label, tick)
		axis.Label.Padding = 3
	}
}

func (a *axes) style(p *plot.Plot) {
	d := a.data
	house(p, d.text(9), d.text(8))
	sx, sy := newScale(d.X, a.xMax), newScale(d.Y, a.yMax)
	if d.NormalizedTo != "" && d.kind.samples != ofZ {
		quantity, _, _ := strings.Cut(sy.label, " (")
		sy = scale{label: quantity + " relative to " + d.normLabel(), size: 1}
	}
	if !d.XNumeric {
		sx = scale{label: axisTitle(d.X), size: 1}
	}
	p.X.Label.Text, p.Y.Label.Text = sx.label, sy.label
	if d.kind.goals {
		p.X.Label.Text += ", " + betterLabel(!d.MinimizeX)
		p.Y.Label.Text += ", " + betterLabel(d.MaximumY)
	}
	if _, _, height := d.layout(); p.Y.Label.TextStyle.Width(p.Y.Label.Text) > 0.75*height {
		p.Y.Label.Text = inTwoLines(p.Y.Label.Text)
	}
	p.Y.Tick.Marker = ticker{scale: sy, logarithmic: a.logY}
	if d.kind.samples == ofZ {
		p.Y.Label.Text = axisTitle(d.Y)
		p.Y.Tick.Marker = names(d.Y, d.YNames)
	}
	if !d.XNumeric {
		p.X.Tick.Marker = marked(names(d.X, d.XNames), d.marks.xs)
		a.turn(p)
		return
	}
	marker := ticker{scale: sx, logarithmic: a.logX}
	if xs := distinct(a.xs); d.kind.joined && (a.logX || len(xs) <= maxTicks) { // ticks at the tried values
		marker.at = a.apart(xs, &marker, p.X.Tick.Label)
	}
	p.X.Tick.Marker = marker
}

// inTwoLines breaks a text at the space next to its middle.
func inTwoLines(s string) string {
	at := -1
	for i, r := range s {
		if r == ' ' && (at < 0 || math.Abs(float64(2*i-len(s))) < math.Abs(float64(2*at-len(s)))) {
			at = i
		}
	}
	if at < 0 {
		return s
	}
	return s[:at] + "\n" + s[at+1:]
}

// apart drops the values whose labels would overlap the last one kept.
func (a *axes) apart(sorted []float64, t *ticker, style text.Style) []float64 {
	low, high := float64(onAxis(a.xMin, a.logX)), float64(onAxis(a.xMax, a.logX))
	var kept []float64
	free := math.Inf(-1) // end of the last label
	for _, v := range sorted {
		middle := vg.Length(0.85 * a.width() * vg.Length((float64(onAxis(v, a.logX))-low)/(high-low))) // the y axis takes the rest
		half := vg.Length(style.Width(t.tick(significant(v, 3))) / 2)
		if float64(middle-half) < free {
			continue
		}
		kept, free = append(kept, v), float64(middle+half+4)
	}
	return kept
}

func (a *axes) width() vg.Length {
	_, width, _ := a.data.layout()
	return width
}

// named returns a column's value as text: a name alone, a number with its column.
func named(column string, value tables.Value) string {
	if _, number := value.Float(); !number {
		return shown(column, value)
	}
	words, _ := tables.Words(column)
	return words + " = " + Label(column, value)
}

// normLabel describes the baseline "column=value".
func (d *Data) normLabel() string {
	column, _, _ := strings.Cut(d.NormalizedTo, "=")
	return named(column, d.baseline)
}

// turn rotates the names under an axis if they would overlap.
func (a *axes) turn(p *plot.Plot) {
	room := 0.8 * a.width() / vg.Length(len(a.data.XNames))
	for _, name := range a.data.XNames {
		if p.X.Tick.Label.Width(shown(a.data.X, name)) > room-4 {
			p.X.Tick.Label.Rotation = math.Pi / 5
			p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YTop
			return
		}
	}
}

// marked adds the signs of limits to names.
func marked(ticks plot.ConstantTicks, of []results.Limits) plot.ConstantTicks {
	for i := range ticks {
		ticks[i].Label += sign(of, i)
	}
	return ticks
}

func names(column string, values []tables.Value) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(values))
	for i, v := range values {
		ticks[i] = plot.Tick{Value: float64(i), Label: shown(column, v)}
	}
	return ticks
}
