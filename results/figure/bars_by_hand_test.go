package figure

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/l3sim/l3sim/results/tables"
)

// TestErrorBarsOfBarsByHand: an error bar spans one standard deviation on each side of the mean, in the middle of a bar, with caps of 3
// points to either side, or a quarter of a narrow bar. Bars of one sample have none.
func TestErrorBarsOfBarsByHand(t *testing.T) {
	for _, c := range []struct {
		groups int
		middle float64 // of the second group's bar
		half   float64
	}{{2, 70, 3}, {8, 25, 2.5}} {
		d := &Data{kind: kindNamed("bar"), X: "x", Group: "g", XNames: values("p", "q"), GroupNames: values("a", "b", "c", "d", "e", "f", "g", "h")[:c.groups], Facets: make([]tables.Value, 1)}
		d.Cells = []Cell{{Samples: []float64{4}}, {Group: 1, Samples: []float64{2, 6}}} // 4 ± 2√2
		low, high := 50+5*(4-2*math.Sqrt2), 50+5*(4+2*math.Sqrt2)
		want := []string{fmt.Sprintf("%.4g,%.4g to %.4g,%.4g", c.middle, low, c.middle, high)}
		for _, y := range []float64{low, high} {
			want = append(want, fmt.Sprintf("%.4g,%.4g to %.4g,%.4g", c.middle-c.half, y, c.middle+c.half, y))
		}
		got := lines(paint(t, &bars{data: d, cells: d.Cells}, [2]float64{-0.5, 1.5}, [2]float64{-10, 10}))
		if n := len(got) - len(want); n < 0 || !slices.Equal(got[n:], want) { // preceded by the bars' hatches
			t.Errorf("%d groups: %v, by hand %v", c.groups, got, want)
		}
	}
}

// TestParetoByHand: on 200 by 100 points, less x and more y are better. Each group has a staircase from the first cell of its front to its last,
// the first group's on top; dominated cells are on none.
func TestParetoByHand(t *testing.T) {
	d := &Data{kind: kindNamed("pareto"), X: "x", Y: "y", XNumeric: true, MinimizeX: true, MaximumY: true, GroupNames: values("a", "b", "c"), Facets: make([]tables.Value, 1)}
	for _, c := range [][3]float64{{0, 20, 30}, {0, 60, 80}, {0, 70, 50}, {1, 40, 20}, {1, 90, 60}, {2, 110, 10}, {2, 150, 40}} { // group, x and y
		d.Cells = append(d.Cells, Cell{Group: int(c[0]), XValue: c[1], Samples: []float64{c[2]}})
	}
	got := lines(paint(t, &pareto{data: d, cells: d.Cells, axes: &axes{data: d}}, [2]float64{0, 200}, [2]float64{0, 100}))
	if want := []string{"110,10 to 150,40", "40,20 to 90,60", "20,30 to 60,80"}; !slices.Equal(got, want) {
		t.Errorf("staircases %v, by hand %v", got, want)
	}
}

// TestHeatMapLabelsByHand: on 200 by 100 points, a heat map's cell shows its number if it is more than 10 points high and 2 points wider
// than the number.
func TestHeatMapLabelsByHand(t *testing.T) {
	for _, c := range []struct {
		columns, rows int
		value         float64
		labels        int
	}{{2, 9, 1, 18}, {2, 10, 1, 0}, {9, 2, 1, 18}, {9, 2, 123456, 0}, {2, 9, 123456, 18}} {
		d := &Data{kind: kindNamed("heatmap"), X: "x", Y: "y", Z: "requests", XNames: make([]tables.Value, c.columns), YNames: make([]tables.Value, c.rows)}
		for i := range c.columns * c.rows {
			d.Cells = append(d.Cells, Cell{X: i % c.columns, Y: i / c.columns, Samples: []float64{c.value}})
		}
		all := paint(t, &heatmap{data: d, cells: d.Cells}, [2]float64{-0.5, float64(c.columns) - 0.5}, [2]float64{-0.5, float64(c.rows) - 0.5})
		if len(all.texts) != c.labels || len(all.boxes) != c.columns*c.rows {
			t.Errorf("%+v: %d numbers in %d cells, the first %v", c, len(all.texts), len(all.boxes), all.texts[:min(1, len(all.texts))])
		}
	}
}

// TestStackSignsByHand: the sign of a part of a stack is a point above the part, in the middle of the stack, as for a bar.
func TestStackSignsByHand(t *testing.T) {
	at := func(kind string) map[string]vg.Point {
		d := &Data{kind: kindNamed(kind), X: "x", Group: "g", XNames: values("p"), GroupNames: values("a", "b"), Facets: make([]tables.Value, 1)}
		d.Cells = []Cell{{Samples: []float64{2}, sign: "†"}, {Group: 1, Samples: []float64{3}, sign: "‡"}}
		p := plot.New()
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, 0.5, 0, 10
		var r recorder.Canvas
		(&bars{data: d, cells: d.Cells}).Plot(draw.NewCanvas(&r, 200, 100), p)
		signs := map[string]vg.Point{}
		for _, a := range r.Actions {
			if s, ok := a.(*recorder.FillString); ok {
				signs[s.String] = s.Point
			}
		}
		return signs
	}
	stack, beside := at("stack"), at("bar")
	for sign, x := range map[string]vg.Length{"†": 60, "‡": 140} { // of bars side by side; the stack's is 100
		want := vg.Point{X: beside[sign].X + 100 - x, Y: beside[sign].Y}
		if sign == "‡" {
			want.Y += 20 // on top of the first part
		}
		if got := stack[sign]; math.Abs(float64(got.X-want.X)) > 1e-9 || math.Abs(float64(got.Y-want.Y)) > 1e-9 {
			t.Errorf("%s at %v, by hand %v", sign, got, want)
		}
	}
}
