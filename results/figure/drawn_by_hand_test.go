package figure

import (
	"fmt"
	"image/color"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/l3sim/l3sim/results/tables"
)

// drawing is a plotter made of a function.
type drawing func(c draw.Canvas, p *plot.Plot)

func (d drawing) Plot(c draw.Canvas, p *plot.Plot) { d(c, p) }

// lines returns a drawing's strokes by their first and last points, and the bounding box of everything.
func lines(all painted) (ends []string) {
	for _, path := range all.stroke {
		first, last := path[0].Pos, path[len(path)-1].Pos
		ends = append(ends, fmt.Sprintf("%.4g,%.4g to %.4g,%.4g", first.X, first.Y, last.X, last.Y))
	}
	return ends
}

// TestKindsByHand: the data that each kind of figure needs, and its axes.
func TestKindsByHand(t *testing.T) {
	for _, c := range []struct {
		name                                                    string
		cloud, numeric, fromZero, designs, unity, joined, goals bool
		samples                                                 axis
		bars                                                    barForm
		thumb                                                   bool
	}{
		{"bar", false, false, true, false, true, false, false, ofY, sideBySide, true}, {"stack", false, false, true, false, false, false, false, ofY, stacked, true}, {"line", false, true, true, false, true, true, false, ofY, noBars, true},
		{"scatter", true, false, false, true, true, false, false, ofY, noBars, true}, {"cdf", true, false, false, false, false, false, false, ofX, noBars, true}, {"heatmap", false, false, false, false, false, false, false, ofZ, noBars, false},
		{"pareto", true, false, false, true, false, false, true, ofY, noBars, true},
	} {
		k := kindNamed(c.name)
		if k == nil || k.cloud != c.cloud || k.numeric != c.numeric || k.fromZero != c.fromZero || k.designs != c.designs || k.unity != c.unity || k.joined != c.joined || k.goals != c.goals || k.samples != c.samples || k.bars != c.bars || (k.thumb != nil) != c.thumb || k.takesZ() != (c.goals || c.samples == ofZ) {
			t.Errorf("%s: %+v", c.name, k)
		}
	}
	for name, want := range map[string]any{"bar": fillThumb, "stack": fillThumb, "line": markedLineThumb, "scatter": markerThumb, "cdf": lineThumb, "pareto": markedLineThumb} {
		if reflect.ValueOf(kindNamed(name).thumb).Pointer() != reflect.ValueOf(want).Pointer() {
			t.Errorf("the legend of %s has samples of another kind", name)
		}
	}
	if len(kinds) != 7 || kindNamed("pie") != nil {
		t.Errorf("%d kinds", len(kinds))
	}
}

// TestGroupsHaveTheirStyle: a figure of one system has its colour and dashes, not those of the first style.
func TestGroupsHaveTheirStyle(t *testing.T) {
	for style, name := range systems[:4] {
		for _, k := range kinds {
			if k.thumb == nil {
				continue // no groups
			}
			d := &Data{kind: k, XNumeric: true, X: "x", Y: "y", GroupNames: values(name), XNames: values("1", "2", "3")}
			for x := range 3 {
				d.Cells = append(d.Cells, Cell{X: x, XValue: float64(x + 1), Samples: []float64{3, 4 - float64(x)}})
			}
			p := plot.New()
			p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 4, 0, 4
			var r recorder.Canvas
			k.draw(&panel{d, 0, d.Cells, &axes{data: d}}).Plot(draw.NewCanvas(&r, 200, 100), p)
			own, others, dashed := 0, 0, [2]int{}
			for _, a := range r.Actions {
				switch a := a.(type) {
				case *recorder.SetColor:
					c := color.RGBAModel.Convert(a.Color)
					if c == styleColor(style) || c == tint(styleColor(style), 0.65) {
						own++
					} else if slices.ContainsFunc(palette, func(of color.RGBA) bool { return c == of || c == tint(of, 0.65) }) {
						others++
					}
				case *recorder.SetLineDash:
					if len(a.Dashes) > 0 && slices.Equal(a.Dashes, dashes[style]) {
						dashed[0]++
					} else if len(a.Dashes) > 0 {
						dashed[1]++
					}
				}
			}
			if own == 0 || others > 0 || dashed[1] > 0 || (k.name == "line" || k.name == "cdf") && len(dashes[style]) > 0 && dashed[0] == 0 {
				t.Errorf("%s of %s: %d colours of its own and %d others, dashes %v", k.name, name, own, others, dashed)
			}
		}
	}
}

