package figure

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/l3sim/l3sim/results/tables"
	"pgregory.net/rapid"
)

// TestSystemsKeepTheirStyle: a system looks alike in every figure, and other groups take its colour
// only if no other is free.
func TestSystemsKeepTheirStyle(t *testing.T) {
	for i, name := range systems {
		for _, names := range [][]string{{name}, {"naive", name}, {name, "naive"}, append(slices.Clone(systems), "x", "y", "z"), {"GPU-only", name}} {
			at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
			if got := stylesOf(names); got[at] != i {
				t.Errorf("%s in %v has style %d, not %d", name, names, got[at], i)
			}
		}
	}
	if got := fmt.Sprint(stylesOf([]string{"a", "l3, h100-sxm", "b", "gpu-only", "L3 KV8", "gpu-onlyx"})); got != "[1 4 2 0 12 3]" {
		t.Errorf("parts of a system: %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(append(strings.Fields("a b c d e f g h i j k m n o p q r s t u"), systems...)), 1, MaxGroups, rapid.ID).Draw(t, "names")
		styles := stylesOf(names)
		for i := range styles {
			for k := range i {
				if styles[i] == styles[k] {
					t.Fatalf("%s and %s have style %d", names[i], names[k], styles[i])
				}
				if len(names) <= len(palette) && styles[i]%len(palette) == styles[k]%len(palette) {
					t.Fatalf("%s and %s have one colour", names[i], names[k])
				}
			}
		}
	})
}

// TestWidth: on paper a figure has its journal's width, and no text is below 7 points.
func TestWidth(t *testing.T) {
	for name, mm := range map[string]float64{"single": 84, "double": 174} {
		for _, facet := range []string{"", "channels"} {
			s := Selection{Kind: "bar", X: "ranksets", Y: "output_tokens_per_s", Group: "channels", Facet: facet}
			if facet != "" {
				s.Group = ""
			}
			d, err := Select(sample(t), s)
			if err != nil {
				t.Fatal(err)
			}
			if d.Width, err = Width("--width", name); err != nil || d.Width != mm {
				t.Fatalf("%s: %g mm, %v", name, d.Width, err)
			}
			var svg, picture bytes.Buffer
			if err := d.Write(&svg, "svg", "A title"); err != nil {
				t.Fatal(err)
			}
			if err := d.Write(&picture, "png", "A title"); err != nil {
				t.Fatal(err)
			}
			if c, err := png.DecodeConfig(&picture); err != nil || math.Abs(float64(c.Width)-mm/25.4*pngDPI) > 1 {
				t.Errorf("%s: %d points, %v", name, c.Width, err)
			}
			sizes := regexp.MustCompile(`font-size:([0-9.]+)`).FindAllStringSubmatch(svg.String(), -1)
			for _, size := range sizes {
				if size[1] < "7" && len(size[1]) == 1 {
					t.Errorf("%s: a text of %s points", name, size[1])
				}
			}
			if len(sizes) < 10 {
				t.Errorf("%s: %d texts", name, len(sizes))
			}
		}
	}
	if _, err := Width("--width", "triple"); err == nil {
		t.Error("a width that no journal has")
	}
}

// TestFacetsShareTitles: the title of the y axis is drawn once, beside the first plot of a row.
func TestFacetsShareTitles(t *testing.T) {
	d, err := Select(sample(t), Selection{Kind: "bar", X: "ranksets", Y: "tbt_p99_ms", Facet: "channels"})
	if err != nil {
		t.Fatal(err)
	}
	var svg strings.Builder
	if err := d.Write(&svg, "svg", ""); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{">99th percentile (ms)<": 1, ">ranksets<": 2, ">channels = 16<": 1, ">64<": 2} {
		if got := strings.Count(svg.String(), text); got != want {
			t.Errorf("%s stands %d times, not %d", text, got, want)
		}
	}
}

func TestAxisTitles(t *testing.T) {
	for column, want := range map[string]string{
		"tbt_p99_ms": "time between tokens, 99th percentile (ms)", "tbt_p50_ms": "time between tokens, median (ms)", "point": "design", "node.ranksets": "ranksets",
		"attention_attended_tokens_mean": "attended tokens, mean", "decode_batch_step_mean": "requests in a decode step, mean",
	} {
		if got := axisTitle(column); got != want {
			t.Errorf("%s: %q, not %q", column, got, want)
		}
	}
	if s := newScale("utilization_gpu", 0.9); s.label != "GPU utilization (%)" || s.tick(0.25) != "25" {
		t.Errorf("%q, %q", s.label, s.tick(0.25))
	}
	if got := inTwoLines("throughput relative to gpu-only"); got != "throughput relative\nto gpu-only" {
		t.Errorf("%q", got)
	}
	d := &Data{kind: kindNamed("line"), Y: "utilization_gpu", Cells: []Cell{{Samples: []float64{0.6}}}}
	if a := newAxes(d); a.yMin != 0 || a.yMax < 1 || a.yMax > 1.05 {
		t.Errorf("utilization from %g to %g", a.yMin, a.yMax)
	}
}

// TestErrorBarsDodge: at one x, groups of a line with error bars are side by side.
func TestErrorBarsDodge(t *testing.T) {
	cells := []Cell{{Group: 0, XValue: 1, Samples: []float64{1, 2}}, {Group: 1, XValue: 1, Samples: []float64{1, 2}}, {Group: 0, XValue: 3, Samples: []float64{4, 4}}}
	d := &Data{kind: kindNamed("line"), XNumeric: true, GroupNames: []tables.Value{tables.Of("a"), tables.Of("b")}, Cells: cells}
	apart := func(scale vg.Length) vg.Length {
		x := func(v float64) vg.Length { return scale * vg.Length(v) }
		return d.aside(1, x) - d.aside(0, x)
	}
	if got := apart(100); got != 5 {
		t.Errorf("%g points apart", got)
	}
	if got := apart(4); got != 2 {
		t.Errorf("%g points apart where the next x is 8 points away", got)
	}
	for i := range cells {
		cells[i].Samples = cells[i].Samples[:1]
	}
	if got := apart(1); got != 0 {
		t.Errorf("%g points apart without error bars", got)
	}
}

// TestFewMarkers: a line through many points has markers at some of them; a single line has none.
func TestFewMarkers(t *testing.T) {
	for groups, want := range map[int][2]int{1: {0, 0}, 2: {10, 16}} {
		d := &Data{kind: kindNamed("line"), X: "time_s", Y: "y", XNumeric: true, GroupNames: []tables.Value{tables.Of("a"), tables.Of("b")}[:groups], Facets: []tables.Value{{}}}
		for g := range groups {
			for i := range 100 {
				d.Cells = append(d.Cells, Cell{Group: g, X: i, XValue: float64(i), Samples: []float64{float64(i)}})
				d.XNames = append(d.XNames, tables.Of(i))
			}
		}
		var svg strings.Builder
		if err := d.Write(&svg, "svg", ""); err != nil {
			t.Fatal(err)
		}
		filled := regexp.MustCompile(`fill:#(0072B2|E69F00)`).FindAllString(svg.String(), -1)
		if len(filled) < want[0] || len(filled) > want[1] {
			t.Errorf("%d groups: %d markers", groups, len(filled))
		}
	}
}
