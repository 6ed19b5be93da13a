package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// folder writes the folder of a sweep over two keys, with two seeds of each point. The metrics are
// functions of the keys; name returns the name of point i.
func folder(t *testing.T, points int, name func(i int) string) string {
	t.Helper()
	dir := t.TempDir()
	metrics := results.MetricNames()
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	header := []string{tables.PointColumn, "node.ranksets", "node.memory_capacity_bytes", "run.system", "run.model", "run.trace", tables.SeedColumn, tables.StatusColumn, tables.ErrorColumn, tables.ConfigColumn}
	_ = w.Write(append(header, metrics...))
	for i := range points {
		for seed := range 2 {
			row := []string{name(i), fmt.Sprint(2 + i%7), fmt.Sprint(int64(1+i/7) << 30), "l3", "gpt-175b", name(0), fmt.Sprint(seed), "done", "", "c"}
			for m := range metrics {
				x := math.Sin(float64(i*(m+1))) + 2 + float64(seed)
				row = append(row, fmt.Sprint(x))
			}
			_ = w.Write(row)
		}
	}
	w.Flush()
	write(t, dir, tables.ResultsFile, b.String())
	base := tables.Base{Command: "sweep", Version: "v1", Configs: []string{"my node.toml"}, Sets: []string{`run.model="gpt-175b"`, "run.requests=4"}, Keys: map[string]string{
		"gpu.preset": "a100", "prices.name": "prices-2025-12", "prices.date": "2025-12-01"}}
	if err := results.WriteFiles(dir, []results.File{base.InFile()}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// written returns the page of folders.
func written(t *testing.T, o Options, dirs ...string) (*Report, string) {
	t.Helper()
	r, err := Read(dirs, o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return r, b.String()
}

// data returns the results that a page holds, as its script reads them.
func data(t *testing.T, html string) (r struct {
	Title string
	Sets  []Set
	Parts []string
}) {
	t.Helper()
	_, rest, _ := strings.Cut(html, `<script type="application/json" id="data">`)
	text, _, ok := strings.Cut(rest, "</script>")
	if err := json.Unmarshal([]byte(text), &r); err != nil || !ok {
		t.Fatalf("%v in %.200s", err, text)
	}
	return r
}

// TestNamesAreNoMarkup: names with markup reach the data unchanged, and the page has the same
// elements as with harmless names.
func TestNamesAreNoMarkup(t *testing.T) {
	hostile := []string{"<script>x()</script>", "</script><script>x()</script>", `<img src=x onerror="x()">`, "<!--", "{{.Title}}", `"'` + "`${x()}`", "\u2028]]>", "a&amp;b"}
	name := func(i int) string { return fmt.Sprint(hostile[i%len(hostile)], i) }
	_, page := written(t, Options{Title: "</title><script>x()</script>"}, folder(t, 8, name))
	_, plain := written(t, Options{Title: "t"}, folder(t, 8, func(i int) string { return fmt.Sprint("p", i) }))
	tags := func(html string) []string {
		html, _, _ = strings.Cut(html, "<script>") // the rest is l3sim's script
		return regexp.MustCompile(`</?[a-zA-Z!][a-z0-9]*`).FindAllString(html, -1)
	}
	if got, want := tags(page), tags(plain); !slices.Equal(got, want) || len(want) < 100 {
		t.Errorf("%d tags, %d with harmless names", len(got), len(want))
	}
	got := data(t, page)
	if got.Title != "</title><script>x()</script>" {
		t.Error(got.Title)
	}
	for i, row := range got.Sets[0].Rows {
		if row[0] != name(i) {
			t.Errorf("%q is %q", name(i), row[0])
		}
	}
	head, _, _ := strings.Cut(page, "<script>") // the rest is l3sim's script
	if strings.Contains(head, "x()</script>") || strings.Contains(head, "<img") {
		t.Error("a name is markup")
	}
}

// TestPageIsAlone: the page loads no other file.
func TestPageIsAlone(t *testing.T) {
	_, page := written(t, Options{}, folder(t, 5, func(i int) string { return fmt.Sprint("p", i) }))
	head, rest, _ := strings.Cut(page, `<script type="application/json"`)
	_, script, _ := strings.Cut(rest[strings.LastIndex(rest, "<script>"):], ">")
	for _, text := range []string{head, script} {
		for _, place := range regexp.MustCompile(`(?:src|href)="?([^"\s>]*)|url\(|@import|fetch\(|XMLHttpRequest|https?://`).FindAllStringSubmatch(text, -1) {
			if place[1] != "#front" {
				t.Errorf("the page asks for %s", place[0])
			}
		}
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		if text, err := os.ReadFile(filepath.Join("echarts", name)); err != nil || !strings.Contains(string(text), "Apache") {
			t.Error(err)
		}
	}
}

// TestSet: a row for each point with the means of its seeds, constants apart, the front by
// definition, and the settings that repeat a point.
func TestSet(t *testing.T) {
	dir := folder(t, 30, func(i int) string { return fmt.Sprint("p", i) })
	r, page := written(t, Options{Goals: "max output_tokens_per_s, min tbt_p99_ms"}, dir, dir)
	s := r.Sets[0]
	if s.Points != 30 || len(s.Rows) != 30 || s.Seeds[3] != 2 || s.Failed != 0 || r.Sets[1].Name != s.Name+" (2)" {
		t.Fatalf("%d points, %d rows, %v, %s", s.Points, len(s.Rows), s.Seeds, r.Sets[1].Name)
	}
	at := map[string]int{}
	for i, c := range s.Columns {
		at[c.Name] = i
	}
	for i, row := range s.Rows {
		for m, name := range results.MetricNames() {
			if tables.Describe(name).Kind == tables.Truth {
				continue // not a number
			}
			want := math.Sin(float64(i*(m+1))) + 2.5
			if math.Abs(row[at[name]].(float64)-want) > 1e-5*want {
				t.Fatalf("%s of point %d is %v, not %g", name, i, row[at[name]], want)
			}
		}
	}
	x, y := at["output_tokens_per_s"], at["tbt_p99_ms"]
	for i, a := range s.Rows {
		beaten := slices.ContainsFunc(s.Rows, func(b []any) bool {
			return b[x].(float64) >= a[x].(float64) && b[y].(float64) <= a[y].(float64) && (b[x] != a[x] || b[y] != a[y])
		})
		if slices.Contains(s.Front, i) == beaten {
			t.Errorf("point %d: on the front %v, beaten %v", i, !beaten, beaten)
		}
	}
	if s.Command != `l3sim run --config 'my node.toml' --set 'run.model="gpt-175b"' --set run.requests=4` || len(s.Constants) != 3 || s.Constants[1] != (Pair{"run.model", "gpt-175b"}) {
		t.Errorf("%s, %v", s.Command, s.Constants)
	}
	if want := ` --set node.ranksets=4 --set 'node.memory_capacity="2GiB"' --set 'run.system="l3"' --set 'run.trace="p0"' --set run.seed=0`; s.Sets[9] != want {
		t.Errorf("%s\nnot%s", s.Sets[9], want)
	}
	for _, badge := range []string{"<b>model</b> gpt-175b", "<b>GPU</b> a100", "<b>DIMM memory</b> 1GiB, 2GiB, 3GiB, 4GiB, 5GiB", "<b>ranksets</b> 2 to 8", "<b>prices</b> prices-2025-12 of 2025-12-01", "<b>l3sim</b> v1"} {
		if !strings.Contains(page, badge) {
			t.Errorf("no badge %s", badge)
		}
	}
	if g, err := Read([]string{dir}, Options{Goals: "min usd_per_million_output_tokens, max output_tokens_per_s"}); err != nil || !regexp.MustCompile(`: [0-9.]+ USD per million output tokens, [0-9.]+ to [0-9.]+ by the bands of prices`).MatchString(g.Sets[0].Answers[0]) || strings.Contains(g.Sets[0].Answers[1], "prices") {
		t.Errorf("%v: %q has no band of prices", err, g.Sets[0].Answers)
	}
	if _, again := written(t, Options{Goals: "max output_tokens_per_s, min tbt_p99_ms"}, dir, dir); again != page {
		t.Error("the same results give another page")
	}
}

// TestFits: with too many points the page shows the whole front and part of the rest, and says so.
func TestFits(t *testing.T) {
	deep.Only(t) // TestThin drops points of a small set
	r, page := written(t, Options{}, folder(t, 2000, func(i int) string { return fmt.Sprint("p", i) }))
	if len(page) > mostBytes || len(page) < mostBytes/2 {
		t.Errorf("%d bytes", len(page))
	}
	got := data(t, page).Sets[0]
	shown := len(got.Rows)
	if shown >= 2000 || got.Points != 2000 || len(got.Seeds) != shown || len(got.Sets) != shown || len(r.Sets[0].Rows) != shown {
		t.Errorf("%d rows, %d settings, of %d points", shown, len(got.Sets), got.Points)
	}
	whole, err := Read([]string{folder(t, 2000, func(i int) string { return fmt.Sprint("p", i) })}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range whole.Sets[0].Front {
		if kept := got.Rows[got.Front[i]][0]; kept != whole.Sets[0].Rows[at][0] {
			t.Errorf("%v is %v on the front of the page", whole.Sets[0].Rows[at][0], kept)
		}
	}
	if !strings.Contains(page, fmt.Sprintf("The page shows %d: results.csv has all.", shown)) {
		t.Error("the page does not say so")
	}
}

// TestThin: every second point off the front is dropped, and the others keep their cells and settings.
func TestThin(t *testing.T) {
	dir := folder(t, 40, func(i int) string { return fmt.Sprint("p", i) })
	var sets [2]*Set
	for i := range sets {
		r, err := Read([]string{dir}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sets[i] = r.Sets[0]
	}
	whole, s := sets[0], sets[1]
	dropped := s.thin()
	if off := 40 - len(whole.Front); dropped != off/2 || len(s.Rows) != 40-dropped || len(s.Seeds) != len(s.Rows) || len(s.Sets) != len(s.Rows) || s.Points != 40 {
		t.Fatalf("%d of %d dropped: %d rows, %d seeds, %d settings", dropped, off, len(s.Rows), len(s.Seeds), len(s.Sets))
	}
	for i, at := range whole.Front {
		if s.Rows[s.Front[i]][0] != whole.Rows[at][0] || s.Sets[s.Front[i]] != whole.Sets[at] {
			t.Errorf("%v is %v on the front", whole.Rows[at][0], s.Rows[s.Front[i]][0])
		}
	}
}

// TestParts: the components that the page stacks add up to the total of a run.
func TestParts(t *testing.T) {
	f, err := design.ParseFile(system.Configs(), "s.toml", "[set]\nrun.model = \"llama-2-7b\"\nrun.trace = \"dolphin\"\nrun.requests = 2\n[grid]\nrun.system = [\"l3\", \"cpu-offload\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := sweep.NewPlan(f, "v1")
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := plan.Run(t.Context(), sweep.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := plan.Write(dir, outcome); err != nil {
		t.Fatal(err)
	}
	r, err := Read([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Parts) != results.EnergyParts {
		t.Errorf("%d parts: %v", len(r.Parts), r.Parts)
	}
	table, err := tables.ReadTable(dir)
	if err != nil {
		t.Fatal(err)
	}
	for row := range table.Rows {
		number := func(name string) float64 {
			v, _ := table.Number(row, slices.Index(table.Columns, name))
			return v
		}
		sum := 0.0
		for _, p := range r.Parts {
			sum += number(p)
		}
		if total := number("site_energy_total_j"); math.Abs(sum-total) > 1e-9*total || total == 0 {
			t.Errorf("parts add up to %g of %g J", sum, total)
		}
	}
	rows := 0
	for _, v := range r.Validation {
		if rows += v.Rows; v.Mean < 0 || v.Mean > v.Worst || v.Worst > 1 || v.Anchor == "" {
			t.Errorf("%+v", v)
		}
	}
	if len(r.Validation) < 10 || rows < 10_000 {
		t.Errorf("%d kinds, %d rows", len(r.Validation), rows)
	}
}

// TestErrors: folders that are empty, damaged or of another kind give errors that say what is
// wrong.
func TestErrors(t *testing.T) {
	good := func() string { return folder(t, 3, func(i int) string { return fmt.Sprint("p", i) }) }
	for _, c := range []struct{ file, text, want string }{
		{"", "", "expected a folder that --out named, with base.json and results.parquet; an unfinished sweep lacks them"},
		{tables.ResultsFile, "", "results.csv: expected a header line"},
		{tables.ResultsFile, "a,b\n1,2\n", "results.csv:1: expected results that l3sim wrote, with a column point"},
		{tables.ResultsFile, "point,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms\n", "results.csv: expected at least one point"},
		{tables.ResultsFile, "point,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms\na,1,failed,e,c,,\n", "results.csv: expected a point that is done; all 1 failed"},
		{tables.ResultsFile, "point,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms\na,1,done,,c\n", "results.csv:2: "},
		{tables.BaseFile, "{", "base.json: "},
		{tables.BaseFile, `{"schema":"l3sim/base/9"}`, "base.json: schema = l3sim/base/9: expected l3sim/base/1"},
	} {
		dir := good()
		if c.file == "" {
			dir = t.TempDir()
		} else {
			write(t, dir, c.file, c.text)
		}
		_, err := Read([]string{dir}, Options{})
		bad := new(input.Error)
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60s:\n%v\nnot %s", c.file, c.text, err, c.want)
		}
	}
	if _, err := Read([]string{good()}, Options{Goals: "max output_token_per_s, min tbt_p99_ms"}); err == nil || !strings.Contains(err.Error(), `--goals = "output_token_per_s": expected a column of `) {
		t.Error(err)
	}
}

// TestFailedSeed: points with a failed seed are left out and counted.
func TestFailedSeed(t *testing.T) {
	dir := folder(t, 12, func(i int) string { return fmt.Sprint("p", i) })
	text, err := os.ReadFile(filepath.Join(dir, tables.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, tables.ResultsFile, strings.Replace(string(text), "1,done,", "1,failed,", 1))
	if r, page := written(t, Options{Title: "T & t"}, dir); r.Sets[0].Failed != 1 || len(r.Sets[0].Rows) != 11 || !strings.Contains(page, "1 left out that failed") || !strings.Contains(page, "<h1>T &amp; t</h1>") {
		t.Errorf("%d failed, %d rows", r.Sets[0].Failed, len(r.Sets[0].Rows))
	}
}

// TestNothingIsWide checks, without a browser, the rules that keep elements within the page: wide tables are in a box that scrolls
// or break their words, texts of results break anywhere, columns of charts shrink, and no fixed width exceeds a phone's.
func TestNothingIsWide(t *testing.T) {
	read := func(name string) string {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	style, page := read("report.css"), read("report.html.tmpl")
	for _, rule := range []string{`h1, h2, h3, p { overflow-wrap: anywhere; }`, `.badge {[^}]*overflow-wrap: anywhere`, `#chosen th\[scope="col"\] { overflow-wrap: anywhere; }`, `#chosen table { max-width: 100%; }`,
		`#chosen pre { white-space: pre-wrap; overflow-wrap: anywhere`, `.chart { width: 100%;`, `.pair {[^}]*minmax\(min\([0-9]+rem, 100%\), 1fr\)`, `figure {[^}]*min-width: 0`, `.across { overflow-x: auto; }`, `.scroll { overflow: auto;`, `button, select, input {[^}]*max-width: min\([0-9]+rem, 100%\)`, `header { display: flex; flex-wrap: wrap;`} {
		if !regexp.MustCompile(rule).MatchString(style) {
			t.Errorf("no rule %s", rule)
		}
	}
	for _, width := range regexp.MustCompile(`[{;]\s*((?:min-)?width|white-space): *([^;}]*)`).FindAllStringSubmatch(style, -1) {
		if v := width[2]; v != "100%" && v != "0" && v != "pre-wrap" && v != "nowrap" || v == "nowrap" && strings.Count(style, "nowrap") > 1 {
			t.Errorf("a fixed %s of %s", width[1], v)
		}
	}
	for _, table := range regexp.MustCompile(`(?s).{90}<table id="(\w*)"`).FindAllStringSubmatch(page, -1) {
		if table[1] != "points" || !strings.Contains(table[0], `class="scroll"`) {
			t.Errorf("the table %s is in no box that scrolls", table[1])
		}
	}
	if n := strings.Count(page, "<table"); n != 1 || !strings.Contains(page, "width=device-width") {
		t.Errorf("%d tables, or no width of the device", n)
	}
}