// TestHouseByHand: both axes have the house's ink, widths and texts of these sizes.
func TestHouseByHand(t *testing.T) {
	p := plot.New()
	house(p, 9, 6)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		if axis.Color != ink || axis.Padding != 0 || axis.Width != 0.75 || axis.Tick.Color != ink || axis.Tick.Width != 0.75 || axis.Tick.Length != 4 || axis.Label.Padding != 3 {
			t.Errorf("%+v", axis)
		}
		for size, style := range map[vg.Length]*draw.TextStyle{9: &axis.Label.TextStyle, 6: &axis.Tick.Label} {
			if want := textStyle(size); style.Color != want.Color || style.Font != want.Font || style.Font.Size != size {
				t.Errorf("a text of %v points has %+v", size, style.Font)
			}
		}
	}
}

// TestThumbsByHand: a group's sample in the legend fills its place from the left end, at the height of the group's
// name.
func TestThumbsByHand(t *testing.T) {
	at := vg.Point{X: 30, Y: 40}
	draws := func(thumb func(c *draw.Canvas, at vg.Point, style int)) painted {
		return paint(t, drawing(func(c draw.Canvas, _ *plot.Plot) { thumb(&c, at, 0) }), [2]float64{0, 1}, [2]float64{0, 1})
	}
	line, marker, both := draws(lineThumb), draws(markerThumb), draws(markedLineThumb)
	want := fmt.Sprintf("30,40 to %d,40", 30+legendThumb)
	if got := lines(line); !slices.Equal(got, []string{want}) {
		t.Errorf("a line %v, by hand %v", got, want)
	}
	middle := func(all painted) (x, y vg.Length) {
		for _, path := range all.stroke {
			for _, p := range path {
				x, y = max(x, p.Pos.X), max(y, p.Pos.Y)
			}
		}
		return x, y
	}
	if x, y := middle(marker); len(marker.stroke)+len(marker.boxes) == 0 || len(marker.stroke) > 0 && (x > 30+legendThumb/2+4 || x < 30+legendThumb/2-4 || y < 36 || y > 44) {
		t.Errorf("a marker at %v, %v: %+v", x, y, marker)
	}
	if len(both.stroke) != len(line.stroke)+len(marker.stroke) || len(both.boxes) != len(marker.boxes) {
		t.Errorf("a line with a marker %+v", both)
	}
	bar := draws(fillThumb)
	if len(bar.boxes) == 0 || bar.boxes[0][:len("30,35.5 to")] != "30,35.5 to" || bar.boxes[0][:len(fmt.Sprintf("30,35.5 to %d,44.5", 30+legendThumb))] != fmt.Sprintf("30,35.5 to %d,44.5", 30+legendThumb) {
		t.Errorf("a bar %v", bar.boxes)
	}
	// The last sample of a legend with references stands for them: hollow.
	l := &legend{data: &Data{GroupNames: make([]tables.Value, 2), kind: kindNamed("line")}}
	hollow := paint(t, drawing(func(c draw.Canvas, _ *plot.Plot) { l.thumb(&c, at, 2) }), [2]float64{0, 1}, [2]float64{0, 1})
	if want := fmt.Sprintf("%g,40 to %g,40", 30+legendThumb/2.-4, 30+legendThumb/2.-4); !slices.Equal(lines(hollow), []string{want}) {
		t.Errorf("a reference %v, by hand %v", lines(hollow), want)
	}
	for group, want := range map[string]string{resultColumn: "", tables.PointColumn: "", "system": tables.Describe("system").Label + ":"} {
		l.data.Group = group
		if got := l.title(); got != want {
			t.Errorf("%s: %q, by hand %q", group, got, want)
		}
	}
}

// TestSignsByHand: a cell's sign is beside its point or centred over it, in the size of other texts.
func TestSignsByHand(t *testing.T) {
	d := &Data{}
	at := vg.Point{X: 100, Y: 50}
	for _, c := range []struct {
		sign    string
		centred bool
		want    []string
	}{{"†", false, []string{"† false at 100"}}, {"†‡", true, []string{fmt.Sprintf("†‡ false at %.0f", 100-textStyle(signText).Width("†‡")/2)}}, {"", true, nil}} {
		all := paint(t, drawing(func(canvas draw.Canvas, _ *plot.Plot) { d.drawSign(&canvas, c.sign, at, c.centred) }), [2]float64{0, 1}, [2]float64{0, 1})
		if !slices.Equal(all.texts, c.want) {
			t.Errorf("%+v: %v", c, all.texts)
		}
	}
	for _, c := range [][2]vg.Length{{9, 9}, {8, 8}} {
		if got := d.text(c[0]); got != c[1] {
			t.Errorf("%v points on a screen", got)
		}
	}
	d.Width = 80
	for _, c := range [][2]vg.Length{{9, 8}, {8, 7}, {7, 7}, {6, 7}} {
		if got := d.text(c[0]); got != c[1] {
			t.Errorf("%v points are %v on paper, by hand %v", c[0], got, c[1])
		}
	}
}

