package claims

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system/kinds"
)

// TestWrite writes all parts of the page in shuffled order: each keeps the others, and the same
// reports give the same bytes.
func TestWrite(t *testing.T) {
	deep.Only(t)
	if testing.Short() {
		t.Skip("long under the race detector, and TestRun runs as much in parallel")
	}
	dir := t.TempDir()
	var reports []*Report
	for _, target := range []Target{Fair, AllTargets, Sensitivity} {
		r, err := fakeOptions(t, target).run(t.Context(), newFake(plausible).run)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	page := readFile(t, filepath.Join(dir, pageFile))
	at := -1
	for _, title := range []string{"\n## Claims\n", "\n### What cannot be reproduced, and what we assume\n", "\n## Sensitivity\n", "\n## The fair comparison\n"} {
		i := strings.Index(page, title)
		if i <= at || strings.Count(page, title) != 1 {
			t.Errorf("%q is missing, there twice or out of order", title)
		}
		at = i
	}
	for i := range reports[1].Figures {
		f := &reports[1].Figures[i]
		for format, begin := range map[string]string{"png": "\x89PNG", "svg": "<?xml"} {
			if text := readFile(t, filepath.Join(dir, figureFolder, f.file()+"."+format)); !strings.HasPrefix(text, begin) {
				t.Errorf("%s is no %s", f.file()+"."+format, format)
			}
		}
		caption, err := reports[1].models.text(f.Name)
		if !strings.Contains(page, "]("+figureFolder+"/"+f.file()+".png"+")\n"+caption+"\n") || caption == "" || err != nil {
			t.Errorf("%s is not on the page with its caption: %v", f.Name, err)
		}
	}
	for _, table := range reports[1].Tables {
		got, err := tables.ReadTable(filepath.Join(dir, table.Name+".csv"))
		if err != nil || len(got.Rows) != len(table.Rows) {
			t.Errorf("%s: %v", table.Name, err)
		}
	}
	if err := reports[1].Write(dir); err != nil {
		t.Fatal(err)
	}
	if again := readFile(t, filepath.Join(dir, pageFile)); again != page {
		t.Error("the same report changes the page")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestJSON: the keys of the object, and plain numbers.
func TestJSON(t *testing.T) {
	deep.Heavy(t)
	r, err := fakeOptions(t, ClaimsOnly).run(t.Context(), newFake(plausible).run)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Judgements {
		// Traces of Figs 8 to 10 are drawn; Fig 11 has its own, the text none.
		j := &r.Judgements[i]
		figure, _, _ := strings.Cut(j.ID, ".")
		if drawn := figure != "fig11" && figure != "text"; (j.spread[0] < j.spread[1]) != drawn {
			t.Errorf("%s lies within %v over seeds", j.ID, j.spread)
		}
	}
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Claims []map[string]any `json:"claims"`
	}
	d := json.NewDecoder(&text)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	for i, c := range got.Claims {
		want := 7
		if claims(t, AllTargets)[i].Readings[0].Name != "" {
			want = 9 // with the reading and the alternatives
		}
		for _, key := range []string{"why", "on_the_edge", "least", "most"} {
			if c[key] != nil {
				want++
			}
		}
		if c["id"] != strings.Fields(ids)[i] || len(c) != want {
			t.Errorf("%v", c)
		}
		for _, key := range []string{"paper", "ours", "low", "high"} {
			if _, ok := c[key].(float64); !ok {
				t.Errorf("%s of %s is no number: %v", key, c["id"], c[key])
			}
		}
		if v := c["verdict"]; v != reproduced && v != direction && v != sameSide && v != notReproduced && v != contradicted {
			t.Errorf("verdict %v", v)
		}
	}
}

// TestSensitivity: a change that concerns one system affects only the ratios to it; systems without
// points of their own keep theirs.
func TestSensitivity(t *testing.T) {
	deep.Turn(t, 3, 4)
	f := newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		s, err := plausible(c, p)
		if c.Run.System == "hbm-pim" && configs.Section[kinds.HBMPIM](c).BandwidthFactor == 9 {
			s.OutputTokensPerS /= 2
		}
		if c.Memory.Admission == "current" {
			s.OutputTokensPerS *= 3 // of every system: no ratio changes
		}
		return s, err
	})
	r, err := fakeOptions(t, Sensitivity).run(t.Context(), f.run)
	if err != nil {
		t.Fatal(err)
	}
	base := effect{unchanged, 6, 9, 24, 6, 0.75}
	for i, e := range r.Sensitivity {
		want := base
		want.Assumption = e.Assumption
		if strings.Contains(e.Assumption, "9 times the bandwidth") {
			want.OverHBMPIM, want.Ordering = 12, 0.375
		}
		if fmt.Sprintf("%.6v", e) != fmt.Sprintf("%.6v", want) || (e.Assumption == unchanged) != (i == 0) {
			t.Errorf("got  %+v\nwant %+v", e, want)
		}
		if strings.Contains(e.Assumption, ",") { // a point's name could not have it
			t.Errorf("%q has a comma", e.Assumption)
		}
	}
	// Twice hbm-pim's ratio changes its claim's verdict, and half of its throughput puts it below gpu-only: both in bold, in
	// one row.
	var b strings.Builder
	if err := r.sections[0].table.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Count(text, "**12.00 (+100%)**") != 1 || strings.Count(text, "**") != 2 || !strings.Contains(text, " 0.38 (-50%) ") {
		t.Errorf("verdicts that turn:\n%s", text)
	}
	if text := r.sections[0].text; !strings.Contains(text, "reproduced: `fig8.max_over_hbm_pim`, ") {
		t.Errorf("claims that come out: %s", text)
	}
	if len(r.Sensitivity) < 15 {
		t.Errorf("%d assumptions", len(r.Sensitivity))
	}
	// The sweep runs each system under the changes that concern it, and every system without changes.
	for _, system := range []string{"gpu-only", "hbm-pim", "rank-pim", "l3"} {
		if n := strings.Count(columnText(r.Tables[0], "run.system"), system+"\n"); n < 2*12 {
			t.Errorf("%s has %d points", system, n)
		}
	}
}

