package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/l3sim/l3sim/results/tables"
)

func values(names ...string) (all []tables.Value) {
	for _, name := range names {
		all = append(all, tables.Of(name))
	}
	return all
}

// TestBarsByHand: on 200 by 100 points, x from -0.5 to 1.5 and y from -10 to 10, one of two bars covers 10 to 50 of the 100
// points of its x, and reaches up or down from the line at 0.
func TestBarsByHand(t *testing.T) {
	d := &Data{kind: kindNamed("bar"), X: "x", Group: "g", Facet: "f", XNames: values("p", "q"), GroupNames: values("a", "b"), Facets: values("one", "two")}
	d.Cells = []Cell{{Samples: []float64{4}, sign: "†"}, {Group: 1, Samples: []float64{-6}, sign: "‡"}, {X: 1, Group: 1, Samples: []float64{1, 3}, sign: "+"}, {Facet: 1, Samples: []float64{9}}, {Facet: 1, Group: 1, Samples: []float64{9}}}
	signs := map[string]float64{}
	var r recorder.Canvas
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, 1.5, -10, 10
	(&bars{data: d, cells: d.Cells[:3]}).Plot(draw.NewCanvas(&r, 200, 100), p)
	var boxes []string
	for _, a := range r.Actions {
		switch a := a.(type) {
		case *recorder.FillString:
			signs[a.String] = float64(a.Point.Y)
		case *recorder.Fill:
			boxes = append(boxes, fmt.Sprintf("%.4g,%.4g to %.4g,%.4g", a.Path[0].Pos.X, a.Path[0].Pos.Y, a.Path[2].Pos.X, a.Path[2].Pos.Y))
		}
	}
	if want := []string{"10,50 to 50,70", "50,20 to 90,50", "150,50 to 190,60"}; !slices.Equal(boxes, want) {
		t.Errorf("bars %v, by hand %v", boxes, want)
	}
	// Signs are above the bars, of negative ones above the line at 0, and above error bars, here of sqrt(2). The first group has none at
	// q.
	if base := signs["†"] - 70; signs["‡"] != base+50 || math.Abs(signs["+"]-(base+60+5*math.Sqrt2)) > 1e-9 || signs[absentSign] != base+50 || len(signs) != 4 {
		t.Errorf("signs %v", signs)
	}
	if got := d.absent(); len(got) != 1 || got[0].Facet != 0 || got[0].Group != 0 || got[0].X != 1 {
		t.Errorf("%+v has no result", got)
	}
	d.Cells = append(d.Cells, Cell{Facet: 1, Group: 1, X: 1, Samples: []float64{1}})
	if got := d.absent(); len(got) != 2 || got[1].Facet != 1 || got[1].X != 1 || got[1].Group != 0 {
		t.Errorf("%+v has no result", got)
	}

	// References are in the middle of the bar, their left end 4 points to the left.
	d.references = []placed{{cell: &d.Cells[1], group: 1, y: 4}, {cell: &d.Cells[3], group: 0, y: 1}, {group: 1, y: 2}}
	a := &axes{data: d}
	if got, want := lines(paint(t, &references{d, 0, a}, [2]float64{-0.5, 1.5}, [2]float64{-10, 10})), []string{"66,70 to 66,70", "0,60 to 200,60", "191,60 to 191,60"}; !slices.Equal(got, want) {
		t.Errorf("references %v, by hand %v", got, want)
	}
	if c := d.cellOf("two", "b", "p"); c != &d.Cells[4] || d.cellOf("", "b", "p") != &d.Cells[1] || d.cellOf("three", "b", "p") != nil {
		t.Errorf("cell %+v", c)
	}
}