// TestTicksByHand: ticks at values of the data, at round numbers, and at powers of ten, some of which have a label.
func TestTicksByHand(t *testing.T) {
	labels := func(ticks []plot.Tick) (all []string) {
		for _, tick := range ticks {
			if tick.Label != "" {
				all = append(all, fmt.Sprintf("%.4g=%s", tick.Value, tick.Label))
			}
		}
		return all
	}
	ms := scale{size: 1000}
	if got, want := labels(ticker{scale: ms, at: []float64{1500, 2.3456}}.Ticks(0, 5000)), []string{"1500=1.5", "2.346=0.0024"}; !slices.Equal(got, want) {
		t.Errorf("%v, by hand %v", got, want)
	}
	if got, want := labels(ticker{scale: ms}.Ticks(0, 5000)), []string{"0=0", "1000=1", "2000=2", "3000=3", "4000=4", "5000=5"}; !slices.Equal(got, want) {
		t.Errorf("%v, by hand %v", got, want)
	}
	if got, want := labels(ticker{scale: scale{size: 1}, logarithmic: true}.Ticks(0, 3)), []string{"0=1", "1=10", "2=100", "3=1,000"}; !slices.Equal(got, want) {
		t.Errorf("%v, by hand %v", got, want)
	}
	all := ticker{scale: scale{size: 1}, logarithmic: true}.Ticks(0, 3)
	minor := 0
	for _, tick := range all {
		if tick.Label == "" {
			minor++
		}
	}
	if minor < 3*8 {
		t.Errorf("%d ticks between powers of ten, by hand 24 at least", minor)
	}
	wide := ticker{scale: scale{size: 1}, logarithmic: true}.Ticks(0, 2*maxTicks) // every third power has a label, and only powers have ticks
	for i, tick := range wide {
		if want := float64(3 * i); tick.Label == "" || tick.Value < want-1e-9 || tick.Value > want+1e-9 {
			t.Errorf("tick %d at %v: %q", i, tick.Value, tick.Label)
		}
	}
	if want := 2*maxTicks/3 + 1; len(wide) != want {
		t.Errorf("%d ticks, by hand %d", len(wide), want)
	}
	unlabelled := unlabelled{ticker{scale: ms}}.Ticks(0, 5000)
	if len(unlabelled) != 6 || unlabelled[2].Label != " " {
		t.Errorf("%+v", unlabelled)
	}
}

// TestOverlapByHand: boxes overlap if they share more than an edge.
func TestOverlapByHand(t *testing.T) {
	box := func(x, y, w, h vg.Length) vg.Rectangle {
		return vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + w, Y: y + h}}
	}
	a := box(10, 10, 10, 5)
	for _, c := range []struct {
		b    vg.Rectangle
		want bool
	}{{box(12, 11, 1, 1), true}, {box(0, 0, 100, 100), true}, {box(20, 10, 5, 5), false}, {box(19, 10, 5, 5), true}, {box(0, 10, 10, 5), false}, {box(0, 10, 11, 5), true}, {box(10, 15, 10, 5), false}, {box(10, 14, 10, 5), true}, {box(10, 5, 10, 5), false}, {box(10, 6, 10, 5), true}} {
		if overlap(a, c.b) != c.want || overlap(c.b, a) != c.want {
			t.Errorf("%v and %v: %t", a, c.b, !c.want)
		}
	}
}

// TestUnityByHand: the line at 1 spans the whole width if values are relative to a baseline and 1 is on the axis.
func TestUnityByHand(t *testing.T) {
	a := &axes{data: &Data{kind: kindNamed("line")}}
	a.yMin, a.yMax = 0, 4
	var r recorder.Canvas
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 4
	unity{a}.Plot(draw.NewCanvas(&r, 200, 100), p)
	found := false
	for _, action := range r.Actions {
		if s, ok := action.(*recorder.Stroke); ok {
			found = s.Path[0].Pos == vg.Point{X: 0, Y: 25} && s.Path[1].Pos == vg.Point{X: 200, Y: 25}
		}
	}
	if !found {
		t.Errorf("%v", r.Actions)
	}
	for _, c := range []struct {
		kind     string
		relative bool
		low, top float64
		want     bool
	}{{"line", true, 0, 4, true}, {"line", false, 0, 4, false}, {"stack", true, 0, 4, false}, {"line", true, 1, 4, true}, {"line", true, 1.1, 4, false}, {"line", true, 0, 1, true}, {"line", true, 0, 0.9, false}} {
		d := &Data{kind: kindNamed(c.kind)}
		if c.relative {
			d.NormalizedTo = "system=l3"
		}
		if got := d.hasUnity(&axes{yMin: c.low, yMax: c.top}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
