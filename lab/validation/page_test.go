package validation

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

var update = flag.Bool("update", false, "write lab/docs/validation.md, its figure and the recorded errors")

const (
	page     = "../docs/validation.md"
	picture  = "../docs/figures/validation.png"
	recorded = "testdata/errors.json"
)

// TestAnchors: no anchor's error is above the best recorded, none has lost rows, and the page
// says what is true now. A quick run has the anchors of memory alone.
func TestAnchors(t *testing.T) {
	anchors, quick := []anchor(nil), !deep.On() && !*update
	if quick {
		anchors = memory(t)
	} else {
		anchors = all(t)
	}
	now := map[string]errors{}
	for i := range anchors {
		a := &anchors[i]
		name := a.group + ": " + a.name
		if _, twice := now[name]; twice {
			t.Fatalf("two anchors are called %q", name)
		}
		now[name] = a.errors()
	}
	text := write(anchors)
	var before map[string]errors
	b, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &before); err != nil {
		t.Fatal(err)
	}
	raised, wrong := raises(t), []string(nil)
	for _, r := range raised {
		if _, there := before[r.anchor]; !there {
			t.Errorf("%s names %s, which is no anchor", raisedFile, r.anchor)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		b := before[name]
		n, there := now[name]
		switch {
		case !there && !quick && !*update:
			t.Errorf("%s: is gone; -update if that is meant", name)
		case there && n.Rows < b.Rows && !*update:
			t.Errorf("%s: %d rows, %d before", name, n.Rows, b.Rows)
		case there:
			next, faults := ratchet(name, b, n, raised)
			now[name], wrong = next, append(wrong, faults...)
		}
	}
	for _, w := range wrong {
		t.Error(w)
	}
	if *update {
		if len(wrong) == 0 {
			record(t, now, text, anchors)
		}
		return
	}
	if quick {
		return
	}
	if have, err := os.ReadFile(page); err != nil || string(have) != text {
		t.Errorf("%s is not what the simulator gives now (%v): go test ./validation -update", page, err)
	}
}

// TestErrors: the statistics by hand.
func TestErrors(t *testing.T) {
	a := anchor{pairs: []pair{{"a", 1, 1.1}, {"b", 2, 1.6}, {"c", 4, 4}, {"d", 1, 1.3}}}
	e := a.errors()
	for what, c := range map[string][2]float64{"mean": {e.Mean, 0.15}, "median": {e.Median, 0.1}, "p90": {e.P90, 0.3}, "bias": {e.Bias, 0.05}} {
		if d := c[0] - c[1]; d > 1e-12 || d < -1e-12 {
			t.Errorf("%s: %v, want %v", what, c[0], c[1])
		}
	}
	if e.worst.what != "d" || e.Rows != 4 {
		t.Errorf("worst %q of %d rows", e.worst.what, e.Rows)
	}
}

func record(t *testing.T, now map[string]errors, text string, anchors []anchor) {
	t.Helper()
	b, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{recorded: append(b, '\n'), page: []byte(text), picture: draw(t, anchors)} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const head = `# Validation

Every set of measurements that the simulator is compared with, and how far it is off. This page is written by
` + "`go test ./validation -update`" + `; without the flag the same test fails where an anchor's error
is above the best recorded: a bar falls by itself, and rises with a reason in lab/validation/testdata/raised.tsv alone.

Errors are predicted over measured, less one. **Seen** says what the parameters have seen: *fitted* anchors determine parameters of the GPU
presets (in configs/gpus each such parameter says "fit"), *held out* ones determine none, ones *in part* the power and its limit alone. In services two constants for each
framework and GPU (a step, a sequence) are fitted to every fifth row, and these rows are left out here. [model-gpu.md](model-gpu.md) has the
formulas, the number of parameters, and errors with whole models and shapes left out; [services.md](services.md) the services, [dram.md](../../docs/reference/dram.md) the DRAM
traces that are too large to travel with the project.

![Predicted over measured of every anchor](figures/validation.png)

What is not validated: the units in memory (no such DIMM can be bought; [model-dimm.md](model-dimm.md) has their closed forms), ` + "`rtx-a6000`" + `, the
power of the A100, mixtures of experts, and all-reduces of the H100 (the H200's).
`

// write returns the page.
func write(anchors []anchor) string {
	var b strings.Builder
	b.WriteString(head)
	group := ""
	percent := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) }
	for i := range anchors {
		a := &anchors[i]
		if a.group != group {
			group = a.group
			fmt.Fprintf(&b, "\n## %s%s\n\n| anchor | seen | rows | mean %% | median %% | p90 %% | bias %% | worst %% | of |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n", strings.ToUpper(group[:1]), group[1:])
		}
		e := a.errors()
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %+.1f | %+.0f | %s |\n", a.name, a.seen, e.Rows,
			percent(e.Mean), percent(e.Median), percent(e.P90), 100*e.Bias, 100*e.worst.error(), e.worst.what)
	}
	return b.String()
}

// draw returns the figure: predicted over measured against what was measured.
func draw(t *testing.T, anchors []anchor) []byte {
	t.Helper()
	table := &tables.Table{Name: "validation", Columns: []string{"measured_s_or_J", "predicted_over_measured", "anchor"}}
	for i := range anchors {
		a := &anchors[i]
		for _, p := range a.pairs {
			table.Add(tables.Round(p.measured, 6), tables.Round(p.predicted/p.measured, 6), a.group)
		}
	}
	d, err := figure.Select(table, figure.Selection{Kind: "scatter", X: "measured_s_or_J", Y: "predicted_over_measured", Group: "anchor"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.Write(&b, "png", fmt.Sprintf("%d measurements in %d anchors", len(table.Rows), len(anchors))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
