package measure

import (
	"fmt"
	"image/color"
	"io"
	"math"

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

// Figures returns the two figures of a kind's errors: predicted over measured
// time, and relative error over size (FLOPs, or bytes for what computes none).
func (t *Target) Figures(kind Kind, e Errors) ([]Figure, error) {
	if len(e.Relative) == 0 {
		return nil, nil
	}
	times, sizes := make(plotter.XYs, len(e.Relative)), make(plotter.XYs, len(e.Relative))
	low, high := math.Inf(1), 0.0
	for i := range e.Relative {
		p := &e.Relative[i]
		measured, predicted := p.Sample.Seconds*1e6, p.Predicted*1e6
		times[i] = plotter.XY{X: measured, Y: predicted}
		sizes[i] = plotter.XY{X: t.Size(&p.Sample), Y: 100 * p.Error}
		low, high = min(low, measured, predicted), max(high, measured, predicted)
	}
	predicted := newFigure(fmt.Sprintf("%s on %s: %d kernels", kind, t.GPU.Name, e.Points), "measured (µs)", "predicted (µs)")
	logarithmic(&predicted.X)
	logarithmic(&predicted.Y)
	ideal, err := plotter.NewLine(plotter.XYs{{X: low, Y: low}, {X: high, Y: high}})
	if err != nil {
		return nil, err
	}
	if err := addPoints(predicted, times); err != nil {
		return nil, err
	}
	predicted.Add(ideal)
	unit := "bytes"
	if t.Cost(&e.Relative[0].Sample).FLOPs > 0 {
		unit = "FLOPs"
	}
	relative := newFigure(fmt.Sprintf("%s on %s: mean absolute error %.1f%%", kind, t.GPU.Name, 100*e.MAPE), unit, "predicted over measured − 1 (%)")
	logarithmic(&relative.X)
	if err := addPoints(relative, sizes); err != nil {
		return nil, err
	}
	relative.Add(plotter.NewGrid())
	return []Figure{
		{string(kind) + "_predicted.png", drawing(predicted)},
		{string(kind) + "_error.png", drawing(relative)},
	}, nil
}

func newFigure(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	return p
}

// logarithmic gives an axis a logarithmic scale.
func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = plot.LogTicks{Prec: -1}
}

// addPoints adds small translucent dots.
func addPoints(p *plot.Plot, xys plotter.XYs) error {
	points, err := plotter.NewScatter(xys)
	if err != nil {
		return err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: color.NRGBA{R: 31, G: 119, B: 180, A: 110}, Radius: vg.Points(1.5), Shape: draw.CircleGlyph{}}
	p.Add(points)
	return nil
}

// drawing returns the function that writes a figure.
func drawing(p *plot.Plot) func(io.Writer) error {
	return func(w io.Writer) error {
		to, err := p.WriterTo(figureSize, figureSize, "png")
		if err != nil {
			return err
		}
		_, err = to.WriteTo(w)
		return err
	}
}
