package figure

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// built is a table of designs; boards says which have too many DIMMs, and watts what each DIMM draws of 10 W.
func built(boards func(system string, ranks int) bool, watts func(system string) float64) *tables.Table {
	t := &tables.Table{Columns: []string{tables.PointColumn, "run.system", "node.ranksets", tables.SeedColumn, tables.StatusColumn,
		"output_tokens_per_s", "tbt_p99_ms", "beyond_boards", "dimm_peak_w", "dimm_limit_w"}}
	for _, system := range []string{"gpu-only", "l3"} {
		for i, ranks := range []int{2, 4, 8} {
			speed := float64(100*(i+1) + len(system))
			t.Add("system="+system+",ranksets="+string(rune('0'+ranks)), system, ranks, 1, tables.StatusDone, speed, 1000/speed, boards(system, ranks), watts(system), 10.0)
		}
	}
	return t
}

// TestMarks: a sign that applies to all runs is below the figure only, to a whole group or x behind its name, and else beside the
// cell. Every kind of figure that can shows it.
func TestMarks(t *testing.T) {
	eight := func(_ string, ranks int) bool { return ranks == 8 }
	of := func(system string) float64 { return map[string]float64{"gpu-only": 0, "l3": 15}[system] }
	for _, c := range []struct {
		kind                   Selection
		table                  *tables.Table
		labels, cells, all, xs string
		legend                 []string
	}{
		{Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "system"}, built(eight, of), "GPUs alone L3 ‡", "††", "", "",
			[]string{"† more DIMMs", "‡ a DIMM draws"}},
		{Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "system"}, built(eight, of), "GPUs alone L3 ‡", "", "", " †", []string{"† more DIMMs", "‡ a DIMM draws"}},
		{Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "system"},
			built(func(system string, ranks int) bool { return system == "l3" && ranks > 2 }, func(string) float64 { return 12 }), "GPUs alone L3", "††", "", "", []string{"all: ‡ a DIMM draws", "† more DIMMs"}},
		{Selection{Kind: "heatmap", X: "ranksets", Y: "system", Z: "tbt_p99_ms"}, built(eight, of), "", "‡‡††‡", "", "", []string{"† more DIMMs", "‡ a DIMM draws"}},
		{Selection{Kind: "cdf", X: "tbt_p99_ms", Group: "system"}, built(func(string, int) bool { return false }, of), "GPUs alone L3 ‡", "", "", "", []string{"‡ a DIMM draws"}},
		{Selection{Kind: "pareto", Goals: "max output_tokens_per_s, min tbt_p99_ms"}, built(eight, of), "", "††‡‡‡", "", "", []string{"† more DIMMs", "‡ a DIMM draws"}},
		{Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "system"}, built(func(string, int) bool { return false }, func(string) float64 { return 10 }), "GPUs alone L3", "", "", "", nil},
	} {
		d, err := Select(c.table, c.kind)
		if err != nil {
			t.Fatal(err)
		}
		labels := ""
		if l := newLegend(d); l != nil {
			labels = strings.Join(l.labels, " ")
		}
		signs := strings.Split(strings.Join(list.Map(d.Cells, func(c Cell) string { return c.sign }), ""), "")
		slices.Sort(signs)
		want := strings.Split(c.cells, "")
		slices.Sort(want)
		xs := ""
		for i := range d.XNames {
			xs += sign(d.marks.xs, i)
		}
		if labels != c.labels || !slices.Equal(signs, want) || xs != c.xs {
			t.Errorf("%s: labels %q, cells %q, x %q", c.kind.Kind, labels, signs, xs)
		}
		f := newFrame(d, "")
		var notes []string
		for _, n := range f.notes() {
			if strings.ContainsAny(n, "†‡×") {
				notes = append(notes, n)
			}
		}
		if !slices.EqualFunc(notes, c.legend, strings.HasPrefix) {
			t.Errorf("%s: notes %q", c.kind.Kind, notes)
		}
		var svg bytes.Buffer
		if err := d.Write(&svg, "svg", ""); err != nil || strings.Contains(svg.String(), "†") != strings.Contains(strings.Join(c.legend, ""), "†") {
			t.Errorf("%s: %v", c.kind.Kind, err)
		}
	}
}

