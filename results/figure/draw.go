package figure

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// formats are the file endings that Write supports.
var formats = []string{"png", "svg", "pdf"}

// The size of one plot and of its surroundings, in points.
const (
	plotWidth   = 400
	plotHeight  = 270
	facetWidth  = 280
	facetHeight = 210
	maxAcross   = 3   // facets side by side
	leastFacet  = 110 // width of a facet on paper
	margin      = 8
	titleHeight = 20
	rowHeight   = 13 // smallest, of a heat map
	noteText    = 7
	noteHeight  = 10
	pngDPI      = 144
)

// Format returns the format by a file's ending.
func Format(flag, path string) (string, error) {
	if ext := strings.TrimPrefix(filepath.Ext(path), "."); slices.Contains(formats, ext) {
		return ext, nil
	}
	return "", &input.Error{Key: flag, Value: path, Expected: "a file that ends with .png, .svg or .pdf"}
}

// widths are those of a journal's columns, in millimetres.
var widths = map[string]float64{"": 0, "single": 84, "double": 174}

// Width returns the width that a flag names, 0 for a screen's.
func Width(flag, name string) (float64, error) {
	mm, ok := widths[name]
	if !ok {
		return 0, input.UnknownName(flag, name, []string{"single", "double"})
	}
	return mm, nil
}

// Check returns an error for data that do not fit a figure.
func (d *Data) Check() error {
	for _, c := range []struct {
		flag, column string
		n, most      int
	}{
		{"--group", d.Group, len(d.GroupNames), MaxGroups},
		{"--facet", d.Facet, len(d.Facets), 24},
		{"--x", d.X, len(d.XNames), 1_000_000},
		{"--y", d.Y, len(d.YNames), 200},
	} {
		if c.n > c.most {
			return &input.Error{Key: c.flag, Value: c.column, Expected: "a column of fewer values: " +
				numberLabel(float64(c.n)) + " are more than " + numberLabel(float64(c.most))}
		}
	}
	if n := len(d.XNames); !d.XNumeric && n > 60 {
		return &input.Error{Key: "--x", Value: d.X, Expected: "a column of at most 60 values, or --kind line: there are " + numberLabel(float64(n))}
	}
	return nil
}

// File returns the figure of a selection of a table as the file NAME.FORMAT. Errors are those of
// Select and Check.
func File(t *tables.Table, s Selection, name, format, title string) (results.File, error) {
	d, err := Select(t, s)
	if err != nil {
		return results.File{}, err
	}
	return d.File(name, format, title), d.Check()
}

// File returns the figure as the file NAME.FORMAT.
func (d *Data) File(name, format, title string) results.File {
	return results.File{Name: name + "." + format, Write: func(w io.Writer) error { return d.Write(w, format, title) }}
}

// Write draws the figure with a title ("" for none) in one of formats. The same data give the same
// bytes.
func (d *Data) Write(w io.Writer, format, title string) error {
	if err := d.Check(); err != nil {
		return err
	}
	return (&Page{Source: d.Source, frames: []*frame{newFrame(d, title)}}).Write(w, format)
}

// Page is figures stacked in one or several columns.
type Page struct {
	Across int    // figures beside one another; 0 is one
	Source string // as Data.Source
	frames []*frame
}

// Add adds the figure of a selection of a table. Errors are those of Select and Check.
func (p *Page) Add(t *tables.Table, s Selection, title string) error {
	d, err := Select(t, s)
	if err != nil {
		return err
	}
	p.frames = append(p.frames, newFrame(d, title))
	return d.Check()
}

// Write draws the page in a format of formats.
func (p *Page) Write(w io.Writer, format string) error {
	width, height := vg.Length(0), vg.Length(0)
	var rows []vg.Length // heights
	for row := range slices.Chunk(p.frames, max(p.Across, 1)) {
		high := vg.Length(0)
		for _, f := range row {
			width, high = max(width, f.width), max(high, f.height)
		}
		rows, height = append(rows, high), height+high
	}
	across := vg.Length(min(max(p.Across, 1), len(p.frames)))
	return writeCanvas(w, format, p.Source, across*width, height, func(c draw.Canvas) {
		fill(c, c.Rectangle, paper)
		top := c.Max.Y
		for i, f := range p.frames {
			column, row := i%int(across), i/int(across)
			part := c
			part.Min.X, part.Max.X = c.Min.X+vg.Length(width*vg.Length(column)), c.Min.X+vg.Length(width*vg.Length(column+1))
			part.Min.Y, part.Max.Y = top-f.height, top
			f.draw(part)
			if column == int(across)-1 {
				top -= rows[row]
			}
		}
	})
}

