package figure

import (
	"image/color"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// TestBlendByHand: mixed colours lie between the two, in each component.
func TestBlendByHand(t *testing.T) {
	a, b := color.RGBA{200, 0, 40, 255}, color.RGBA{100, 100, 240, 9}
	for share, want := range map[float64]color.RGBA{0: {200, 0, 40, 255}, 1: {100, 100, 240, 255}, 0.25: {175, 25, 90, 255}} {
		if got := blend(a, b, share); got != want {
			t.Errorf("%v of the second: %v, want %v", share, got, want)
		}
	}
	// A fifth of the colour and four fifths of white: 255 − 0.2·(255 − 200).
	if got, want := tint(a, 0.2), (color.RGBA{244, 204, 212, 255}); got != want {
		t.Errorf("a tint is %v, want %v", got, want)
	}
}

// TestTableByHand: a figure's table of its cells: positions by name; a metric on x has its mean if seeds differ; if any cell has several
// samples, their deviation and number. A CDF has each step, a heat map both positions.
func TestTableByHand(t *testing.T) {
	names := func(texts ...string) (all []tables.Value) {
		for _, text := range texts {
			all = append(all, tables.Of(text))
		}
		return all
	}
	d := &Data{kind: kindNamed("line"), X: "n", Y: "ms", Group: "system", Facet: "model", XNumeric: true, marks: &marks{},
		XNames: []tables.Value{tables.Of(1), tables.Of(2)}, GroupNames: names("l3", "gpu"), Facets: names("opt", "gpt"),
		Cells: []Cell{{Facet: 1, Group: 0, X: 1, Y: -1, XValue: 2.5, XStd: 0.5, Samples: []float64{3, 5}}, {Facet: 0, Group: 1, X: 0, Y: -1, XValue: 1, Samples: []float64{7}}}}
	check := func(what, want string) {
		t.Helper()
		var text strings.Builder
		if err := d.Table().WriteCSV(&text); err != nil || text.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", what, err, text.String(), want)
		}
	}
	check("a line", "model,system,n,ms,std,n\ngpt,l3,2.5,4,1.41421,2\nopt,gpu,1,7,0,1\n")
	d.XNumeric = false
	check("without numbers on x", "model,system,n,ms,std,n\ngpt,l3,2,4,1.41421,2\nopt,gpu,1,7,0,1\n")
	d.Cells[0].Samples, d.NormalizedTo = []float64{4}, "system=gpu"
	check("one sample each", "model,system,n,ms / system=gpu\ngpt,l3,2,4\nopt,gpu,1,7\n")
	d.kind, d.NormalizedTo, d.Facet = kindNamed("heatmap"), "", ""
	d.Z, d.YNames = "tokens", names("low", "high")
	d.Cells[0].Y, d.Cells[1].Y = 1, 0
	check("a heat map", "system,n,ms,tokens\nl3,2,high,4\ngpu,1,low,7\n")
	d.kind, d.Group, d.Facet = kindNamed("cdf"), "system", ""
	d.Cells = []Cell{{Group: 1, Y: -1, Samples: []float64{1, 2, 8, 9}}}
	check("a CDF", "system,n,ms\ngpu,1,0.25\ngpu,2,0.5\ngpu,8,0.75\ngpu,9,1\n")
}
