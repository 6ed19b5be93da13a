package whole

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "lower the bars of testdata/bars.json to what the errors are")

// TestGate: the median error of each group of servers in testdata is at most its bar, which only falls.
func TestGate(t *testing.T) {
	const step = 0.0005 // half of the last digit shown
	rows, err := Read("testdata/servers.csv")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Judge(context.Background(), "servers.csv", rows, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/bars.json")
	if err != nil {
		t.Fatal(err)
	}
	bars, seen := map[string]float64{}, 0
	if err := json.Unmarshal(text, &bars); err != nil {
		t.Fatal(err)
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		name := g.Model + ", " + g.GPU + ", " + g.Framework + ", " + g.Parallelism
		bar, there := bars[name]
		if seen++; !there && !*update {
			t.Errorf("%s: no bar; -update writes one of %.4f", name, g.Median)
		} else if there && g.Median > bar+step {
			t.Errorf("%s: median error %.4f, the best recorded %.4f", name, g.Median, bar)
		}
		if *update && (!there || g.Median < bar) {
			bars[name] = g.Median
		}
	}
	if r.Judged != len(rows) || seen < len(bars) {
		t.Errorf("%d of %d rows judged, %d groups of %d", r.Judged, len(rows), seen, len(bars))
	}
	if *update {
		if text, err = json.MarshalIndent(bars, "", "  "); err == nil {
			err = os.WriteFile("testdata/bars.json", append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
