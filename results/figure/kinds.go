package figure

import (
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/input/list"
)

// kind is a kind of figure: the parts of a selection that it takes, its cells, its axes, and how it is
// drawn. A new kind is one more entry of kinds. Other code asks for these properties and never for a name.
type kind struct {
	name string

	// Selection, besides --x.
	needs   []string          // flags
	refuses map[string]string // flags, and what the error says to expect instead

	// Cells.
	samples axis // the column of their samples
	goals   bool // axes are goals (--goals): points that lack one are left out, and the axes say which way is better

	// The axes.
	cloud    bool // cells are at the numbers of both axes
	numeric  bool // x is numeric if every x is a number, as in a cloud
	fromZero bool // heights are compared, so y begins at 0
	designs  bool // a cell is a design: the best are named, and y may be logarithmic
	unity    bool // values relative to a baseline get a line at 1

	// Drawing.
	bars   barForm
	joined bool // a line joins the cells of a group
	draw   func(of *panel) plot.Plotter
	thumb  func(c *draw.Canvas, at vg.Point, style int) // draws a group's sample in the legend, right of at
}

// axis is a column of a selection.
type axis int

const (
	ofY axis = iota
	ofX      // a distribution: a cell holds all rows of a group, and y is their share
	ofZ      // a map: x and y are positions
)

// barForm says whether a figure has bars, and how those of several groups are placed.
type barForm int

const (
	noBars barForm = iota
	sideBySide
	stacked
)

// panel is one plot of a figure: the cells of a facet on the figure's axes.
type panel struct {
	data  *Data
	facet int
	cells []Cell
	axes  *axes
}

// kinds are all kinds of figures, in the order in which help lists them.
var kinds = []*kind{
	{
		name: "bar", needs: []string{"--y"}, fromZero: true, unity: true,
		bars: sideBySide, draw: newBars, thumb: fillThumb,
	},
	{
		name: "stack", needs: []string{"--y"}, fromZero: true,
		bars: stacked, draw: newBars, thumb: fillThumb,
	},
	{
		name: "line", needs: []string{"--y"}, numeric: true, fromZero: true, unity: true,
		joined: true, draw: newPoints, thumb: markedLineThumb,
	},
	{
		name: "scatter", needs: []string{"--y"}, cloud: true, designs: true, unity: true,
		draw: newPoints, thumb: markerThumb,
	},
	{
		name: "cdf", samples: ofX, cloud: true,
		refuses: map[string]string{
			"--y":            "no column with --kind cdf, whose y axis is the share of rows up to x",
			"--normalize-to": "no baseline with --kind cdf",
		},
		draw:  func(of *panel) plot.Plotter { return &steps{of.cells, of.axes} },
		thumb: lineThumb,
	},
	{
		name: "heatmap", needs: []string{"--y", "--z"}, samples: ofZ,
		refuses: map[string]string{"--group": "no group in a heat map; --facet gives one map each"},
		draw:    func(of *panel) plot.Plotter { return &heatmap{of.data, of.cells} },
	},
	{
		name: "pareto", needs: []string{"--y"}, goals: true, cloud: true, designs: true,
		draw:  func(of *panel) plot.Plotter { return &pareto{of.data, of.cells, of.axes} },
		thumb: markedLineThumb,
	},
}

// Kinds returns the kinds of figures.
func Kinds() []string { return kindsThat(func(*kind) bool { return true }) }

// kindsThat returns the names of the kinds for which do is true.
func kindsThat(do func(*kind) bool) (names []string) {
	for _, k := range kinds {
		if do(k) {
			names = append(names, k.name)
		}
	}
	return names
}

// eitherKind names in an error the kinds that take what was given.
func eitherKind(do func(*kind) bool) string {
	return "--kind " + strings.Join(kindsThat(do), " or ") + " with it"
}

// kindNamed returns the kind of a name, nil if there is none.
func kindNamed(name string) *kind {
	i := slices.Index(list.Map(kinds, func(k *kind) string { return k.name }), name)
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// takesZ says that a selection may have a third column.
func (k *kind) takesZ() bool { return k.goals || k.samples == ofZ }

func newBars(of *panel) plot.Plotter { return &bars{of.data, of.cells, of.facet} }

func newPoints(of *panel) plot.Plotter { return &points{of.data, of.cells, of.axes} }

func fillThumb(c *draw.Canvas, at vg.Point, style int) {
	fillBar(c, vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 4.5}, Max: vg.Point{X: at.X + legendThumb, Y: at.Y + 4.5}}, style)
}

func lineThumb(c *draw.Canvas, at vg.Point, style int) {
	c.StrokeLine2(styleLine(style), at.X, at.Y, at.X+legendThumb, at.Y)
}

func markerThumb(c *draw.Canvas, at vg.Point, style int) {
	c.DrawGlyphNoClip(styleMarker(style), vg.Point{X: at.X + legendThumb/2, Y: at.Y})
}

func markedLineThumb(c *draw.Canvas, at vg.Point, style int) {
	lineThumb(c, at, style)
	markerThumb(c, at, style)
}