func columnText(t *tables.Table, name string) string {
	var b strings.Builder
	for _, row := range t.Rows {
		b.WriteString(row[slices.Index(t.Columns, name)].String() + "\n")
	}
	return b.String()
}

// TestSensitivityUnequal: a change under which a system serves other requests than the others is
// refused.
func TestSensitivityUnequal(t *testing.T) {
	deep.Only(t) // TestMatched has the check alone
	f := newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
		s, err := plausible(c, p)
		if configs.Section[kinds.HBMPIM](c).BandwidthFactor == 9 {
			s.Trace.Requests--
		}
		return s, err
	})
	_, err := fakeOptions(t, Sensitivity).run(t.Context(), f.run)
	if err == nil || !strings.Contains(err.Error(), "serves other requests") {
		t.Errorf("error %v", err)
	}
}

// TestMatched: systems that serve different requests of a model and trace are refused.
func TestMatched(t *testing.T) {
	x := &experiment{plan: &sweep.Plan{Points: make([]sweep.Point, 2)}}
	for _, system := range []string{"l3", "gpu-only"} {
		c := &configs.Config{}
		c.Run.System, c.Run.Model, c.Run.Trace = system, "m", "t"
		x.configs = append(x.configs, c)
		x.outcome.Entries = append(x.outcome.Entries, &sweep.Entry{Summary: &results.Summary{About: results.About{Trace: results.Trace{Name: "t", Requests: 9}}}})
	}
	if err := x.matched(); err != nil {
		t.Error(err)
	}
	x.outcome.Entries[1].Summary.Trace.Requests--
	if err := x.matched(); err == nil || !strings.Contains(err.Error(), "gpu-only serves other requests of t with m") {
		t.Errorf("error %v", err)
	}
}