// TestMarkersByHand: of 60 cells of a line every sixth has a marker; a cloud of 100 cells or more has small ones.
func TestMarkersByHand(t *testing.T) {
	glyphs := func(kind string, cells, groups int) (widths []vg.Length) {
		d := &Data{kind: kindNamed(kind), XNumeric: true, X: "x", GroupNames: values("a", "b")[:groups]}
		for i := range cells * groups {
			d.Cells = append(d.Cells, Cell{Group: i / cells, XValue: float64(i % cells), Samples: []float64{5}})
		}
		p := plot.New()
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 100, 0, 10
		var r recorder.Canvas
		(&points{data: d, cells: d.Cells, axes: &axes{data: d}}).Plot(draw.NewCanvas(&r, 200, 100), p)
		for _, a := range r.Actions {
			if f, ok := a.(*recorder.Fill); ok {
				least, most := f.Path[0].Pos.X, f.Path[0].Pos.X
				for _, at := range f.Path {
					least, most = min(least, at.Pos.X), max(most, at.Pos.X)
				}
				widths = append(widths, most-least)
			}
		}
		return widths
	}
	if got := len(glyphs("line", 29, 1)); got != 29 {
		t.Errorf("%d markers of 29 cells", got)
	}
	// A line alone needs none; with two groups one in ten of 60 cells of each has one.
	if one, two := len(glyphs("line", 60, 1)), len(glyphs("line", 60, 2)); one != 0 || two != 2*6 {
		t.Errorf("%d markers of 60 cells, %d of two groups", one, two)
	}
	few, many := glyphs("scatter", 99, 1), glyphs("scatter", 100, 1)
	if len(few) != 99 || len(many) != 100 || many[0] != few[0]/2 {
		t.Errorf("%d and %d markers, %v and %v points wide", len(few), len(many), few[0], many[0])
	}
}

// TestAsideByHand: lines with error bars are 5 points apart around their x, or as close as half of the gap requires.
func TestAsideByHand(t *testing.T) {
	d := &Data{kind: kindNamed("line"), XNumeric: true, GroupNames: values("a", "b", "c"), Cells: []Cell{{XValue: 1, Samples: []float64{1, 2}}, {XValue: 2, Samples: []float64{1}}}}
	for gap, want := range map[vg.Length][3]vg.Length{100: {-5, 0, 5}, 12: {-2, 0, 2}} {
		for group := range 3 {
			if got := d.aside(group, func(v float64) vg.Length { return vg.Length(v) * gap }); math.Abs(float64(got-want[group])) > 1e-9 {
				t.Errorf("group %d stands %v aside, by hand %v", group, got, want[group])
			}
		}
	}
	d.GroupNames = d.GroupNames[:2]
	if got := d.aside(1, func(v float64) vg.Length { return vg.Length(v) * 100 }); got != 2.5 {
		t.Errorf("the second of two stands %v aside, by hand 2.5", got)
	}
	d.Cells = d.Cells[1:]
	if got := d.aside(1, func(v float64) vg.Length { return vg.Length(v) * 100 }); got != 0 {
		t.Errorf("without error bars it stands %v aside", got)
	}
}

// TestLinesAside: two lines with an error bar at their first point, at 50 points per unit of x and 10 of y: the first line is shifted 2.5
// points to the left with its error bar of sqrt(2), the second to the right.
func TestLinesAside(t *testing.T) {
	d := &Data{kind: kindNamed("line"), XNumeric: true, X: "x", GroupNames: values("a", "b")}
	for group := range 2 {
		d.Cells = append(d.Cells, Cell{Group: group, XValue: 1, Samples: []float64{1, 3}}, Cell{Group: group, XValue: 2, Samples: []float64{4}})
	}
	got := lines(paint(t, &points{data: d, cells: d.Cells, axes: &axes{data: d}}, [2]float64{0, 4}, [2]float64{0, 10}))
	if want := []string{
		"47.5,20 to 97.5,40", "47.5,5.858 to 47.5,34.14", "45,5.858 to 50,5.858", "45,34.14 to 50,34.14",
		"52.5,20 to 102.5,40", "52.5,5.858 to 52.5,34.14", "50,5.858 to 55,5.858", "50,34.14 to 55,34.14"}; !slices.Equal(got, want) {
		t.Errorf("%q, by hand %q", got, want)
	}
	// References move with their lines. A marker begins 4 points to the left.
	d.references = []placed{{cell: &d.Cells[2], group: 1, y: 6}, {cell: &d.Cells[1], group: 0, y: 7}}
	if got, want := lines(paint(t, &references{d, 0, &axes{data: d}}, [2]float64{0, 4}, [2]float64{0, 10})), []string{"48.5,60 to 48.5,60", "93.5,70 to 93.5,70"}; !slices.Equal(got, want) {
		t.Errorf("references %q, by hand %q", got, want)
	}
}

