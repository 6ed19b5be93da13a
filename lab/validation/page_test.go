package validation

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/lab/requests"
	"github.com/l3sim/l3sim/lab/whole"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

var update = flag.Bool("update", false, "write lab/docs/validation.md, its figure and the recorded errors")

const (
	page     = "../docs/validation.md"
	picture  = "../docs/figures/validation.png"
	recorded = "testdata/errors.json"
)

// TestAnchors: no anchor's error exceeds the best recorded, none has lost rows, and the page is up
// to date. A quick run has only the anchors of memory.
func TestAnchors(t *testing.T) {
	deep.Heavy(t)
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
	if quick || len(wrong) > 0 {
		return
	}
	text, err := write(anchors, wholeServers(t), logs(t))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		record(t, now, text, anchors)
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

// TestWrite: a table by hand, and a group that is not on the page.
func TestWrite(t *testing.T) {
	anchors := []anchor{{group: "kernels of x", name: "gemm", seen: heldOut, pairs: []pair{{"a", 1, 1.1}, {"b", 2, 1.6}}}, {group: "other", name: "n", pairs: []pair{{"a", 1, 1}}}}
	want := "| gemm | held out | 2 | 10.0 | 20.0 | -20 |\n"
	if _, body, _ := strings.Cut(tableOf(anchors, "kernels of x"), "---: |\n"); body != want {
		t.Errorf("got %swant %s", body, want)
	}
	sides := []anchor{{group: "x", name: "iteration energy, m", seen: fitted, pairs: anchors[0].pairs}, {group: "x", name: "decode iteration, m", seen: fitted, pairs: anchors[1].pairs},
		{group: "x", name: "decode iteration, n", seen: heldOut, pairs: anchors[1].pairs}, {group: "l3", name: "decode and chunks, own kernels", seen: heldOut, pairs: anchors[0].pairs}}
	if got, want := sideBySide(sides, "x"), "| anchors | seen | decode | energy |\n| --- | --- | --- | --- |\n| m | fitted | 1: 0.0, 0.0, +0 | 2: 10.0, 20.0, -20 |\n| n | held out | 1: 0.0, 0.0, +0 |  |\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	if got, want := sideBySide(sides, "l3"), "| anchors | seen | with chunks |\n| --- | --- | --- |\n| all other rows | held out | 2: 10.0, 20.0, -20 |\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	servers := &whole.Report{Rows: 10, Judged: 9, Groups: []whole.Group{{Model: "m", GPU: "g", Parallelism: "TP2", Framework: "f", Rows: 9, Metric: whole.TPOT, Median: 0.1, P90: 0.2, Worst: -0.3}},
		Summary: []whole.Summary{{Metric: whole.TPOT, Groups: 1, Median: 0.1}}}
	if _, body, _ := strings.Cut(wholeTables(servers), "---: |\n"); body != "| m, g, TP2, f | 9 | 10 | 20 | -30 |\n" {
		t.Errorf("servers: %s", body)
	}
	if got := wholeSummary(servers); got != "9 of 10 published rows are judged: the time between tokens is 10% off (median of 1 groups)." {
		t.Error(got)
	}
	log := &requests.Report{Log: "CARD_model", GPUs: 2, Requests: 300, Metrics: []requests.Metric{{Unit: "ratio", Median: 0.01, P90: 0.02, Worst: -0.5}, {Unit: "s"}}}
	if _, body, _ := strings.Cut(logTable([]*requests.Report{log}), "--- |\n"); body != "| 2 x CARD, model | 300 | 1.0, 2.0, -50 |\n" {
		t.Errorf("logs: %s", body)
	}
	if _, err := write(anchors, servers, nil); err == nil || !strings.Contains(err.Error(), "no table of other") {
		t.Errorf("error %v", err)
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

//go:embed testdata/page.md.tmpl
var pageText string

// write returns the page: the texts of testdata/page.md.tmpl with a table of each group's anchors, and of the servers of
// large models.
func write(anchors []anchor, servers *whole.Report, logs []*requests.Report) (string, error) {
	shown := map[string]bool{}
	page, err := template.New("page").Funcs(template.FuncMap{
		"groups": func(prefix string) (all []string) {
			for i := range anchors {
				if g := anchors[i].group; strings.HasPrefix(g, prefix) && !slices.Contains(all, g) {
					all = append(all, g)
				}
			}
			return all
		},
		"title":        func(group string) string { return strings.ToUpper(group[:1]) + group[1:] },
		"table":        func(group string) string { shown[group] = true; return tableOf(anchors, group) },
		"side":         func(group string) string { shown[group] = true; return sideBySide(anchors, group) },
		"whole":        func() string { return wholeTables(servers) },
		"logs":         func() string { return logTable(logs) },
		"wholeSummary": func() string { return wholeSummary(servers) },
	}).Parse(pageText)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := page.Execute(&b, nil); err != nil {
		return "", err
	}
	for i := range anchors {
		if g := anchors[i].group; !shown[g] {
			return "", fmt.Errorf("testdata/page.md.tmpl shows no table of %s", g)
		}
	}
	return b.String(), nil
}

// tableOf returns a group's anchors as a table.
func tableOf(anchors []anchor, group string) string {
	var b strings.Builder
	b.WriteString("| anchor | seen | n | median % | p90 % | worst % |\n| --- | --- | ---: | ---: | ---: | ---: |\n")
	percent := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) }
	for i := range anchors {
		if a := &anchors[i]; a.group == group {
			e := a.errors()
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %+.0f |\n", a.name, a.seen, e.Rows, percent(e.Median), percent(e.P90), 100*e.worst.error())
		}
	}
	return b.String()
}

// besides are kinds of anchors that share a row: in their names, and as headings.
var besides = []struct{ inName, head string }{
	{"decode iteration, ", "decode"}, {"prefill iteration, ", "prefill"}, {"mixed iteration, ", "mixed"}, {"iteration energy, ", "energy"},
	{"decode, measured GPU part", "decode, measured GPU part"}, {"decode and chunks, measured GPU part", "with chunks"},
	{"decode, own kernels", "decode, own kernels"}, {"decode and chunks, own kernels", "with chunks"},
}

// sideBySide returns a group's anchors as a table with a column for each of its kinds. A row has the anchors whose names differ only in the
// kind.
func sideBySide(anchors []anchor, group string) string {
	type row struct {
		name  string
		cells [8]string // one for each of besides
	}
	var rows []row
	var used [8]bool
	for i := range anchors {
		a := &anchors[i]
		if a.group != group {
			continue
		}
		k := slices.IndexFunc(besides, func(b struct{ inName, head string }) bool { return strings.Contains(a.name, b.inName) })
		name := cmp.Or(strings.Trim(strings.Replace(a.name, besides[k].inName, "", 1), ", "), "all other rows") + " | " + string(a.seen)
		at := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if at < 0 {
			at, rows = len(rows), append(rows, row{name: name})
		}
		e := a.errors()
		rows[at].cells[k], used[k] = fmt.Sprintf("%d: %.1f, %.1f, %+.0f", e.Rows, 100*e.Median, 100*e.P90, 100*e.worst.error()), true
	}
	head, rule := "| anchors | seen |", "\n| --- | --- |"
	for k, b := range besides {
		if used[k] {
			head, rule = head+" "+b.head+" |", rule+" --- |"
		}
	}
	for _, r := range rows {
		rule += "\n| " + r.name + " |"
		for k, cell := range r.cells {
			if used[k] {
				rule += " " + cell + " |"
			}
		}
	}
	return head + rule + "\n"
}

// logTable returns the logs of requests as a table.
func logTable(logs []*requests.Report) string {
	var b strings.Builder
	b.WriteString("| log | n | time to first token | time between tokens | end to end |\n| --- | ---: | --- | --- | --- |\n")
	for _, r := range logs {
		gpu, model, _ := strings.Cut(r.Log, "_")
		fmt.Fprintf(&b, "| %d x %s, %s | %d |", r.GPUs, gpu, model, r.Requests)
		for _, m := range r.Metrics {
			if m.Unit == "ratio" {
				fmt.Fprintf(&b, " %.1f, %.1f, %+.0f |", 100*m.Median, 100*m.P90, 100*m.Worst)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// wholeTables returns the servers of large models as a table for each metric.
func wholeTables(r *whole.Report) string {
	var b strings.Builder
	for _, s := range r.Summary {
		fmt.Fprintf(&b, "| %s | n | median %% | p90 %% | worst %% |\n| --- | ---: | ---: | ---: | ---: |\n", whole.MetricName(s.Metric))
		for i := range r.Groups {
			if g := &r.Groups[i]; g.Metric == s.Metric {
				fmt.Fprintf(&b, "| %s, %s, %s, %s | %d | %.0f | %.0f | %+.0f |\n", g.Model, g.GPU, g.Parallelism, g.Framework, g.Rows, 100*g.Median, 100*g.P90, 100*g.Worst)
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// wholeSummary states the number of judged rows, and each metric's median error over groups.
func wholeSummary(r *whole.Report) string {
	text := fmt.Sprintf("%d of %d published rows are judged: the", r.Judged, r.Rows)
	for i, s := range r.Summary {
		text += fmt.Sprintf("%s %s is %.0f%% off (median of %d groups)", []string{"", ", the"}[min(i, 1)], whole.MetricName(s.Metric), 100*s.Median, s.Groups)
	}
	return text + "."
}

// draw returns the figure: predicted over measured, by measured time.
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
