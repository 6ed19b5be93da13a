package docs

import (
	"encoding/csv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// findingsPage is the page whose tables examples/ablation.sh, designs.sh and measures.sh write.
const findingsPage = "findings.md"

// ablationTables are the tables that examples/ablation.sh writes.
var ablationTables = []string{"steps", "changes", "batches", "predictors", "paper", "long"}

// ablationTable is a table of the page with its marks.
var ablationTable = regexp.MustCompile(`(?s)<!-- begin ([^\n]*) -->\n(.*?)<!-- end ([^\n]*) -->\n`)

// ablationFolder makes a folder with a page and the inputs of examples/ablation.sh, with this number of requests in each
// sweep, and returns a function that runs the script there.
func ablationFolder(t *testing.T, text, requests string) (dir string, script func(args ...string) (string, error)) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob(filepath.Join(examples, "ablation*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %v", files, err)
	}
	files = append(files, filepath.Join(examples, "renew.awk"))
	if err := os.Mkdir(filepath.Join(dir, "examples"), 0o777); err != nil {
		t.Fatal(err)
	}
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		text := string(read(t, f))
		if filepath.Ext(f) == ".toml" {
			if strings.Count(text, "\nrun.requests = 1000\n") != 1 {
				t.Fatalf("%s has not 1,000 requests", f)
			}
			text = strings.Replace(text, "\nrun.requests = 1000\n", "\nrun.requests = "+requests+"\n", 1)
		}
		save(filepath.Join("examples", filepath.Base(f)), text)
	}
	save("page.md", text)
	bin := t.TempDir()
	built(t, bin)
	return dir, func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"examples/ablation.sh"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+bin)
		out, err := cmd.Output()
		return string(out), err
	}
}

