package figure

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

// TestNewKind draws a kind that is only one entry of the list: it gets its cells, its axes, a legend and a table.
func TestNewKind(t *testing.T) {
	t.Parallel()
	drawn := 0
	dots := &kind{name: "dots", needs: []string{"--y"}, numeric: true, thumb: markerThumb, draw: func(of *panel) plot.Plotter {
		drawn++
		return newPoints(of)
	}}
	d, err := dots.dataOf(sample(t), Selection{X: "ranksets", Y: "tbt_mean_ms", Group: "channels"})
	if err != nil {
		t.Fatal(err)
	}
	var svg bytes.Buffer
	if err := d.Write(&svg, "svg", "Dots"); err != nil || drawn != 1 || !strings.Contains(svg.String(), "Dots") {
		t.Errorf("%d panels (%v)", drawn, err)
	}
	if columns := d.Table().Columns; !slices.Contains(columns, "tbt_mean_ms") {
		t.Errorf("columns %v", columns)
	}
	if _, err := dots.dataOf(sample(t), Selection{X: "ranksets"}); err == nil || !strings.Contains(err.Error(), "--y: expected a column, which --kind dots needs") {
		t.Errorf("without y: %v", err)
	}
}

// TestKindsAreComplete: each entry can be drawn, and does not refuse what it needs.
func TestKindsAreComplete(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		if kindNamed(k.name) != k || k.draw == nil {
			t.Errorf("%s: another kind has its name, or it cannot be drawn", k.name)
		}
		for _, flag := range k.needs {
			if _, refused := k.refuses[flag]; refused {
				t.Errorf("%s needs and refuses %s", k.name, flag)
			}
		}
		if _, grouped := k.refuses["--group"]; grouped == (k.thumb != nil) {
			t.Errorf("%s takes groups without a sample in the legend, or has one without groups", k.name)
		}
	}
}
