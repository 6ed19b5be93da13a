package tables

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
)

// folderOf writes a folder of --out with some of its files.
func folderOf(t *testing.T, at string, f *Folder, without ...string) string {
	t.Helper()
	text := func(text string) func(w io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	if f.Base == nil {
		f.Base = &Base{Command: "run"}
	}
	f.Summary, f.Config, f.Meta = text("{}"), text("a = 1\n"), map[string]string{"l3sim.schema": ParquetSchema}
	if err := os.MkdirAll(at, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, file := range f.Files() {
		if slices.Contains(without, file.Name) {
			continue
		}
		w, err := os.Create(filepath.Join(at, file.Name))
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Write(w); err != nil {
			t.Fatal(file.Name, err)
		}
		w.Close()
	}
	return at
}

// rowsOf writes a table as lines.
func rowsOf(t *Table) string {
	var b strings.Builder
	if err := t.WriteCSV(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

// TestFoldersByHand: a folder has nine files with draws and five without; its Parquet file is read, or the text if that is alone.
func TestFoldersByHand(t *testing.T) {
	const rows = "a,1,1,done,,x,100,10\nb,2,1,done,,y,200,5\n"
	f := &Folder{Table: sweepTable(t, rows), Base: &Base{Command: "sweep", Version: "9", File: "my.toml", Sets: []string{"a=1"}, Keys: map[string]string{"a": "1"}}}
	f.More = []results.File{{Name: "more.txt", Write: func(io.Writer) error { return nil }}}
	names := func(f Folder) (all []string) {
		for _, file := range f.Files() {
			all = append(all, file.Name)
		}
		return all
	}
	if got, want := names(*f), []string{"more.txt", BaseFile, SummaryFile, ConfigFile, ResultsFile, ParquetFile}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	f.Draws = sweepTable(t, "a,1,1,done,,x,99,9\n")
	if got, want := names(*f), []string{"more.txt", DrawsFile, DrawsParquet, BaseFile, SummaryFile, ConfigFile, ResultsFile, ParquetFile}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	dir := t.TempDir()
	whole := folderOf(t, filepath.Join(dir, "whole"), f)
	table, base, err := ReadFolder(whole)
	if err != nil || rowsOf(table) != rowsOf(f.Table) || base.Command != "sweep" || base.Version != "9" || base.File != "my.toml" || !slices.Equal(base.Sets, []string{"a=1"}) || base.Keys["a"] != "1" || base.Configs == nil {
		t.Errorf("%v, %+v, %v", table, base, err)
	}
	for name, lacks := range map[string][]string{"text": {ParquetFile, DrawsParquet}, "parquet": {ResultsFile, DrawsFile}} {
		path := folderOf(t, filepath.Join(dir, name), &Folder{Table: f.Table, Draws: f.Draws}, lacks...)
		if table, base, err := ReadFolder(path); err != nil || rowsOf(table) != rowsOf(f.Table) || base == nil {
			t.Errorf("%s: %v, %v", name, table, err)
		}
		if draws, err := ReadDraws(path); err != nil || rowsOf(draws) != rowsOf(f.Draws) {
			t.Errorf("%s: draws %v, %v", name, draws, err)
		}
		os.Remove(filepath.Join(path, BaseFile))
		for _, file := range []string{ResultsFile, ParquetFile} {
			if table, base, err := ReadFolder(filepath.Join(path, file)); !slices.Contains(lacks, file) && (err != nil || base != nil || rowsOf(table) != rowsOf(f.Table)) {
				t.Errorf("%s/%s: %v, %v, %v", name, file, table, base, err)
			}
		}
	}
	bad := filepath.Join(dir, "bad")
	os.MkdirAll(bad, 0o777)
	write := func(name, text string) string {
		path := filepath.Join(bad, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused := func(path, want string) {
		t.Helper()
		if _, _, err := ReadFolder(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	refused(bad, "an unfinished sweep lacks them")
	refused(filepath.Join(dir, "none"), "a folder of --out or its results.csv")
	refused(write("x.TOML", "a,b\n1,2\n"), "not a file that ends with .toml")
	refused(filepath.Join(bad, "none.json"), "a folder of --out or its")
	write(BaseFile, "{")
	refused(bad, BaseFile)
	write(BaseFile, `{"schema": "l3sim/base/0"}`)
	refused(bad, "another version of l3sim wrote the folder")
	write(BaseFile, `{"schema": "l3sim/base/1"}`)
	refused(bad, ResultsFile)
	for _, path := range []string{bad, folderOf(t, filepath.Join(dir, "plain"), &Folder{Table: f.Table})} {
		if _, err := ReadDraws(path); err == nil || path != bad && !strings.Contains(err.Error(), "sweep --bands") {
			t.Errorf("%s: draws %v", path, err)
		}
	}
}

// TestTablesByHand: rows of several folders are stacked, with names and sources, and the settings in which the folders differ.
func TestTablesByHand(t *testing.T) {
	dir := t.TempDir()
	one := folderOf(t, filepath.Join(dir, "p", "one"), &Folder{Table: sweepTable(t, "a,1,1,done,,x,100,10\nb,2,1,done,,y,200,5\n"),
		Base: &Base{Sets: []string{"node.ranksets=1", " run.rate = 3", "same=7"}, Keys: map[string]string{"run.rate": "3", "same": "7", "node.ranksets": "1", "other": "1"}}})
	two := folderOf(t, filepath.Join(dir, "p", "two"), &Folder{Table: sweepTable(t, "a,3,1,done,,z,300,1\na,3,2,done,,w,310,1\n"),
		Base: &Base{Keys: map[string]string{"run.rate": "4", "same": "7", "node.ranksets": "3", "other": "2"}}})
	alike := folderOf(t, filepath.Join(dir, "q", "one"), &Folder{Table: &Table{Columns: []string{"extra", "point"}, Rows: [][]Value{{Of(5), Of("c")}}}, Base: &Base{Keys: map[string]string{"run.rate": "3"}}})
	alone, err := ReadTables([]string{one})
	if err != nil || slices.Contains(alone.Columns, SourceColumn) || len(alone.Rows) != 2 {
		t.Errorf("%+v, %v", alone, err)
	}
	both, err := ReadTables([]string{one, two})
	const head = "point,source,run.rate,node.ranksets,run.seed,status,error,config_sha256,output_tokens_per_s,tbt_p99_ms\n"
	if want := head + "one: a,one,3,1,1,done,,x,100,10\none: b,one,3,2,1,done,,y,200,5\ntwo,two,4,3,1,done,,z,300,1\ntwo,two,4,3,2,done,,w,310,1\n"; err != nil || rowsOf(both) != want || both.Name != "one two" {
		t.Errorf("%v\n%s\nby hand\n%s", err, rowsOf(both), want)
	}
	// A folder with the name of another is called by its path; missing cells are empty, and columns that others lack are
	// last.
	three, err := ReadTables([]string{one, alike})
	if err != nil || three.Rows[2][slices.Index(three.Columns, PointColumn)] != Of(alike) || three.Rows[0][slices.Index(three.Columns, PointColumn)] != Of("one: a") ||
		three.Columns[len(three.Columns)-1] != "extra" || three.Rows[2][len(three.Columns)-1] != Of(5) || !three.Rows[0][len(three.Columns)-1].Empty() || three.Rows[2][slices.Index(three.Columns, "status")] != (Value{}) {
		t.Errorf("%v\n%s", err, rowsOf(three))
	}
	// A bare file has no folder, so its settings are unknown.
	file, err := ReadTables([]string{one, filepath.Join(two, ResultsFile)})
	if err != nil || slices.Contains(file.Columns, "run.rate") || file.Rows[2][slices.Index(file.Columns, SourceColumn)] != Of(filepath.Join(two, ResultsFile)) {
		t.Errorf("%v\n%s", err, rowsOf(file))
	}
	if _, err := ReadTables([]string{one, filepath.Join(dir, "none")}); err == nil {
		t.Error("a folder that is not there is read")
	}
}

// TestAddedKeys: a key in which folders differ becomes a column unless a table has it already, with its unit or
// without.
func TestAddedKeys(t *testing.T) {
	for columns, want := range map[string]string{
		"point,x":                   "point,run.duration,x",
		"point,run.duration":        "point,run.duration",
		"point,run.duration_s":      "point,run.duration_s",
		"point,other.run.duration":  "point,run.duration,other.run.duration",
		"point,run.duration_factor": "point,run.duration,run.duration_factor",
	} {
		names := strings.Split(columns, ",")
		tables := []*Table{{Columns: []string{"point", "x"}, Rows: [][]Value{{Of("a"), Of(1)}}}, {Columns: names, Rows: [][]Value{{Of("b"), Of(2)}}}}
		addKeys(tables, []*Base{{Sets: []string{"run.duration=1s", "same=1"}, Keys: map[string]string{"run.duration": "1s", "same": "1"}}, {Keys: map[string]string{"run.duration": "2s", "same": "1"}}})
		if got := strings.Join(tables[1].Columns, ","); got != want || want == "point,run.duration,x" && tables[1].Rows[0][1].String() != "2s" {
			t.Errorf("%s: %s %v, want %s", columns, got, tables[1].Rows, want)
		}
	}
}

// TestChosenColumns: keys that vary, the points and the main results; those of stalls only if there are some.
func TestChosenColumns(t *testing.T) {
	columns := []string{"point", "node.ranksets", "run.seed", "status", "error", "config_sha256", "tbt_p99_ms", "output_tokens_per_s", "stall_count", "preemptions", "stall_max_ms", "wall_s"}
	of := func(stalls, preemptions, reason any) *Table {
		t := &Table{Columns: columns}
		t.Add("a", 1, 7, "done", nil, "x", 1, 2, 0, 0, 0, 9)
		t.Add("b", 2, 7, "done", reason, "y", 3, 4, stalls, preemptions, 5, 9)
		return t
	}
	for _, c := range []struct {
		t    *Table
		want string
	}{
		{of(0, 0, nil), "point node.ranksets tbt_p99_ms output_tokens_per_s"}, {of(nil, nil, "boom"), "point node.ranksets error tbt_p99_ms output_tokens_per_s"},
		{of(3, 0, nil), "point node.ranksets tbt_p99_ms output_tokens_per_s stall_count preemptions stall_max_ms"}, {of(0, 3, nil), "point node.ranksets tbt_p99_ms output_tokens_per_s stall_count preemptions stall_max_ms"},
		{&Table{Columns: []string{"a", "b"}}, "a b"},
	} {
		chosen, err := c.t.Choose("--columns", nil)
		var names []string
		for _, i := range chosen {
			names = append(names, c.t.Columns[i])
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
	if got, want := of(0, 0, nil).Headline(), []string{"output_tokens_per_s", "tbt_p99_ms"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var none *Table
	if _, err := none.Choose("", nil); err == nil || none.Headline() != nil && len(none.Headline()) > 0 {
		t.Error("columns of no table")
	}
	if chosen, err := of(0, 0, nil).Choose("", []string{"wall_s", "point"}); err != nil || !slices.Equal(chosen, []int{11, 0}) {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := of(0, 0, nil).Choose("--columns", []string{"wall_s", "nothing"}); err == nil || !strings.Contains(err.Error(), "--columns") {
		t.Error(err)
	}
	// Points with long names are identified by their keys.
	long := &Table{Columns: []string{"point", "k", "l", "status", "output_tokens_per_s"}}
	for i := range 3 {
		long.Add(fmt.Sprintf("k=%s%d,l=%s%d", strings.Repeat("very long ", 9), i, strings.Repeat("longer ", 9), i), i, i, "done", i)
	}
	chosen, err := long.Choose("", nil)
	if short := long.ShortPoints(); err != nil || slices.Contains(chosen, 0) != !strings.HasPrefix(short[long.Rows[0][0]].String(), "#") || slices.Contains(chosen, 0) || !slices.Equal(chosen, []int{1, 2, 4}) {
		t.Errorf("%v of %v, %v", chosen, short, err)
	}
}

// TestOffersByHand: a message lists all of 40 columns; of more, the keys and at most twelve that share a word.
func TestOffersByHand(t *testing.T) {
	table := &Table{Name: "out", Columns: []string{"point", "node.ranks", "run.seed", "status"}}
	for i := range 36 {
		table.Columns = append(table.Columns, fmt.Sprintf("tbt_%02d", i))
	}
	if got := table.offered("tbt"); len(got) != 1 || got[0] != "columns: "+strings.Join(table.Columns, ", ") {
		t.Errorf("%q", got)
	}
	table.Columns = append(table.Columns, "energy_j")
	if got, want := table.offered("TBT-p99"), []string{"keys: node.ranks, run.seed", "alike: " + strings.Join(table.Columns[4:16], ", "), "all 41 columns: l3sim table out --list-columns"}; !slices.Equal(got, want) {
		t.Errorf("%q, by hand %q", got, want)
	}
	if got, want := table.offered("j energy.x"), []string{"keys: node.ranks, run.seed", "alike: energy_j", "all 41 columns: l3sim table out --list-columns"}; !slices.Equal(got, want) {
		t.Errorf("%q, by hand %q", got, want)
	}
	table.Columns[0] = "name" // without points there are no keys
	if got, want := table.offered("j"), []string{"all 41 columns: l3sim table out --list-columns"}; !slices.Equal(got, want) {
		t.Errorf("%q, by hand %q", got, want)
	}
	// Up to twelve values of a column are all listed.
	for n, want := range map[int]string{12: "one of v0, v1", 13: "a value of that column"} {
		few := &Table{Columns: []string{"c"}}
		for i := range n {
			few.Add(fmt.Sprintf("v%d", i))
		}
		if _, _, err := few.Condition("--where", "c=x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d values: %v", n, err)
		}
		if column, value, err := few.Condition("--where", "c=v1"); column != 0 || value != Of("v1") || err != nil {
			t.Errorf("%d, %v, %v", column, value, err)
		}
	}
}

// TestJudgedByHand: rules trip, cannot be judged, or hold; lost results are reported unless allowed.
func TestJudgedByHand(t *testing.T) {
	old := sweepTable(t, "a,1,1,done,,a,100,10\nb,2,1,done,,b,100,10\ngone,3,1,done,,c,1,1\n")
	updated := sweepTable(t, "a,1,1,done,,a,97,10\nb,2,1,done,,b,100,10\n")
	c, err := Compare(old, updated)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := Compare(updated, updated)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(text string) *Rule {
		r, err := ParseRule("", text, []string{"output_tokens_per_s", "tbt_p99_ms", "ttft_mean_ms"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	slower, later, unknown := rule("output_tokens_per_s<-2%"), rule("tbt_p99_ms>5%"), rule("ttft_mean_ms>5%")
	for _, k := range []struct {
		of    *Comparison
		rules []*Rule
		lost  bool
		want  string
	}{
		{c, []*Rule{slower, later}, false, "1 rule of 2 tripped; 1 old result has no new one (--allow-missing lets that pass)"}, {c, []*Rule{slower, slower}, true, "2 rules of 2 tripped"},
		{c, []*Rule{later}, true, ""}, {c, []*Rule{later}, false, "1 old result has no new one (--allow-missing lets that pass)"}, {c, nil, false, ""}, {kept, []*Rule{slower, later}, false, ""},
		{kept, []*Rule{unknown}, false, "no point has ttft_mean_ms in both results (--allow-missing lets that pass)"}, {kept, []*Rule{unknown, later}, true, ""},
	} {
		got := ""
		if err := k.of.Judge(k.rules, k.lost); err != nil {
			got = err.Error()
		}
		if got != k.want {
			t.Errorf("%q, want %q", got, k.want)
		}
	}

	var text, markdown, asJSON strings.Builder
	o := CompareOptions{Metrics: []string{"output_tokens_per_s"}, Rules: []*Rule{slower, later}}
	c.GainedMetrics, c.LostMetrics = []string{"g1", "g2", "g3", "g4", "g5", "g6"}, []string{"1", "2", "3", "4", "5", "6", "7"}
	if err := c.WriteText(&text, o); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteMarkdown(&markdown, o); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteJSON(&asJSON, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 points, 1 changed, 1 equal, 1 vanished\n", "\nvanished:\n  gone\n", "\nbeyond the limit output_tokens_per_s<-2%:\n  a  -3.00%\n", "\nonly in the new results: g1, g2, g3, g4, g5, g6\n", "\nonly in the old results: 7 metrics; --full shows them\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	text.Reset()
	absolute := rule("output_tokens_per_s<9")
	if err := c.WriteText(&text, CompareOptions{Rules: []*Rule{absolute}}); err != nil || !strings.Contains(text.String(), "\nbeyond the limit output_tokens_per_s<9:\n  a  -3.000\n  b  0\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
	for _, want := range []string{"\nvanished:\n\n- gone\n", "\nbeyond the limit `output_tokens_per_s<-2%`:\n\n- a  -3.00%\n", "| "} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("no %q in\n%s", want, markdown.String())
		}
	}
	for _, want := range []string{`"rule": "output_tokens_per_s<-2%",` + "\n      \"judged\": 2,\n      \"tripped\": [\n        \"a\"\n      ]", `"rule": "tbt_p99_ms>5%",` + "\n      \"judged\": 2,\n      \"tripped\": []", `"lost": 1`, `"change": -0.03`} {
		if !strings.Contains(asJSON.String(), want) {
			t.Errorf("no %q in\n%s", want, asJSON.String())
		}
	}
	if strings.Contains(asJSON.String(), "tbt_p99_ms\":") || len(c.Points[0].Metrics) != 2 {
		t.Errorf("other metrics are written, or lost:\n%s", asJSON.String())
	}
	// Equal points, and means over those with positive values: from 100 and 100 to 97 and 100.
	table := &Table{Columns: []string{"metric", "point", "old", "new", "delta"}}
	if c.addMetric(table, "output_tokens_per_s"); len(table.Rows) != 3 || table.Rows[0][1] != Of("a") || table.Rows[0][4] != Of("-3.00%") || table.Rows[1][1] != Of("(1 equal)") || table.Rows[2][1] != Of("geomean") || table.Rows[2][2] != Of("100.0") || table.Rows[2][3] != Of("98.49") || table.Rows[2][4] != Of("-1.51%") {
		t.Errorf("%v", table.Rows)
	}
	renamed, err := Compare(sweepTable(t, "old,6,1,done,,g,10,0\n"), sweepTable(t, "new,6,1,done,,g,10,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	table = &Table{Columns: table.Columns}
	if renamed.addMetric(table, "tbt_p99_ms"); len(table.Rows) != 1 || table.Rows[0][1] != Of("new (was old)") || table.Rows[0][4] != Of("from 0") {
		t.Errorf("%v", table.Rows)
	}
	table = &Table{Columns: table.Columns}
	if renamed.addMetric(table, "output_tokens_per_s"); len(table.Rows) != 1 || table.Rows[0][1] != Of("(1 equal)") {
		t.Errorf("%v", table.Rows)
	}
	asJSON.Reset()
	if err := renamed.WriteJSON(&asJSON, CompareOptions{Metrics: []string{"tbt_p99_ms"}}); err != nil || !strings.Contains(asJSON.String(), `"change": null`) {
		t.Errorf("%v\n%s", err, asJSON.String())
	}
	if got := kept.headline(); got != "2 points, equal in every metric" {
		t.Errorf("%s", got)
	}
}

// TestWordsOfColumns: names in words, with their unit.
func TestWordsOfColumns(t *testing.T) {
	for column, want := range map[string][2]string{
		"tbt_p99_ms": {"time between tokens, 99th percentile", "ms"}, "ttft_mean_ms": {"time to first token, mean", "ms"}, "tpot_p50_ms": {"time per output token, median", "ms"},
		"pcie.rate_GB_per_s": {"PCIe rate", "GB/s"}, "gpu.memory": {"GPU memory", ""}, "cache.block": {"cache block", ""}, "policy.name": {"policy", ""},
	} {
		words, unit := Words(column)
		if words != want[0] || unit != want[1] {
			t.Errorf("%s: %q, %q; want %q", column, words, unit, want)
		}
	}
}

// TestPlacesOutOfTables: cells outside a table are empty.
func TestPlacesOutOfTables(t *testing.T) {
	table := &Table{Columns: []string{"a", "b"}, Rows: [][]Value{{Of(1), Of(2)}}}
	for _, at := range [][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 2}} {
		if v, ok := table.Number(at[0], at[1]); v != 0 || ok {
			t.Errorf("%v: %v, %t", at, v, ok)
		}
	}
	if v, ok := table.Number(0, 1); v != 2 || !ok {
		t.Errorf("%v, %t", v, ok)
	}
	for _, at := range []int{-1, 2} {
		if got := table.Kind(at); got != "" {
			t.Errorf("column %d is %v", at, got)
		}
	}
	for _, at := range [][2]int{{-1, 1}, {1, -1}, {0, 2}, {2, 0}} {
		if wide := table.Wide(at[0], at[1]); len(wide.Columns)+len(wide.Rows) > 0 {
			t.Errorf("%v: %+v", at, wide)
		}
	}
	if wide := table.Wide(0, 1); len(wide.Columns) != 1 || wide.Rows[0][0] != Of(2) {
		t.Errorf("%+v", wide)
	}
	if wide := table.Wide(1, 0); len(wide.Columns) != 1 || wide.Rows[0][0] != Of(1) || wide.Columns[0] != "2" {
		t.Errorf("%+v", wide)
	}
}

// TestFrontsInText: a front of one seed a point has no spread, and one without keys says so.
func TestFrontsInText(t *testing.T) {
	table := sweepTable(t, "a,1,1,done,,a,100,10\nb,2,1,done,,b,200,5\nc,3,1,done,,c,50,50\n")
	var b strings.Builder
	if err := explore(t, table, "max output_tokens_per_s, min tbt_p99_ms").WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"left out", "std", "seeds"} {
		if strings.Contains(b.String(), not) {
			t.Errorf("%s in\n%s", not, b.String())
		}
	}
	b.Reset()
	if err := explore(t, sweepTable(t, "a,1,1,done,,a,100,10\nb,1,1,done,,b,200,5\n"), "max output_tokens_per_s, min tbt_p99_ms").WriteText(&b); err != nil || !strings.Contains(b.String(), "\nno key varies over the points but goals\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
