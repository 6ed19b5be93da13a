package figure

import (
	"fmt"
	"image/color"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/l3sim/l3sim/results/tables"
)

// painted is a plotter's output: filled boxes with their colours, texts by their middle, and lines.
type painted struct {
	boxes  []string
	texts  []string
	stroke []vg.Path
}

// paint makes a plotter draw on a canvas of 200 by 100 points whose axes have these ranges.
func paint(t *testing.T, of plot.Plotter, x, y [2]float64) (all painted) {
	t.Helper()
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x[0], x[1], y[0], y[1]
	var r recorder.Canvas
	of.Plot(draw.NewCanvas(&r, 200, 100), p)
	var with color.Color
	for _, a := range r.Actions {
		switch a := a.(type) {
		case *recorder.SetColor:
			with = a.Color
		case *recorder.Fill:
			low, high := a.Path[0].Pos, a.Path[2].Pos
			all.boxes = append(all.boxes, fmt.Sprintf("%.4g,%.4g to %.4g,%.4g %v", low.X, low.Y, high.X, high.Y, color.RGBAModel.Convert(with)))
		case *recorder.FillString:
			all.texts = append(all.texts, fmt.Sprintf("%s %v at %.0f", a.String, color.RGBAModel.Convert(with) == color.RGBAModel.Convert(paper), a.Point.X))
		case *recorder.Stroke:
			all.stroke = append(all.stroke, a.Path)
		}
	}
	return all
}

// TestCellsOfAGrid: two columns and two rows of cells of 100 by 50 points, the first row on top. Empty cells are not drawn, dark ones have light text, text without room is left out, and
// marked cells have an outline.
func TestCellsOfAGrid(t *testing.T) {
	cells := map[[2]int]struct {
		share  float64
		label  string
		marked bool
	}{{0, 0}: {0.4, "a", true}, {1, 0}: {-0.1, "none", true}, {0, 1}: {0.41, "dark", false}, {1, 1}: {0, strings.Repeat("long ", 40), true}}
	g := &Grid{Columns: 2, Rows: []string{"upper", "lower"}, Cell: func(column, row int) (float64, string, bool) {
		c := cells[[2]int{column, row}]
		return c.share, c.label, c.marked
	}}
	all := paint(t, g, [2]float64{-0.5, 1.5}, [2]float64{-0.5, 1.5})
	want := []string{fmt.Sprintf("0,50 to 100,100 %v", ramp(0.4)), fmt.Sprintf("0,0 to 100,50 %v", ramp(0.41)), fmt.Sprintf("100,0 to 200,50 %v", ramp(0))}
	if !slices.Equal(all.boxes, want) {
		t.Errorf("boxes %v, by hand %v", all.boxes, want)
	}
	middle := func(text string) string {
		return fmt.Sprintf("%.0f", 50-textStyle(6).Width(text)/2)
	}
	if want := []string{"a false at " + middle("a"), "dark true at " + middle("dark")}; !slices.Equal(all.texts, want) {
		t.Errorf("texts %v, by hand %v", all.texts, want)
	}
	if len(all.stroke) != 2 || all.stroke[0][0].Pos != (vg.Point{X: 0, Y: 50}) || all.stroke[1][2].Pos != (vg.Point{X: 200, Y: 50}) {
		t.Errorf("outlines %v", all.stroke)
	}
	if got, want := g.height(), vg.Length(20+40+8+2*11); got != want {
		t.Errorf("%v points high, by hand %v", got, want)
	}
}

// texts returns the position of each text in a figure, and the figure's size.
func texts(t *testing.T, svg string) (at map[string][2]float64, width, height float64) {
	t.Helper()
	at = map[string][2]float64{}
	for _, m := range regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(svg, -1) {
		var p [2]float64
		fmt.Sscan(m[1], &p[0])
		fmt.Sscan(m[2], &p[1])
		at[m[3]] = p
	}
	m := regexp.MustCompile(`<svg width="([0-9.]+)pt" height="([0-9.]+)pt"`).FindStringSubmatch(svg)
	if m == nil {
		t.Fatal(svg[:200])
	}
	fmt.Sscan(m[1], &width)
	fmt.Sscan(m[2], &height)
	return at, width, height
}

