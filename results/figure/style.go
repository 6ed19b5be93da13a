package figure

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// palette holds the colours of M. Okabe and K. Ito, "Color Universal Design"
// (2008, https://jfly.uni-koeln.de/color/), which readers with any colour vision
// tell apart; yellow, too pale for lines on white, comes last.
var palette = []color.RGBA{
	{0x00, 0x72, 0xB2, 0xFF}, // blue
	{0xE6, 0x9F, 0x00, 0xFF}, // orange
	{0x00, 0x9E, 0x73, 0xFF}, // bluish green
	{0xD5, 0x5E, 0x00, 0xFF}, // vermilion
	{0xCC, 0x79, 0xA7, 0xFF}, // reddish purple
	{0x56, 0xB4, 0xE9, 0xFF}, // sky blue
	{0x00, 0x00, 0x00, 0xFF}, // black
	{0xF0, 0xE4, 0x42, 0xFF}, // yellow
}

var (
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xFF} // text, axes, error bars
	faint = color.RGBA{0xDD, 0xDD, 0xDD, 0xFF} // grid lines
	paper = color.RGBA{0xFF, 0xFF, 0xFF, 0xFF}
)

// markers and dashes are of different numbers, so that a ninth group, with the first's colour
// again, has another pair of marker and dash.
var markers = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
	draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
}

var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {10, 4}, {4, 2, 1, 2, 1, 2}}

// MaxGroups is the largest number of groups: a figure has room and styles for them.
const MaxGroups = 24

// systems have the style of their index in every figure.
var systems = []string{"gpu-only", "cpu-offload", "hbm-pim", "rank-pim", "l3", "gpu+cpu", "sparse-offload"}

// stylesOf returns a style for each name, all different. A system has its own; "l3, h100-sxm", "L3 KV8" and other
// kinds of one system share its colour. Other names take, in order, the first free styles, as long as possible in
// colours that no system of the figure has.
func stylesOf(names []string) []int {
	styles := make([]int, len(names))
	taken, colours := map[int]bool{}, map[int]bool{}
	take := func(i, style int) {
		styles[i], taken[style], colours[style%len(palette)] = style, true, true
	}
	for i, name := range names {
		system, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(name), ",", " "), " ")
		style := slices.Index(systems, system)
		for style >= 0 && taken[style] {
			style += len(palette)
		}
		if styles[i] = style; style >= 0 {
			take(i, style)
		}
	}
	for i := range names {
		if styles[i] >= 0 {
			continue
		}
		style := 0
		for taken[style] || len(colours) < len(palette) && colours[style%len(palette)] {
			style++
		}
		take(i, style)
	}
	return styles
}

// style returns the style of a group.
func (d *Data) style(group int) int {
	if len(d.styles) != len(d.GroupNames) {
		d.styles = stylesOf(list.Map(d.GroupNames, tables.Value.String))
	}
	return d.styles[group]
}

func styleColor(style int) color.RGBA { return palette[style%len(palette)] }

func styleLine(style int) draw.LineStyle {
	return draw.LineStyle{Color: styleColor(style), Width: 1.5, Dashes: dashes[style%len(dashes)]}
}

func styleMarker(style int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: styleColor(style), Radius: 3, Shape: markers[style%len(markers)]}
}

// textStyle returns the house's text of a size in points.
func textStyle(size vg.Length) text.Style {
	return text.Style{
		Color: ink, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign: text.XLeft, YAlign: text.YCenter, Handler: plot.DefaultTextHandler,
	}
}

// restyle sets a text to the house style in a size, and keeps its alignment.
func restyle(s *text.Style, size vg.Length) {
	own := textStyle(size)
	s.Color, s.Font, s.Handler = own.Color, own.Font, own.Handler
}

// tint mixes a colour with white; share is the share of the colour.
func tint(c color.RGBA, share float64) color.RGBA { return blend(paper, c, share) }

// blend mixes two colours; share is that of the second.
func blend(a, b color.RGBA, share float64) color.RGBA {
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + float64(share*(float64(b)-float64(a))))) }
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xFF}
}

// hatch is a set of families of parallel lines: their directions, as the change
// of (x, y) along a line, and the distance between them in points.
type hatch struct {
	directions [][2]float64
	distance   vg.Length
}

// hatches are the styles of groups, which tell bars apart in black and white.
var hatches = []hatch{
	{}, // plain
	{[][2]float64{{1, 1}}, 5},
	{[][2]float64{{1, -1}}, 5},
	{[][2]float64{{1, 0}}, 4},
	{[][2]float64{{1, 1}, {1, -1}}, 6},
	{[][2]float64{{0, 1}}, 4},
	{[][2]float64{{1, 0}, {0, 1}}, 5},
	{[][2]float64{{1, 1}}, 2.5},
	{[][2]float64{{1, -1}}, 2.5},
}

// fillBar fills a rectangle in a style: its colour, paler, under its hatch, inside its outline.
func fillBar(c *draw.Canvas, r vg.Rectangle, in int) {
	fill := styleColor(in)
	c.FillPolygon(tint(fill, 0.65), outline(r))
	h := hatches[in%len(hatches)]
	style := draw.LineStyle{Color: ink, Width: 0.5}
	for _, d := range h.directions {
		c.StrokeLines(style, hatchLines(r, d, h.distance)...)
	}
	c.StrokeLines(draw.LineStyle{Color: ink, Width: 0.75}, outline(r))
}

// hatchLines returns the parts of a family of lines inside a rectangle. The lines are anchored to its lower left corner.
func hatchLines(r vg.Rectangle, direction [2]float64, distance vg.Length) [][]vg.Point {
	length := math.Hypot(direction[0], direction[1])
	dx, dy := vg.Length(direction[0]/length), vg.Length(direction[1]/length)
	reach := r.Size().X + r.Size().Y // longer than any line in the rectangle
	var lines [][]vg.Point
	for k := -math.Floor(float64(reach / distance)); k < float64(reach/distance); k++ {
		off := vg.Length(vg.Length(k) * distance)
		x, y := r.Min.X-vg.Length(off*dy), r.Min.Y+vg.Length(off*dx)
		lines = append(lines, []vg.Point{{X: x - vg.Length(reach*dx), Y: y - vg.Length(reach*dy)}, {X: x + vg.Length(reach*dx), Y: y + vg.Length(reach*dy)}})
	}
	inside := draw.Canvas{Rectangle: r}
	return inside.ClipLinesXY(lines...)
}

// ramp returns the colour of a share from 0 to 1: one hue from nearly white to dark blue, so that
// brightness orders values.
func ramp(share float64) color.RGBA {
	if share < 0.5 {
		return tint(palette[0], 0.08+float64(2*share*0.92))
	}
	return blend(palette[0], color.RGBA{0x00, 0x3A, 0x5C, 0xFF}, float64(2*share)-1)
}