// TestMarkedTable: in tables for people the numbers have signs; one that applies to all runs is
// stated once.
func TestMarkedTable(t *testing.T) {
	d, err := Select(built(func(_ string, ranks int) bool { return ranks == 8 }, func(string) float64 { return 15 }),
		Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "system"})
	if err != nil {
		t.Fatal(err)
	}
	marked, legend := d.Marked()
	if got := marked.Rows[2][2].String(); got != "308 †" || !strings.HasPrefix(legend, "all: ‡") || !strings.Contains(legend, "\n† ") {
		t.Errorf("%q, %q", got, legend)
	}
	if got := d.Table().Rows[2][2].String(); got != "308" {
		t.Errorf("for programs %q", got)
	}
}

// TestAbsentBar: a missing bar has a mark, unless its x has no bars at all.
func TestAbsentBar(t *testing.T) {
	table := built(func(string, int) bool { return false }, func(string) float64 { return 0 })
	table.Rows[4][5] = tables.Value{} // l3 with 4 ranksets has no result
	s := Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "system"}
	d, err := Select(table, s)
	if err != nil {
		t.Fatal(err)
	}
	absent := d.absent()
	if len(absent) != 1 || d.GroupNames[absent[0].Group].String() != "l3" || d.XNames[absent[0].X].String() != "4" {
		t.Errorf("%+v", absent)
	}
	var svg bytes.Buffer
	if err := d.Write(&svg, "svg", ""); err != nil || !strings.Contains(svg.String(), absentNote) {
		t.Error("no note", err)
	}
	for _, r := range []int{1, 4} {
		table.Rows[r][5] = tables.Value{}
	}
	if d, err = Select(table, s); err != nil || len(d.absent()) != 0 {
		t.Errorf("%v, %v", d.absent(), err)
	}
}

// TestUnity: values relative to a baseline have a line at 1 if it is on the axis.
func TestUnity(t *testing.T) {
	table := built(func(string, int) bool { return false }, func(string) float64 { return 0 })
	for _, c := range []struct {
		s    Selection
		want bool
	}{
		{Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "system", NormalizeTo: "system=gpu-only"}, true},
		{Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "system", NormalizeTo: "system=gpu-only"}, true},
		{Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "system"}, false},
		{Selection{Kind: "heatmap", X: "ranksets", Y: "system", Z: "output_tokens_per_s", NormalizeTo: "system=gpu-only"}, false},
	} {
		d, err := Select(table, c.s)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.hasUnity(newAxes(d)); got != c.want {
			t.Errorf("%+v: %v", c.s, got)
		}
	}
}

// TestNamedPoints: the best points of a cloud have names, or numbers that the notes explain if names are long; not if the groups
// are the designs, nor if the better direction is unknown.
func TestNamedPoints(t *testing.T) {
	table := built(func(string, int) bool { return false }, func(string) float64 { return 0 })
	names := func(s Selection) string {
		d, err := Select(table, s)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(list.Map(d.tagged(), tables.Value.String), " ")
	}
	goals := "max output_tokens_per_s, min tbt_p99_ms"
	if got := names(Selection{Kind: "pareto", Goals: goals}); got != "system=gpu-only,ranksets=8" {
		t.Errorf("%q", got)
	}
	if got := names(Selection{Kind: "scatter", Y: "output_tokens_per_s", X: "tbt_p99_ms", Group: "system"}); got != "ranksets=8" {
		t.Errorf("%q", got)
	}
	if got := names(Selection{Kind: "scatter", Y: "output_tokens_per_s", X: "dimm_limit_w", Facet: "system"}); got != "" {
		t.Errorf("%q", got)
	}
	if got := names(Selection{Kind: "pareto", Goals: goals, Group: tables.PointColumn}); got != "" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", 60)
	for i := range table.Rows {
		table.Rows[i][0] = tables.Of(long + table.Rows[i][0].String())
	}
	d, err := Select(table, Selection{Kind: "pareto", Goals: goals})
	if err != nil {
		t.Fatal(err)
	}
	if notes := newFrame(d, "").notes(); len(notes) == 0 || !strings.HasPrefix(notes[0], "#3: "+long) {
		t.Errorf("%q", notes)
	}
}
