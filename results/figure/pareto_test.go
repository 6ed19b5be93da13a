package figure

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// cloud returns random cells with coarse values, so that many tie.
func cloud(t *rapid.T) []Cell {
	var cells []Cell
	coarse := rapid.IntRange(0, 5)
	for range rapid.IntRange(1, 15).Draw(t, "n") {
		cells = append(cells, Cell{
			XValue: float64(coarse.Draw(t, "x")), ZValue: float64(coarse.Draw(t, "z")), Samples: []float64{float64(coarse.Draw(t, "y"))},
		})
	}
	return cells
}

func all(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// atLeast says that a is at least as good as b in x and y, and if third in z.
func (d *Data) atLeast(a, b *Cell, third bool) bool {
	good := func(a, b float64, maximize bool) bool { return a == b || a > b == maximize }
	return good(a.XValue, b.XValue, !d.MinimizeX) && good(a.Mean(), b.Mean(), d.MaximumY) && (!third || good(a.ZValue, b.ZValue, d.MaximizeZ))
}

// TestFront compares fronts with their definition, for all directions.
func TestFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := cloud(t)
		d := &Data{MinimizeX: rapid.Bool().Draw(t, "minimize x"), MaximumY: rapid.Bool().Draw(t, "maximize y"), MaximizeZ: rapid.Bool().Draw(t, "maximize z")}
		third := rapid.Bool().Draw(t, "third")
		front := d.front(cells, all(len(cells)), third)
		for i := range cells {
			beaten := false
			for j := range cells {
				beaten = beaten || d.atLeast(&cells[j], &cells[i], third) && !d.atLeast(&cells[i], &cells[j], third)
			}
			if slices.Contains(front, i) == beaten {
				t.Fatalf("cell %d, %+v: beaten %t, front %v", i, cells[i], beaten, front)
			}
		}
	})
}

// TestStaircase: the line runs parallel to the axes through every cell of the front, and every
// point on it is attained: some cell is at least as good.
func TestStaircase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := cloud(t)
		d := &Data{MinimizeX: rapid.Bool().Draw(t, "minimize x"), MaximumY: rapid.Bool().Draw(t, "maximize y")}
		var front []Cell
		for _, i := range d.front(cells, all(len(cells)), false) {
			front = append(front, cells[i])
		}
		line := d.staircase(front)
		for i, at := range line {
			if i > 0 && at[0] != line[i-1][0] && at[1] != line[i-1][1] {
				t.Fatalf("from %v to %v", line[i-1], at)
			}
			corner := Cell{XValue: at[0], Samples: []float64{at[1]}}
			if !slices.ContainsFunc(cells, func(c Cell) bool { return d.atLeast(&c, &corner, false) }) {
				t.Fatalf("nothing reaches %v of %v", at, line)
			}
		}
		for _, c := range front {
			if !slices.Contains(line, [2]float64{c.XValue, c.Mean()}) {
				t.Fatalf("%v is not on %v", c, line)
			}
		}
	})
}

