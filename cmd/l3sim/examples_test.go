//go:build unix

package main

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

	"github.com/l3sim/l3sim/internal/lab/deep"
)

// examples is the folder of examples from this package.
const examples = "../../examples"

// step is a step of a GitHub workflow that runs commands.
type step struct{ name, commands string }

// workflowSteps returns the steps with commands of a workflow file in the plain
// form of ours: "- name:" before "run:", on one line or as a block.
func workflowSteps(text string) []step {
	var steps []step
	name, block, indent := "", false, 0
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if block && (depth > indent || trimmed == "") {
			steps[len(steps)-1].commands += trimmed + "\n"
			continue
		}
		block = false
		if rest, ok := strings.CutPrefix(trimmed, "- name: "); ok {
			name = rest
		}
		if rest, ok := strings.CutPrefix(trimmed, "run: "); ok {
			if rest == "|" {
				rest, block, indent = "", true, depth
			}
			steps = append(steps, step{name, rest})
		}
	}
	return steps
}

// TestWorkflow runs the steps of examples/ci/sweep.yml in a repository with a
// pull request that narrows the PCIe links, with a stand-in for gh.
func TestWorkflow(t *testing.T) {
	deep.Only(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	steps := workflowSteps(string(read(t, filepath.Join(examples, "ci/sweep.yml"))))
	design := string(read(t, filepath.Join(examples, "ci/design.toml")))
	uploaded := regexp.MustCompile(`(?m)upload-artifact@.*\n +with:\n(?: +name: .*\n)? +path: (\S+)$`).FindStringSubmatch(string(read(t, filepath.Join(examples, "ci/sweep.yml"))))
	if uploaded == nil {
		t.Fatal("no upload with a path")
	}
	if len(steps) != 6 {
		t.Fatalf("%d steps with commands", len(steps))
	}
	for _, c := range []struct {
		name, change string
		pass         bool
		comment      string
	}{
		{"no change", design, true, "4 points, equal in every metric"},
		{"narrow links", strings.Replace(design, "[set]", "[set]\npcie.lanes = 1", 1), false, "beyond the limit `output_tokens_per_s<-2%`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			repository := filepath.Join(dir, "repository")
			bin := filepath.Join(dir, "bin")
			for _, d := range []string{filepath.Join(repository, "examples/ci"), bin} {
				if err := os.MkdirAll(d, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			linked(t, bin)
			save := func(path, text string, mode os.FileMode) {
				if err := os.WriteFile(path, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			save(filepath.Join(bin, "gh"), "#!/bin/sh\necho \"$@\" > "+dir+"/gh-arguments\ncp out/diff.md "+dir+"/comment\n", 0o755)
			env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY="+dir+"/summary",
				"SWEEP=examples/ci/design.toml", "PULL_REQUEST=12", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
			shell := func(commands string) (string, error) {
				cmd := exec.Command("sh", "-e", "-c", commands)
				cmd.Dir, cmd.Env = repository, env
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			save(filepath.Join(repository, "examples/ci/design.toml"), design, 0o666)
			out, err := shell(`git init -q -b main
git add . && git -c user.name=x -c user.email=x@example.com commit -qm base
git update-ref refs/remotes/origin/main main`)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			save(filepath.Join(repository, "examples/ci/design.toml"), c.change, 0o666)
			for _, s := range steps {
				if s.name == "Install" { // from the network; the program under test is on the PATH
					continue
				}
				out, err := shell(s.commands)
				if s.name == "Verdict" {
					if (err == nil) != c.pass {
						t.Errorf("verdict: %v\n%s", err, read(t, filepath.Join(dir, "comment")))
					}
				} else if err != nil {
					t.Fatalf("%s: %v\n%s", s.name, err, out)
				}
			}
			if comment := string(read(t, filepath.Join(dir, "comment"))); !strings.Contains(comment, c.comment) {
				t.Errorf("comment:\n%s", comment)
			}
			if got := string(read(t, filepath.Join(dir, "gh-arguments"))); !strings.HasPrefix(got, "pr comment 12 ") {
				t.Errorf("gh %s", got)
			}
			for _, f := range []string{"throughput.png", "front.png"} {
				if text := read(t, filepath.Join(repository, uploaded[1], f)); !strings.HasPrefix(string(text), "\x89PNG") {
					t.Errorf("%s is no PNG", f)
				}
			}
		})
	}
}

// TestExamples plans every example sweep from the repository's root, as
// docs/lab/examples.md runs them.
func TestExamples(t *testing.T) {
	deep.Only(t)
	t.Chdir("../..")
	files, err := filepath.Glob("examples/*.toml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range append(files, "examples/ci/design.toml") {
		plan, err := planSweep(f)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		for i := range plan.Points {
			if plan.Points[i].Err != nil {
				t.Errorf("%s: %s: %v", f, plan.Points[i].Name, plan.Points[i].Err)
			}
		}
	}
}

// ablationPage is the page whose tables examples/ablation.sh writes.
const ablationPage = "../../docs/lab/ablation.md"

// ablationTable is a table of that page with its marks.
var ablationTable = regexp.MustCompile(`(?s)<!-- begin ([^\n]*) -->\n(.*?)<!-- end ([^\n]*) -->\n`)

// ablationFolder makes a folder with a page and what examples/ablation.sh needs, with as many requests in each sweep, and
// returns what runs the script there.
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
	linked(t, bin)
	return dir, func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"examples/ablation.sh"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+bin)
		out, err := cmd.Output()
		return string(out), err
	}
}

// TestAblationScript: examples/ablation.sh renews the tables of a page between their marks and nothing else, and prints the
// same ones without a page. They have each point of each sweep once, with its throughput. A page with other marks stays.
func TestAblationScript(t *testing.T) {
	deep.Only(t)
	before := string(read(t, ablationPage))
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
	for i, m := range ablationTable.FindAllStringSubmatch(after, -1) {
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
		"a table that nobody makes": strings.NewReplacer("begin long -->", "begin longer -->", "end long -->", "end longer -->").Replace(before),
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
	kind, model, _ := strings.Cut(name, " ")
	for _, line := range lines[min(2, len(lines)):] {
		row := cells(line)
		switch kind {
		case "steps", "changes":
			f("ablation", "model="+model+","+row[0], row[1])
		case "long":
			f("ablation_long", row[0], row[1])
		case "batches":
			for i, cell := range row[1:] {
				f("ablation_batches", row[0]+","+heads[i+1], cell)
			}
		case "predictors":
			for i, cell := range row[2:] {
				f("ablation_predictors", "model="+row[0]+",trace="+row[1]+","+heads[i+2], cell)
			}
		}
	}
}

// TestAblationPage: the tables of docs/lab/ablation.md have each point of the sweeps once. At full length they are what
// examples/ablation.sh writes.
func TestAblationPage(t *testing.T) {
	want := string(read(t, ablationPage))
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
		t.Error("docs/lab/ablation.md is not what 'sh examples/ablation.sh docs/lab/ablation.md' writes")
	}
}
