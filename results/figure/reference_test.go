package figure

import (
	"math"
	"strings"
	"testing"
)

// TestRefer: a reference is its factor times the figure's own number, extends the axis, and has an
// entry in the legend; one that matches nothing in the figure is an error.
func TestRefer(t *testing.T) {
	d, err := Select(sample(t), Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "channels"})
	if err != nil {
		t.Fatal(err)
	}
	top := newAxes(d).yMax
	if err := d.Refer("theirs", Reference{Group: "16", X: "64", Base: "8", Factor: 3}, Reference{Group: "8", X: "4", Base: "8", BaseX: "2", Factor: 2}, Reference{Group: "8", Factor: 50}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{3 * 5121.5, 2 * 161.5, 50} {
		if got := d.references[i].y; math.Abs(got-want) > 1e-9 {
			t.Errorf("reference %d is at %g, not %g", i, got, want)
		}
	}
	if got := newAxes(d).yMax; got <= top || got < 3*5121.5 {
		t.Errorf("the axis ends at %g", got)
	}
	var svg strings.Builder
	if err := d.Write(&svg, "svg", ""); err != nil || strings.Count(svg.String(), ">theirs<") != 1 {
		t.Errorf("no entry in the legend: %v", err)
	}
	for _, r := range []Reference{{Group: "32", X: "64", Base: "8"}, {Group: "8", X: "3", Base: "8"}, {Group: "8", X: "4", Base: "9"}, {Group: "32"}, {Facet: "x", Group: "8", X: "4", Base: "8"}} {
		if d.Refer("theirs", r) == nil {
			t.Errorf("%+v is in the figure", r)
		}
	}
}

// TestLegendOfReferences: references have one entry after the groups, however many there are.
func TestLegendOfReferences(t *testing.T) {
	for n := range 3 {
		d, err := Select(sample(t), Selection{Kind: "line", X: "ranksets", Y: "output_tokens_per_s", Group: "channels"})
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := d.Refer("theirs", Reference{Group: "8", X: "4", Base: "8", Factor: 2}); err != nil {
				t.Fatal(err)
			}
		}
		labels := newLegend(d).labels
		if want := len(d.GroupNames) + min(n, 1); len(labels) != want || n > 0 && labels[want-1] != "theirs" {
			t.Errorf("%d references: %q", n, labels)
		}
	}
}

// TestAxisOfShares: a utilization's axis ends above 1, unless the figure shows it relative to another.
func TestAxisOfShares(t *testing.T) {
	for base, want := range map[string]float64{"": 1.02, "run.system=l3": 0.9 * 1.06} {
		d := &Data{kind: kindNamed("line"), Y: "utilization_gpu", NormalizedTo: base, Cells: []Cell{{Samples: []float64{0.9}}}}
		if got := newAxes(d).yMax; math.Abs(got-want) > 1e-12 {
			t.Errorf("relative to %q the axis ends at %v, by hand %v", base, got, want)
		}
	}
}