// TestAblationScript: examples/ablation.sh rewrites the tables between its marks in a page, and nothing else; without a page it prints
// these tables. The tables have each point of each sweep once, with its throughput. A page without the marks stays unchanged.
func TestAblationScript(t *testing.T) {
	deep.Only(t)
	before := string(read(t, findingsPage))
	dir, script := ablationFolder(t, before, "1")
	if _, err := script("page.md"); err != nil {
		t.Fatal(err)
	}
	after := string(read(t, filepath.Join(dir, "page.md")))
	if ablationTable.ReplaceAllString(before, "$1") != ablationTable.ReplaceAllString(after, "$1") {
		t.Error("the script changes more than tables")
	}
	printed, err := script()
	if err != nil {
		t.Fatal(err)
	}
	old := ablationTable.FindAllStringSubmatch(before, -1)
	shown := map[string]map[string]string{} // throughput by point by sweep
	written := 0
	for i, m := range ablationTable.FindAllStringSubmatch(after, -1) {
		if !slices.Contains(ablationTables, m[1]) {
			if m[0] != old[i][0] {
				t.Errorf("the script changes the table %s of others:\n%s", m[1], m[2])
			}
			continue
		}
		written++
		if m[1] != m[3] || m[2] == old[i][2] || !strings.Contains(printed, "\n"+m[1]+"\n\n"+m[2]) {
			t.Errorf("table %s, which ends as %s, is not renewed or not printed:\n%s", m[1], m[3], m[2])
		}
		ablationPoints(m[1], m[2], func(sweep, point, cell string) {
			if shown[sweep] == nil {
				shown[sweep] = map[string]string{}
			}
			if shown[sweep][point] != "" {
				t.Errorf("%s has %s twice", sweep, point)
			}
			shown[sweep][point] = cell
		})
	}
	if written != len(ablationTables) {
		t.Errorf("the page has %d tables of %q", written, ablationTables)
	}
	for _, sweep := range []string{"ablation", "ablation_batches", "ablation_predictors", "ablation_long"} {
		plan, err := planSweep(filepath.Join(dir, "examples", sweep+".toml"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(read(t, filepath.Join(dir, "out/examples", sweep, "results.csv"))))).ReadAll()
		if err != nil || len(rows) != len(plan.Points)+1 {
			t.Fatalf("%v, %d lines for %d points", err, len(rows), len(plan.Points))
		}
		point, rate := slices.Index(rows[0], "point"), slices.Index(rows[0], "output_tokens_per_s")
		for i := range plan.Points {
			name := plan.Points[i].Name
			value, err := strconv.ParseFloat(rows[i+1][rate], 64)
			if err != nil || rows[i+1][point] != name || !rounds(shown[sweep][name], value) {
				t.Errorf("the page shows %q for %s of %s, which has %v", shown[sweep][name], name, sweep, rows[i+1][rate])
			}
			delete(shown[sweep], name)
		}
		if len(shown[sweep]) > 0 {
			t.Errorf("%s has no %v", sweep, slices.Sorted(maps.Keys(shown[sweep])))
		}
	}

	for what, broken := range map[string]string{
		"an end of another name":    strings.Replace(before, "<!-- end long -->", "<!-- end longer -->", 1),
		"a table without its marks": strings.NewReplacer("begin long -->", "begin longer -->", "end long -->", "end longer -->").Replace(before),
	} {
		if err := os.WriteFile(filepath.Join(dir, "page.md"), []byte(broken), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := script("page.md"); err == nil || string(read(t, filepath.Join(dir, "page.md"))) != broken {
			t.Errorf("a page with %s: %v", what, err)
		}
	}
}

// ablationPoints calls f with each point that a table of the page shows, and with its throughput.
func ablationPoints(name, table string, f func(sweep, point, cell string)) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	cells := func(line string) []string {
		all := strings.Split(strings.Trim(line, "|"), "|")
		for i := range all {
			all[i] = strings.TrimSpace(all[i])
		}
		return all
	}
	heads := cells(lines[0])
	for _, line := range lines[min(2, len(lines)):] {
		row := cells(line)
		switch name {
		case "steps", "changes":
			for i, head := range heads {
				if model, ok := strings.CutSuffix(head, ": tokens/s"); ok {
					f("ablation", "model="+model+","+row[0], row[i])
				}
			}
		case "long":
			f("ablation_long", row[0], row[1])
		case "batches":
			for i, cell := range row[1:] {
				f("ablation_batches", row[0]+","+heads[i+1], cell)
			}
		case "predictors":
			for i, trace := range heads[1:] {
				for k, predictor := range strings.Split(heads[0], ", ") {
					f("ablation_predictors", "model="+row[0]+",trace="+trace+","+predictor, strings.Split(row[i+1], ", ")[k])
				}
			}
		}
	}
}

// TestAblationPage: the tables of lab/docs/findings.md have each point of the sweeps once. At full length
// examples/ablation.sh writes the same tables.
func TestAblationPage(t *testing.T) {
	want := string(read(t, findingsPage))
	shown := map[string]int{} // points by sweep and name
	for _, m := range ablationTable.FindAllStringSubmatch(want, -1) {
		ablationPoints(m[1], m[2], func(sweep, point, cell string) {
			if _, err := strconv.ParseFloat(cell, 64); err != nil {
				t.Errorf("%s of %s: %v", point, sweep, err)
			}
			shown[sweep+" "+point]++
		})
	}
	points := 0
	for _, sweep := range []string{"ablation", "ablation_batches", "ablation_predictors", "ablation_long"} {
		plan, err := planSweep(filepath.Join(examples, sweep+".toml"))
		if err != nil {
			t.Fatal(err)
		}
		points += len(plan.Points)
		for i := range plan.Points {
			if name := plan.Points[i].Name; shown[sweep+" "+name] != 1 {
				t.Errorf("%s of %s is shown %d times", name, sweep, shown[sweep+" "+name])
			}
		}
	}
	if len(shown) != points {
		t.Errorf("the page has %d points, the sweeps %d", len(shown), points)
	}
	if !deep.Long() {
		return
	}
	dir, script := ablationFolder(t, want, "1000")
	if _, err := script("page.md"); err != nil {
		t.Fatal(err)
	}
	if string(read(t, filepath.Join(dir, "page.md"))) != want {
		t.Error("lab/docs/findings.md is not what 'sh examples/ablation.sh lab/docs/findings.md' writes")
	}
}