// TestStepsByHand: a distribution of many samples has 1,000 steps, from the first to the last sample.
func TestStepsByHand(t *testing.T) {
	for samples, want := range map[int]int{2: 2, 1000: 1000, 2001: 1000} {
		c := Cell{}
		for i := range samples {
			c.Samples = append(c.Samples, float64(i)/float64(samples-1))
		}
		d := &Data{kind: kindNamed("cdf"), GroupNames: make([]tables.Value, 1)}
		path := paint(t, &steps{[]Cell{c}, &axes{data: d}}, [2]float64{0, 1}, [2]float64{0, 1}).stroke[0]
		last := path[len(path)-1].Pos
		if len(path) != 1+2*want || last != (vg.Point{X: 200, Y: 100}) || path[0].Pos != (vg.Point{}) {
			t.Errorf("%d samples have %d points, up to %v", samples, len(path), last)
		}
	}
}

// TestNamesBesidePoints: eight points have names, including the ends of the front; a name is placed where it has room within the
// plot.
func TestNamesBesidePoints(t *testing.T) {
	d := &Data{kind: kindNamed("pareto"), MinimizeX: true, MaximumY: true, Facets: values("one", "two")}
	for i := range 10 {
		for facet := range 2 {
			d.Cells = append(d.Cells, Cell{Facet: facet, XValue: float64(i), Samples: []float64{float64(i)}, name: fmt.Sprintf("#%d", i)})
		}
	}
	var cells []Cell
	for _, c := range d.Cells {
		if c.Facet == 0 {
			cells = append(cells, c)
		}
	}
	named := d.named(cells)
	if len(named) != mostNamed || named[0]+named[1] != 9 || named[0]*named[1] != 0 {
		t.Errorf("names of %v", named)
	}
	if got := len(d.tagged()); got != mostNamed {
		t.Errorf("%d designs have names, by hand %d", got, mostNamed)
	}
	at := func(points ...vg.Point) map[string]vg.Point {
		cells := []Cell{}
		for i, p := range points {
			cells = append(cells, Cell{XValue: float64(p.X), Samples: []float64{float64(p.Y)}, name: []string{"abc", "d"}[i]})
		}
		var r recorder.Canvas
		p := plot.New()
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 200, 0, 100
		(&nameTags{d, cells, &axes{data: d}}).Plot(draw.NewCanvas(&r, 200, 100), p)
		found := map[string]vg.Point{}
		for _, a := range r.Actions {
			if s, ok := a.(*recorder.FillString); ok {
				found[s.String] = s.Point
			}
		}
		return found
	}
	w := textStyle(d.text(7)).Width("abc")
	free := at(vg.Point{X: 50, Y: 50})["abc"]
	rise := free.Y - 50 // of its middle above the point: 1 and half of 8 points, and the descent
	for _, c := range []struct {
		points []vg.Point
		want   vg.Point
	}{
		{[]vg.Point{{X: 50, Y: 50}}, vg.Point{X: 55, Y: 50 + rise}},
		{[]vg.Point{{X: 200, Y: 50}}, vg.Point{X: 195 - w, Y: 50 + rise}},
		{[]vg.Point{{X: 50, Y: 100}}, vg.Point{X: 55, Y: 90 + rise}},
		{[]vg.Point{{X: 200, Y: 100}}, vg.Point{X: 195 - w, Y: 90 + rise}},
		{[]vg.Point{{X: 50, Y: 0}, {X: 60, Y: 5}}, vg.Point{X: 45 - w, Y: 0 + rise}}, // the other point is in the way
	} {
		got := at(c.points...)["abc"]
		if math.Abs(float64(got.X-c.want.X)) > 1e-9 || math.Abs(float64(got.Y-c.want.Y)) > 1e-9 || rise < 1 || rise > 6 {
			t.Errorf("%v: the name is at %v, by hand %v", c.points, got, c.want)
		}
	}
}