// space is a table of three goals, of which memory is a key: throughput grows with memory and, at
// the expense of latency, with the batch.
func space(t testing.TB) *tables.Table {
	var b strings.Builder
	b.WriteString("point,node.memory_capacity_bytes,scheduler.batch,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms\n")
	for _, tib := range []int{1, 2, 3, 4, 6, 8} {
		for batch := 1; batch <= 8; batch++ {
			for seed := 1; seed <= 2; seed++ {
				v := min(20*tib, 10*batch)
				fmt.Fprintf(&b, "m%db%d,%d,%d,%d,done,,x,%d,%d\n", tib, batch, tib<<40, batch, seed, v+seed, 50+batch*batch+seed)
			}
		}
	}
	b.WriteString("broken,1,1,1,failed,no room,x,,\n")
	path := filepath.Join(t.TempDir(), "results.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	table, err := tables.ReadTable(path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestGoals: goals name the axes and their directions; the third becomes levels, the strictest
// first, and every cell is on the right side of its level.
func TestGoals(t *testing.T) {
	table := space(t)
	d, err := Select(table, Selection{Kind: "pareto", Goals: "max output_tokens_per_s, min tbt_p99_ms, min memory_capacity"})
	if err != nil {
		t.Fatal(err)
	}
	if d.Y != "output_tokens_per_s" || d.X != "tbt_p99_ms" || d.Z != "node.memory_capacity_bytes" || !d.MinimizeX || !d.MaximumY || d.MaximizeZ {
		t.Errorf("%+v", d)
	}
	if got := strings.Join(list.Map(d.GroupNames, tables.Value.String), "; "); got != "up to 2 TiB; up to 3 TiB; up to 6 TiB; up to 8 TiB" {
		t.Errorf("levels %s", got)
	}
	if len(d.Cells) != 48 { // 6 memories × 8 batches, seeds averaged
		t.Errorf("%d cells", len(d.Cells))
	}
	limits := []float64{2, 3, 6, 8}
	for _, c := range d.Cells {
		tib := c.ZValue / (1 << 40)
		if tib > limits[c.Group] || c.Group > 0 && tib <= limits[c.Group-1] || len(c.Samples) != 2 {
			t.Errorf("%+v", c)
		}
	}
	if d, err = Select(table, Selection{Kind: "pareto", Goals: "min output_tokens_per_s, max tbt_p99_ms, max batch", Where: []string{"memory_capacity=1099511627776"}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(list.Map(d.GroupNames, tables.Value.String), "; "); d.MinimizeX || d.MaximumY || got != "from 7; from 5; from 3; from 1" {
		t.Errorf("%s, %+v", got, d)
	}
	// A key may be an axis, with many points at one of its values.
	if d, err = Select(table, Selection{Kind: "pareto", Goals: "max output_tokens_per_s, min memory_capacity"}); err != nil || len(d.Cells) != 48 {
		t.Errorf("%v", err)
	}
}

func TestGoalsRefused(t *testing.T) {
	for _, c := range []struct {
		selection Selection
		want      string
	}{
		{Selection{Kind: "line", Goals: "max output_tokens_per_s, min tbt_p99_ms"}, "--kind pareto with it"},
		{Selection{Kind: "pareto", X: "batch", Goals: "max output_tokens_per_s, min tbt_p99_ms"}, "--x = batch: expected either the axes or --goals"},
		{Selection{Kind: "pareto", Y: "batch", Goals: "max output_tokens_per_s, min tbt_p99_ms"}, "--y = batch: expected either the axes or --goals"},
		{Selection{Kind: "pareto", Z: "batch", Goals: "max output_tokens_per_s, min tbt_p99_ms"}, "--z = batch: expected either the axes or --goals"},
		{Selection{Kind: "pareto", Goals: "max output_tokens_per_s"}, "expected two or three goals"},
		{Selection{Kind: "pareto", Goals: "max output_token_per_s, min tbt_p99_ms"}, `did you mean "output_tokens_per_s"?`},
		{Selection{Kind: "pareto", Goals: "max output_tokens_per_s, min tbt_p99_ms, min batch", Group: "memory_capacity"}, "no group with a third goal"},
	} {
		if _, err := Select(space(t), c.selection); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v:\ngot  %v\nwant %s", c.selection, err, c.want)
		}
	}
}

// TestLeftOut: if one seed of a point failed or has no latency, the other seed is not drawn either,
// so that the figure has the same points as Explore.
func TestLeftOut(t *testing.T) {
	for _, goals := range []string{"max output_tokens_per_s, min tbt_p99_ms", "max output_tokens_per_s, min batch, min memory_capacity"} {
		table := space(t)
		column := func(name string) int { return slices.Index(table.Columns, name) }
		fail := table.Rows[4]
		fail[column("status")], fail[column("output_tokens_per_s")], fail[column("tbt_p99_ms")] = tables.Of("failed"), tables.Value{}, tables.Value{}
		table.Rows[9][column("output_tokens_per_s")] = tables.Value{}
		d, err := Select(table, Selection{Kind: "pareto", Goals: goals})
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := table.ParseGoals("--goals", goals)
		if err != nil {
			t.Fatal(err)
		}
		e, err := tables.Explore(table, parsed)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Cells) != 46 || e.Points != 46 || d.Failed != 2 || e.Failed != 2 || d.Incomplete != 1 || e.Incomplete != 1 {
			t.Errorf("%s: %d cells, %d failed, %d incomplete; explore has %d, %d, %d", goals, len(d.Cells), d.Failed, d.Incomplete, e.Points, e.Failed, e.Incomplete)
		}
		for _, c := range d.Cells {
			if len(c.Samples) != 2 {
				t.Errorf("%+v", c)
			}
		}
		if got := d.LeftOut(); got != "points left out: 2 that failed, 1 without a number for each goal" {
			t.Errorf("%q", got)
		}
	}
	d, err := Select(space(t), Selection{Kind: "scatter", X: "tbt_p99_ms", Y: "output_tokens_per_s"})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.LeftOut(); got != "" {
		t.Errorf("a scatter: %q", got)
	}
}

// TestLogarithmicAxes: a Pareto front or a scatter over a factor of 16 or more has a logarithmic
// axis with ticks at powers of ten, even if an error bar reaches below zero; not with a zero, a
// smaller range, or most values away from the low end.
func TestLogarithmicAxes(t *testing.T) {
	cells := func(points ...float64) []Cell {
		var c []Cell
		for i := 0; i < len(points); i += 2 {
			c = append(c, Cell{XValue: points[i], XStd: 0.8 * points[i], Samples: []float64{points[i+1] * 0.1, points[i+1] * 1.9}})
		}
		return c
	}
	for _, c := range []struct {
		cells      []Cell
		kind       string
		logX, logY bool
	}{
		{cells(1, 10, 101, 20), "pareto", true, false},
		{cells(7, 0.001, 99, 20), "pareto", false, true},
		{cells(1, 10, 4, 12, 16, 14), "pareto", true, false},
		{cells(1, 10, 4, 12, 15.9, 14), "pareto", false, false},
		{cells(1, 10, 5, 12, 16, 14), "pareto", false, false},
		{cells(0.5, 1e3, 500, 1e9), "pareto", true, true},
		{cells(0, 0, 500, 1e9), "pareto", false, false},
		{cells(-1, -1e9, 500, -1), "pareto", false, false},
		{cells(0.5, 1e3, 500, 1e9), "scatter", true, true},
		{cells(0.5, 1e3, 500, 1e9), "line", true, false},
	} {
		d := &Data{kind: kindNamed(c.kind), X: "tbt_p99_ms", Y: "kv_peak_bytes", XNumeric: true, GroupNames: []tables.Value{{}}, Facets: []tables.Value{{}}, Cells: c.cells}
		a := newAxes(d)
		if a.logX != c.logX || a.logY != c.logY {
			t.Errorf("%+v: logarithmic x %t, y %t", c.cells, a.logX, a.logY)
		}
		if a.logX && a.xMin <= 0 || a.logY && a.yMin <= 0 {
			t.Errorf("from %g and %g", a.xMin, a.yMin)
		}
		p := newFrame(d, "").plot(0, a)
		if drawn, want := [4]float64{p.X.Min, p.X.Max, p.Y.Min, p.Y.Max}, [4]float64{onAxis(a.xMin, c.logX), onAxis(a.xMax, c.logX), onAxis(a.yMin, c.logY), onAxis(a.yMax, c.logY)}; drawn != want {
			t.Errorf("%+v: drawn on %v, want %v", c.cells, drawn, want)
		}
		var b bytes.Buffer
		if err := d.Write(&b, "svg", ""); err != nil {
			t.Error(err)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%+v: a position that is no number", c.cells)
		}
	}
	var labels []string
	for _, tick := range (ticker{scale: scale{size: 1000}, logarithmic: true}).Ticks(math.Log10(900), math.Log10(2e6)) {
		if tick.Label != "" {
			labels = append(labels, tick.Label)
		} else if tick.Value < math.Log10(900) || tick.Value > math.Log10(2e6) {
			t.Errorf("a tick at %g", tick.Value)
		}
	}
	if got := strings.Join(labels, " "); got != "1 10 100 1,000" {
		t.Errorf("ticks %s", got)
	}
	if at := (ticker{scale: scale{size: 1}, logarithmic: true}).Ticks(-20, 20); len(at) > maxTicks+1 || len(at) < 5 || at[0].Label == "" {
		t.Errorf("%d ticks: %v", len(at), at)
	}
}

// TestThreeGoalsDrawn: all levels have their colours, legend and axes are labelled, and the bytes
// are the same twice.
func TestThreeGoalsDrawn(t *testing.T) {
	d, err := Select(space(t), Selection{Kind: "pareto", Goals: "max output_tokens_per_s, min tbt_p99_ms, min memory_capacity"})
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		if err := d.Write(w, "svg", ""); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("other bytes the second time")
	}
	for _, want := range []string{"memory capacity:", "up to 2 TiB", "up to 8 TiB", "time between tokens, 99th percentile (ms), less is better", "throughput (output tokens/s), more is better"} {
		if !strings.Contains(a.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	a.Reset()
	if err := d.Write(&a, "png", ""); err != nil {
		t.Fatal(err)
	}
	checkPNG(t, "pareto", &a)
}