// TestPanelsOfGrids: panels are below one another under the title, each as high as its rows need.
func TestPanelsOfGrids(t *testing.T) {
	cell := func(int, int) (float64, string, bool) { return 0.2, "", false }
	g := Grids{Title: "All", Panels: []Grid{{Title: "First", X: "x", Columns: 3, Rows: []string{"r1", "r2"}, Cell: cell}, {Title: "Second", X: "x", Columns: 3, Rows: []string{"s1", "s2", "s3"}, Cell: cell}}}
	var svg strings.Builder
	if err := g.Write(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	at, width, height := texts(t, svg.String())
	if want := float64(20 + 16 + (68 + 22) + (68 + 33)); width != lanesWidth || height != want {
		t.Errorf("%v by %v points, by hand %v by %v", width, height, lanesWidth, want)
	}
	y := func(text string) float64 { // from the top
		p, ok := at[text]
		if !ok {
			t.Fatalf("no %s in %v", text, at)
		}
		return p[1]
	}
	down := 1.0
	if y("All") > y("First") {
		down = -1
	}
	order := []string{"All", "First", "r1", "r2", "Second", "s1", "s2", "s3"}
	for i := 1; i < len(order); i++ {
		if down*(y(order[i])-y(order[i-1])) <= 0 {
			t.Errorf("%s stands above %s: %v", order[i], order[i-1], at)
		}
	}
	if got := down * (y("Second") - y("First")); got < 89.9 || got > 90.1 { // the first panel's height
		t.Errorf("the second panel begins %v points below the first", got)
	}
	if got := down * (y("First") - y("All")); got < 5 || got > 30 {
		t.Errorf("the first panel begins %v points below the title", got)
	}
	if x := at["All"][0]; x < 7.9 || x > 8.1 {
		t.Errorf("the title begins at %v points", x)
	}
	if a, b := y("s2")-y("s1"), y("s3")-y("s2"); a-b > 0.1 || b-a > 0.1 {
		t.Errorf("rows are %v and %v points apart", a, b)
	}
}

// TestNamesBesideBars: a bar's name is in it, or after it if there is room before the next bar, or left out. A bar of zero time is a line.
func TestNamesBesideBars(t *testing.T) {
	l := &Lanes{Lanes: []Lane{{Bars: []Bar{{From: 0, To: 2, Label: "outside"}, {From: 50, To: 52, Label: "crowded"}, {From: 55, To: 100, Label: "in"}, {From: 103, To: 103, Label: "ends the lane all too far"}}}}}
	all := paint(t, l, [2]float64{0, 110}, [2]float64{-0.5, 0.5})
	scale := 200. / 110
	if len(all.boxes) != 4 || !strings.HasPrefix(all.boxes[0], fmt.Sprintf("0,42 to %.4g,58 ", 2*scale)) || !strings.HasPrefix(all.boxes[3], fmt.Sprintf("%.4g,42 to %.4g,58 ", 103*scale, 103*scale+0.8)) {
		t.Errorf("boxes %v", all.boxes)
	}
	width := textStyle(laneText).Width("in")
	want := []string{fmt.Sprintf("outside false at %.0f", 2*scale+1.5), fmt.Sprintf("in false at %.0f", vg.Length(77.5*scale)-width/2)}
	if !slices.Equal(all.texts, want) {
		t.Errorf("names %v, by hand %v", all.texts, want)
	}
	lane := &l.Lanes[0]
	for from, want := range map[float64]float64{0: 50, 50: 55, 54: 55, 60: 103, 103: 110, 200: 110} {
		if got := lane.next(Bar{From: from}, 110); got != want {
			t.Errorf("behind %v the next bar begins at %v, by hand %v", from, got, want)
		}
	}
}

// TestPagesByHand: three figures in two columns: two side by side, the third below the first; each row is as high as its highest
// figure.
func TestPagesByHand(t *testing.T) {
	const table = "id,time_ms,model\n1,5,a\n2,9,b\n3,7,a\n"
	page := func(across int, titles ...string) (map[string][2]float64, float64, float64) {
		p := Page{Across: across}
		for _, title := range titles {
			if err := p.Add(tableOf(t, table), Selection{Kind: "cdf", X: "time_ms"}, title); err != nil {
				t.Fatal(err)
			}
		}
		var svg strings.Builder
		if err := p.Write(&svg, "svg"); err != nil {
			t.Fatal(err)
		}
		return texts(t, svg.String())
	}
	one, width, height := page(0, "P1")
	at, w, h := page(2, "P1", "P2", "P3")
	if w != 2*width || h != 2*height {
		t.Errorf("%v by %v points of figures of %v by %v", w, h, width, height)
	}
	near := func(a, b float64) bool { return a-b < 0.1 && b-a < 0.1 }
	if p := one["P1"]; !near(at["P1"][0], p[0]) || !near(at["P2"][0]-at["P1"][0], width) || !near(at["P3"][0], at["P1"][0]) || !near(at["P2"][1], at["P1"][1]) || !near(max(at["P3"][1]-at["P1"][1], at["P1"][1]-at["P3"][1]), height) {
		t.Errorf("%v, alone %v", at, one)
	}
	if _, w, h := page(1, "P1", "P2"); w != width || h != 2*height {
		t.Errorf("in one column %v by %v", w, h)
	}
	if _, w, h := page(5, "P1", "P2"); w != 2*width || h != height {
		t.Errorf("two of five columns are %v by %v", w, h)
	}
	var p Page
	if err := p.Add(tableOf(t, table), Selection{Kind: "cdf", X: "nothing"}, ""); err == nil || len(p.frames) != 0 {
		t.Errorf("%d figures of a column that is not there", len(p.frames))
	}
	// The number of facets side by side, and their size.
	facets := func(n, millimetres int) string {
		d := &Data{Facets: make([]tables.Value, n)}
		d.Width = float64(millimetres)
		across, w, h := d.layout()
		return fmt.Sprintf("%d of %.0f by %.0f", across, w, h)
	}
	for n, want := range map[int]string{1: fmt.Sprintf("1 of %d by %d", plotWidth, plotHeight), 2: fmt.Sprintf("2 of %d by %d", facetWidth, facetHeight), 4: fmt.Sprintf("2 of %d by %d", facetWidth, facetHeight), 9: fmt.Sprintf("%d of %d by %d", maxAcross, facetWidth, facetHeight)} {
		if got := facets(n, 0); got != want {
			t.Errorf("%d facets: %s, by hand %s", n, got, want)
		}
	}
}