// TestLayoutByHand: up to three facets are side by side, four in two rows, and on paper as many as have 110
// points each.
func TestLayoutByHand(t *testing.T) {
	for _, c := range []struct {
		facets                         int
		width                          float64
		across, down                   int
		each, high, whole, allTogether vg.Length
	}{
		{1, 0, 1, 1, plotWidth, plotHeight, plotWidth + 16, plotHeight + 16}, {3, 0, 3, 1, facetWidth, facetHeight, 3*facetWidth + 16, facetHeight + 16}, {4, 0, 2, 2, facetWidth, facetHeight, 2*facetWidth + 16, 2*facetHeight + 16},
		{5, 0, 3, 2, facetWidth, facetHeight, 3*facetWidth + 16, 2*facetHeight + 16},
		// 180 mm are 510.2 points; of 494 three facets have 165 each, and are 140 high. 85 mm hold two, of 112 points.
		{3, 180, 3, 1, 164.7, 140, 510.2, 156}, {3, 85, 2, 2, 112.5, 140, 240.9, 296}, {1, 85, 1, 1, 224.9, 168.7, 240.9, 184.7}, {1, 180, 1, 1, 494.2, 200, 510.2, 216},
	} {
		d := &Data{kind: kindNamed("line"), Facets: make([]tables.Value, c.facets), Width: c.width, GroupNames: make([]tables.Value, 1), marks: &marks{}}
		across, width, height := d.layout()
		near := func(a, b vg.Length) bool { return math.Abs(float64(a-b)) < 0.06 }
		f := newFrame(d, "")
		if across != c.across || !near(width, c.each) || !near(height, c.high) || f.across != c.across || f.down != c.down || !near(f.width, c.whole) || !near(f.height, c.allTogether) {
			t.Errorf("%+v: %d of %v by %v, all together %v by %v in %d rows", c, across, width, height, f.width, f.height, f.down)
		}
	}
	// A heat map of many rows has 13 points for each row plus 60, on paper, too. No other kind grows.
	for _, c := range []struct {
		facets, rows int
		width        float64
		high         vg.Length
	}{{1, 16, 0, plotHeight}, {1, 17, 0, 281}, {1, 30, 0, 450}, {3, 30, 0, 450}, {4, 30, 0, 900}, {1, 10, 180, 200}, {1, 11, 180, 203}} {
		for _, k := range kinds {
			d := &Data{kind: k, Facets: make([]tables.Value, c.facets), Width: c.width, GroupNames: make([]tables.Value, 1), YNames: make([]tables.Value, c.rows), marks: &marks{}}
			_, _, height := d.layout()
			want := height * vg.Length((c.facets+2)/3)
			if c.facets == 4 {
				want = 2 * height
			}
			if k.name == "heatmap" {
				want = c.high
			}
			if f := newFrame(d, ""); math.Abs(float64(f.height-want-16-f.head(f.width-16))) > 0.06 {
				t.Errorf("%s of %d rows in %d facets of %g mm: %v points, by hand %v", k.name, c.rows, c.facets, c.width, f.height-16-f.head(f.width-16), want)
			}
		}
	}
	// Facets beside or above a full row leave the axis labels to that row.
	var text strings.Builder
	text.WriteString("facet,x,speed\n")
	for facet := range 5 {
		fmt.Fprintf(&text, "f%d,1,1\nf%d,2,2\n", facet, facet)
	}
	d, err := Select(tableOf(t, text.String()), Selection{Kind: "line", X: "x", Y: "speed", Facet: "facet"})
	if err != nil {
		t.Fatal(err)
	}
	f := newFrame(d, "")
	f.across, f.down = 2, 3
	for facet, want := range [][2]bool{{false, true}, {false, false}, {true, true}, {true, false}, {true, true}} {
		p := f.plot(facet, newAxes(d))
		ticks := p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max)
		if got := [2]bool{p.X.Label.Text != "", p.Y.Label.Text != ""}; got != want || (strings.TrimSpace(ticks[0].Label) != "") != want[0] {
			t.Errorf("facet %d has labels of x and y: %v, ticks %+v", facet, got, ticks[0])
		}
	}
}

// TestUnityIsDrawn: the line is drawn once, under the data or over bars.
func TestUnityIsDrawn(t *testing.T) {
	for _, kind := range []string{"line", "bar", "stack"} {
		d, err := Select(tableOf(t, "g,x,speed\na,1,1\na,2,2\nb,1,3\nb,2,5\n"), Selection{Kind: kind, X: "x", Y: "speed", Group: "g", NormalizeTo: "g=a"})
		if err != nil {
			t.Fatal(err)
		}
		f, a := newFrame(d, ""), newAxes(d)
		strokes := func() (n int) {
			var r recorder.Canvas
			f.plot(0, a).Draw(draw.NewCanvas(&r, 400, 300))
			for _, action := range r.Actions {
				if _, ok := action.(*recorder.Stroke); ok {
					n++
				}
			}
			return n
		}
		with := strokes()
		d.NormalizedTo = ""
		if got, want := with-strokes(), map[string]int{"line": 1, "bar": 1}[kind]; got != want {
			t.Errorf("%s: %d lines at 1", kind, got)
		}
	}
}