func writeCanvas(w io.Writer, format, source string, width, height vg.Length, paint func(draw.Canvas)) error {
	var c vg.CanvasWriterTo
	switch format {
	case "svg":
		c = vgsvg.New(width, height)
	case "pdf":
		fixPDF()
		c = vgpdf.New(width, height)
	default:
		c = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI))}
	}
	paint(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	file := b.Bytes()
	if format == "svg" { // Arial and Helvetica have the same widths, and more machines have them
		file = bytes.ReplaceAll(file, []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	}
	_, err := w.Write(withSource(format, file, source))
	return err
}

// fixPDF removes the time of writing from PDF files.
var fixPDF = sync.OnceFunc(func() {
	epoch := time.Unix(0, 0).UTC()
	fpdf.SetDefaultCreationDate(epoch)
	fpdf.SetDefaultModificationDate(epoch)
	fpdf.SetDefaultCatalogSort(true)
})

// frame is the layout of a figure: a title, a legend, and a plot for each facet.
type frame struct {
	data          *Data
	title         string
	legend        *legend
	width, height vg.Length
	across, down  int
}

// newFrame lays out the facets, at most maxAcross side by side, and the size of the whole in points.
func newFrame(d *Data, title string) *frame {
	f := &frame{data: d, title: title, legend: newLegend(d)}
	across, w, h := d.layout()
	f.across, f.down = across, (len(d.Facets)+across-1)/across
	if d.kind.samples == ofZ { // names of rows must not overlap, and cells must have room for numbers
		h = max(h, vg.Length(rowHeight*len(d.YNames)+60))
	}
	f.width = vg.Length(vg.Length(f.across)*w) + 2*margin
	f.height = vg.Length(vg.Length(f.down)*h) + 2*margin + f.head(f.width-2*margin) + vg.Length(noteHeight*len(f.notes()))
	return f
}

// notes returns the lines under the plots: the designs with a number as name, and the meaning of
// signs.
func (f *frame) notes() []string {
	lines := f.designs()
	signs := f.data.marks.legend()
	if len(f.data.absent()) > 0 {
		signs = append(signs, absentNote)
	}
	for _, text := range signs {
		lines = append(lines, f.wrapped("", text)...)
	}
	return lines
}

// wrapped breaks a text into lines; head begins the first, and the others are indented.
func (f *frame) wrapped(head, text string) (lines []string) {
	line := head
	for i, word := range strings.Fields(text) {
		if i > 0 && textStyle(noteText).Width(line+" "+word) > f.width-2*margin {
			lines, line = append(lines, line), "   "
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// designs returns the lines that spell out the designs with a number as name.
func (f *frame) designs() []string {
	var lines []string
	for _, names := range [][]tables.Value{f.data.Facets, f.data.GroupNames, f.data.XNames, f.data.YNames, f.data.tagged()} {
		for _, name := range names {
			long, is := f.data.long[name]
			if !is {
				continue
			}
			lines = append(lines, f.wrapped(name.String()+":", strings.ReplaceAll(long.String(), ",", ", "))...)
		}
	}
	return lines
}

// layout returns how many facets stand beside one another, and the size of each.
func (d *Data) layout() (across int, width, height vg.Length) {
	n := len(d.Facets)
	across = min(n, maxAcross)
	if n == 4 {
		across = 2
	}
	if d.Width == 0 {
		if n > 1 {
			return across, facetWidth, facetHeight
		}
		return across, plotWidth, plotHeight
	}
	room := vg.Length(vg.Length(d.Width)*vg.Millimeter) - 2*margin
	across = min(across, int(room/leastFacet))
	width = room / vg.Length(across)
	return across, width, min(max(0.75*width, 140), 200)
}

// text returns the size of a text. On paper it is a point smaller than on a screen, but at least 7.
func (d *Data) text(size vg.Length) vg.Length {
	if d.Width == 0 {
		return size
	}
	return max(7, size-1)
}

// unlabelled are ticks without labels, for axes that a neighbouring facet labels.
type unlabelled struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (u unlabelled) Ticks(low, high float64) []plot.Tick {
	ticks := u.Ticker.Ticks(low, high)
	for i := range ticks {
		if !ticks[i].IsMinor() { // minor ticks have no label and no grid line
			ticks[i].Label = " "
		}
	}
	return ticks
}

func (f *frame) head(width vg.Length) vg.Length {
	h := vg.Length(0)
	if f.title != "" {
		h += titleHeight
	}
	if f.legend != nil {
		h += f.legend.height(width)
	} else if f.title != "" && f.data.Facet != "" {
		h += legendMargin
	}
	if f.data.kind.samples == ofZ {
		h += scaleHeight
	}
	return h
}

func (f *frame) draw(c draw.Canvas) {
	inner := draw.Crop(c, margin, -margin, margin, -margin)
	if f.title != "" {
		style := textStyle(f.data.text(11))
		style.XAlign = -0.5
		inner.FillText(style, vg.Point{X: inner.Center().X, Y: inner.Max.Y - titleHeight/2}, f.title)
		inner.Max.Y -= titleHeight
	}
	if f.legend != nil {
		f.legend.draw(inner)
		inner.Max.Y -= f.legend.height(inner.Max.X - inner.Min.X)
	} else if f.title != "" && f.data.Facet != "" {
		inner.Max.Y -= legendMargin
	}
	for _, note := range slices.Backward(f.notes()) {
		c.FillText(textStyle(noteText), vg.Point{X: inner.Min.X, Y: inner.Min.Y + noteHeight/2}, note)
		inner.Min.Y += noteHeight
	}
	if f.data.kind.samples == ofZ {
		drawScale(inner, f.data)
		inner.Max.Y -= scaleHeight
	}
	plots := make([][]*plot.Plot, f.down)
	shared := newAxes(f.data)
	for row := range plots {
		plots[row] = make([]*plot.Plot, f.across)
		for column := range plots[row] {
			if i := row*f.across + column; i < len(f.data.Facets) {
				plots[row][column] = f.plot(i, shared)
			}
		}
	}
	tiles := draw.Tiles{Rows: f.down, Cols: f.across, PadX: 10, PadY: 10}
	canvases := plot.Align(plots, tiles, inner)
	for row := range plots {
		for column, p := range plots[row] {
			if p != nil {
				p.Draw(canvases[row][column])
			}
		}
	}
}

func (f *frame) plot(facet int, a *axes) *plot.Plot {
	d := f.data
	p := plot.New()
	if d.Facet != "" {
		p.Title.Text = named(d.Facet, d.Facets[facet]) + sign(d.marks.facets, facet)
		p.Title.Padding = 4
		restyle(&p.Title.TextStyle, d.text(9))
	}
	a.style(p)
	if facet%f.across > 0 {
		p.Y.Label.Text, p.Y.Tick.Marker = "", unlabelled{p.Y.Tick.Marker}
	}
	if (facet/f.across+2)*f.across <= len(d.Facets) { // the row below is full
		p.X.Label.Text, p.X.Tick.Marker = "", unlabelled{p.X.Tick.Marker}
	}
	var cells []Cell
	for _, c := range d.Cells {
		if c.Facet == facet {
			cells = append(cells, c)
		}
	}
	p.Add(newGrid(d.kind.samples != ofZ, d.kind.cloud))
	overBars := d.kind.bars != noBars // bars would hide the line at 1
	if d.hasUnity(a) && !overBars {
		p.Add(unity{a})
	}
	p.Add(d.kind.draw(&panel{data: d, facet: facet, cells: cells, axes: a}))
	if d.hasUnity(a) && overBars {
		p.Add(unity{a})
	}
	if d.kind.designs {
		p.Add(&nameTags{d, cells, a})
	}
	if len(d.references) > 0 {
		p.Add(&references{d, facet, a})
	}
	p.X.Min, p.X.Max = onAxis(a.xMin, a.logX), onAxis(a.xMax, a.logX)
	p.Y.Min, p.Y.Max = onAxis(a.yMin, a.logY), onAxis(a.yMax, a.logY)
	return p
}
