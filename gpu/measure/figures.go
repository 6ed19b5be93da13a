package measure

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Figure is one drawing, written as PNG.
type Figure struct {
	Name  string // file name
	Write func(io.Writer) error
}

// figureSize is the edge of a figure.
const figureSize = 18 * vg.Centimeter

// margin keeps labels clear of a figure's edge.
const margin = vg.Length(8)

// Figures returns the two figures of a kind's errors: predicted over measured
// time, and relative error over size (FLOPs, or bytes for what computes none).
func (t *Target) Figures(kind Kind, e Errors) ([]Figure, error) {
	if len(e.Relative) == 0 {
		return nil, nil
	}
	predicted, err := drawPredicted(fmt.Sprintf("%s on %s: %d points", kind, t.GPU.Name, e.Points), e.Relative)
	if err != nil {
		return nil, err
	}
	relative, err := t.drawErrors(fmt.Sprintf("%s on %s: mean absolute error %.1f%%", kind, t.GPU.Name, 100*e.MAPE), e.Relative)
	if err != nil {
		return nil, err
	}
	return []Figure{
		{string(kind) + "_predicted.png", drawing(predicted)},
		{string(kind) + "_error.png", drawing(relative)},
	}, nil
}

// drawPredicted draws predicted over measured time, and where they are equal.
func drawPredicted(title string, points []Point) (*plot.Plot, error) {
	times := make(plotter.XYs, len(points))
	low, high := math.Inf(1), 0.0
	for i := range points {
		measured, predicted := points[i].Sample.Seconds*1e6, points[i].Predicted*1e6
		times[i] = plotter.XY{X: measured, Y: predicted}
		low, high = min(low, measured, predicted), max(high, measured, predicted)
	}
	p := newFigure(title, "measured (µs)", "predicted (µs)")
	logarithmic(&p.X)
	logarithmic(&p.Y)
	if err := addPoints(p, times); err != nil {
		return nil, err
	}
	equal, err := plotter.NewLine(plotter.XYs{{X: low, Y: low}, {X: high, Y: high}})
	if err != nil {
		return nil, err
	}
	p.Add(equal)
	p.Legend.Add("predicted = measured", equal)
	p.Legend.Top, p.Legend.Left = true, true // the points lie along the diagonal
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Min, axis.Max = low/1.2, high*1.2
	}
	return p, nil
}

// drawErrors draws relative error over size.
func (t *Target) drawErrors(title string, points []Point) (*plot.Plot, error) {
	sizes := make(plotter.XYs, len(points))
	for i := range points {
		sizes[i] = plotter.XY{X: t.Size(&points[i].Sample), Y: 100 * points[i].Error}
	}
	unit := "bytes"
	if t.Cost(&points[0].Sample).FLOPs > 0 {
		unit = "FLOPs"
	}
	p := newFigure(title, unit, "predicted over measured − 1 (%)")
	logarithmic(&p.X)
	p.Y.Tick.Marker = percents{}
	if err := addPoints(p, sizes); err != nil {
		return nil, err
	}
	p.X.Min, p.X.Max = p.X.Min/1.2, p.X.Max*1.2
	p.Y.Min, p.Y.Max = min(p.Y.Min-2, -10), max(p.Y.Max+2, 10)
	p.Add(plotter.NewGrid())
	return p, nil
}

func newFigure(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	return p
}

// logarithmic gives an axis a logarithmic scale.
func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = powersOfTen{}
}

// powersOfTen marks a logarithmic axis at each power of ten, with small marks
// between; of many powers every other, third, and so on has a label.
type powersOfTen struct{}

// Ticks implements plot.Ticker.
func (powersOfTen) Ticks(low, high float64) []plot.Tick {
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	every := (last-first)/9 + 1
	var ticks []plot.Tick
	for n := first; n <= last; n++ {
		power := math.Pow10(n)
		for digit := 1; digit < 10; digit++ {
			tick := plot.Tick{Value: float64(digit) * power}
			if digit == 1 && (n-first)%every == 0 {
				tick.Label = label(n)
			}
			if tick.Value >= low && tick.Value <= high {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}

// label writes 10^n, in full where that is short.
func label(n int) string {
	if n >= -2 && n <= 4 {
		return strconv.FormatFloat(math.Pow10(n), 'f', -1, 64)
	}
	return "1e" + strconv.Itoa(n)
}

// percents marks an axis of percentages at round steps, 0 among them.
type percents struct{}

// Ticks implements plot.Ticker.
func (percents) Ticks(low, high float64) []plot.Tick {
	step := 5.0
	for _, factor := range []float64{2, 2, 2.5} { // 10, 20, 50
		if (high-low)/step > 10 {
			step *= factor
		}
	}
	for (high-low)/step > 10 {
		step *= 2
	}
	var ticks []plot.Tick
	for n := int(math.Ceil(low / step)); float64(n)*step <= high; n++ { // whole numbers, as -0 is none
		v := float64(n) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// addPoints adds small translucent dots.
func addPoints(p *plot.Plot, xys plotter.XYs) error {
	points, err := plotter.NewScatter(xys)
	if err != nil {
		return err
	}
	radius := vg.Points(1.5)
	if len(xys) < 500 {
		radius = vg.Points(2.5)
	}
	points.GlyphStyle = draw.GlyphStyle{Color: color.NRGBA{R: 31, G: 119, B: 180, A: 110}, Radius: radius, Shape: draw.CircleGlyph{}}
	p.Add(points)
	return nil
}

// drawing returns the function that writes a figure.
func drawing(p *plot.Plot) func(io.Writer) error {
	return func(w io.Writer) error {
		canvas, err := draw.NewFormattedCanvas(figureSize, figureSize, "png")
		if err != nil {
			return err
		}
		p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
		_, err = canvas.WriteTo(w)
		return err
	}
}