// TestTurnedNames: names without room are turned by 36 degrees, and end at their ticks.
func TestTurnedNames(t *testing.T) {
	for name, want := range map[string]float64{"a": 0, strings.Repeat("long ", 30): math.Pi / 5} {
		d := &Data{kind: kindNamed("bar"), XNames: values("x", name), Facets: make([]tables.Value, 1)}
		p := plot.New()
		before := p.X.Tick.Label.XAlign
		if (&axes{data: d}).turn(p); p.X.Tick.Label.Rotation != want || want > 0 && (p.X.Tick.Label.XAlign != draw.XRight || p.X.Tick.Label.YAlign != draw.YTop) || want == 0 && p.X.Tick.Label.XAlign != before {
			t.Errorf("%.10s is turned by %v", name, p.X.Tick.Label.Rotation)
		}
	}
}

// TestStylesRepeat: after the last dashes and hatches the first ones repeat.
func TestStylesRepeat(t *testing.T) {
	for i := range len(dashes) {
		if got := styleLine(i + len(dashes)).Dashes; !slices.Equal(got, dashes[i]) {
			t.Errorf("style %d has dashes %v", i+len(dashes), got)
		}
	}
	box := vg.Rectangle{Max: vg.Point{X: 40, Y: 30}}
	strokes := func(style int) int {
		return len(paint(t, drawing(func(c draw.Canvas, _ *plot.Plot) { fillBar(&c, box, style) }), [2]float64{0, 1}, [2]float64{0, 1}).stroke)
	}
	for i := range len(hatches) {
		if a, b := strokes(i), strokes(i+len(hatches)); a != b || (a > 1) != (i > 0) {
			t.Errorf("style %d has %d lines, style %d %d", i, a, i+len(hatches), b)
		}
	}
}

// TestHeatMapsByHand: a table has a row for each cell with its y; cells of a single value have the middle colour; there is no legend.
func TestHeatMapsByHand(t *testing.T) {
	of := func(norm string) *Data {
		d, err := Select(tableOf(t, "a,b,latency_ms\n1,p,4\n2,p,8\n1,q,8\n2,q,8\n"), Selection{Kind: "heatmap", X: "a", Y: "b", Z: "latency_ms", NormalizeTo: norm})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	table := of("").table(false)
	if !slices.Equal(table.Columns, []string{"a", "b", "latency_ms"}) || len(table.Rows) != 4 || table.Rows[2][1].String() != "q" && table.Rows[1][1].String() != "q" {
		t.Errorf("%+v", table)
	}
	flat := of("")
	for i := range flat.Cells {
		flat.Cells[i].Samples = []float64{8}
	}
	for _, box := range paint(t, &heatmap{data: flat, cells: flat.Cells}, [2]float64{-0.5, 1.5}, [2]float64{-0.5, 1.5}).boxes {
		if !strings.HasSuffix(box, fmt.Sprint(ramp(0.5))) {
			t.Errorf("%s, want %v", box, ramp(0.5))
		}
	}
	flat.Group = "a"
	if newLegend(flat) != nil {
		t.Error("a heat map has a legend of groups")
	}
	for norm, want := range map[string]string{"": "latency (ms):  4", "a=1": "latency relative to a = 1:  1"} {
		var svg strings.Builder
		d := of(norm)
		if err := d.Write(&svg, "svg", ""); err != nil {
			t.Fatal(err)
		}
		at, _, _ := texts(t, svg.String())
		if _, ok := at[want]; !ok {
			t.Errorf("no %q in %v", want, at)
		}
		if a := newAxes(d); true {
			p := plot.New()
			if a.style(p); p.Y.Label.Text != "b" {
				t.Errorf("y is %q", p.Y.Label.Text)
			}
		}
	}
	// A heat map refuses several columns as rows.
	if _, err := Select(tableOf(t, "a,b_s,c_s,z\n1,2,3,4\n"), Selection{Kind: "heatmap", X: "a", Y: "b_s,c_s", Z: "z"}); err == nil || !strings.Contains(err.Error(), "b_s,c_s") {
		t.Errorf("%v", err)
	}
}

// TestMeltedNames: columns of one unit share the words that they begin with; times are called times, and others
// values.
func TestMeltedNames(t *testing.T) {
	for columns, want := range map[string]string{
		"tbt_mean_ms,tbt_p99_ms": "tbt_ms", "mean_ms,p99_ms": "time_ms", "left_bytes,right_bytes": "value_bytes", "left,right": "value", "a_us,b_us": "time_us", "tbt_ms,tbt_p99_ms": "all_tbt_ms", "ttft_ms,tbt_ms": "time_ms",
	} {
		table := tableOf(t, "x,"+columns+"\n1,2,3\n")
		if got := sharedName(table, []int{1, 2}); got != want {
			t.Errorf("%s: %s, by hand %s", columns, got, want)
		}
	}
}

// TestBaselinesByHand: exactly one row divides, and it is not 0.
func TestBaselinesByHand(t *testing.T) {
	for rows, want := range map[string]string{"a,1,2\na,1,3\nb,1,4\n": "one row of these", "a,1,0\nb,1,4\n": "above 0", "a,2,5\nb,1,4\n": "a row to divide by", "a,1,2\nb,1,4\n": ""} {
		_, err := Select(tableOf(t, "g,x,speed\n"+rows), Selection{Kind: "line", X: "x", Y: "speed", Group: "g", NormalizeTo: "g=a"})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rows, err, want)
		}
	}
}

// TestWaysOfFronts: metrics where more is better are maximised, times and keys minimised.
func TestWaysOfFronts(t *testing.T) {
	for _, c := range []struct {
		x, y, z                         string
		minimizeX, maximizeY, maximizeZ bool
	}{
		{"tbt_mean_ms", "throughput_tokens_per_s", "", true, true, false}, {"throughput_tokens_per_s", "tbt_mean_ms", "", false, false, false}, {"node.ranks", "throughput_tokens_per_s", "tbt_mean_ms", true, true, false},
		{"tbt_mean_ms", "node.ranks", "throughput_tokens_per_s", true, false, true}, {"tbt_mean_ms", "throughput_tokens_per_s", "node.ranks", true, true, false},
	} {
		d, err := Select(tableOf(t, "point,node.ranks,run.seed,status,error,config_sha256,throughput_tokens_per_s,tbt_mean_ms\na,1,1,done,,x,3,2\nb,2,1,done,,x,4,3\n"), Selection{Kind: "pareto", X: c.x, Y: c.y, Z: c.z})
		if err != nil {
			t.Fatal(err)
		}
		if d.MinimizeX != c.minimizeX || d.MaximumY != c.maximizeY || d.MaximizeZ != c.maximizeZ {
			t.Errorf("%+v: %t, %t, %t", c, d.MinimizeX, d.MaximumY, d.MaximizeZ)
		}
	}
}

// TestFiguresOfPages: figures side by side are as wide as the widest, and rows as high as their highest.
func TestFiguresOfPages(t *testing.T) {
	p := Page{Across: 2}
	table := tableOf(t, "facet,x,speed\nf1,1,1\nf1,2,2\nf2,1,1\nf2,2,2\n")
	for i, facet := range []string{"", "facet", "facet", ""} {
		where := []string{"facet=f1"}
		if facet != "" {
			where = nil
		}
		if err := p.Add(table, Selection{Kind: "line", X: "x", Y: "speed", Facet: facet, Where: where}, fmt.Sprintf("title %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var svg strings.Builder
	if err := p.Write(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	at, width, height := texts(t, svg.String())
	one, two := p.frames[0], p.frames[1]
	high := max(one.height, two.height)
	if width != float64(2*two.width) || height != float64(2*high) || one.width >= two.width || one.height == two.height {
		t.Errorf("%v by %v, figures of %v by %v and %v by %v", width, height, one.width, one.height, two.width, two.height)
	}
	middle := func(title string) float64 {
		size := 11.0
		return at[title][0] + float64(textStyle(vg.Length(size)).Width(title))/2
	}
	for i := range 4 {
		title, column, row := fmt.Sprintf("title %d", i), float64(i%2), float64(i/2)
		// at the first title's place, a row lower
		if got, want := middle(title), float64(two.width)*(column+0.5); math.Abs(got-want) > 0.1 || math.Abs(at[title][1]-at["title 0"][1]-row*float64(high)) > 0.1 {
			t.Errorf("%s is at %v, %v; by hand %v, %v lower than the first", title, got, at[title][1], want, row*float64(high))
		}
	}
}
