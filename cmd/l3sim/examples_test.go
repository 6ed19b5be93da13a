//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
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

// TestWorkflow runs the command of action.yml, and with it examples/ci/compare.sh, in a repository with pull requests: a first one
// without a base sweep, one that changes nothing, and one that narrows the PCIe links; then against a stored baseline.
func TestWorkflow(t *testing.T) {
	deep.Only(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	steps := workflowSteps(string(read(t, "../../action.yml")))
	if len(steps) != 1 {
		t.Fatalf("%d steps with commands", len(steps))
	}
	script, err := filepath.Abs(filepath.Join(examples, "ci/compare.sh"))
	if err != nil {
		t.Fatal(err)
	}
	design := string(read(t, filepath.Join(examples, "ci/design.toml")))
	narrow := strings.Replace(design, "[set]", "[set]\npcie.lanes = 1", 1)
	const rule = "beyond the limit `output_tokens_per_s<-2%`"
	for _, c := range []struct {
		name, base, change string
		pass               bool
		summary            string
	}{
		{"first", "", design, true, "No baseline to compare with: these are the first results."},
		{"no change", design, design, true, "4 points, equal in every metric"},
		{"narrow links", design, narrow, false, rule},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			repository, bin, action := filepath.Join(dir, "repository"), filepath.Join(dir, "bin"), filepath.Join(dir, "action/examples/ci")
			for _, d := range []string{filepath.Join(repository, "designs"), bin, action} {
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
			save(filepath.Join(action, "compare.sh"), string(read(t, script)), 0o755)
			save(filepath.Join(bin, "go"), "#!/bin/sh\n[ \"$1 $2\" = \"build -C\" ] && cp "+bin+"/l3sim \"$5\"\n", 0o755) // the tested program exists already
			env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GITHUB_BASE_REF=main", "GITHUB_STEP_SUMMARY="+dir+"/summary", "RUNNER_TEMP="+dir,
				"ACTION="+dir+"/action", "SWEEP=designs/design.toml", "OUT=out", "BASELINE=", "RULES=output_tokens_per_s<-2%\ntbt_p99_ms>5%\n", "PLOT=--kind pareto --x tbt_p99_ms --y output_tokens_per_s",
				"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
			shell := func(commands string) (string, error) {
				cmd := exec.Command("sh", "-e", "-c", commands)
				cmd.Dir, cmd.Env = repository, env
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			save(filepath.Join(repository, "README"), "designs\n", 0o666)
			if c.base != "" {
				save(filepath.Join(repository, "designs/design.toml"), c.base, 0o666)
			}
			if out, err := shell(`git init -q -b main
git add . && git -c user.name=x -c user.email=x@example.com commit -qm base
git update-ref refs/remotes/origin/main main`); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			save(filepath.Join(repository, "designs/design.toml"), c.change, 0o666)
			out, err := shell(steps[0].commands)
			if (err == nil) != c.pass {
				t.Fatalf("%v\n%s", err, out)
			}
			summary := string(read(t, filepath.Join(dir, "summary")))
			if !strings.Contains(summary, c.summary) || !strings.Contains(summary, "![designs/design.toml](figure.svg)") || !strings.Contains(summary, "\nl3sim v") {
				t.Errorf("summary:\n%s", summary)
			}
			if text := string(read(t, filepath.Join(repository, "out/figure.svg"))); !strings.Contains(text, "<svg") {
				t.Error("figure.svg is none")
			}
			if out, err := shell("git worktree list | wc -l | grep -qx ' *1'"); err != nil {
				t.Errorf("a work tree is left: %s", out)
			}
			// Any CI runner, with a stored baseline.
			out, err = shell(script + " designs/design.toml again --baseline out/new --rule 'output_tokens_per_s<-2%'")
			if err != nil || !strings.Contains(string(read(t, filepath.Join(repository, "again/summary.md"))), "4 points, equal in every metric") {
				t.Errorf("%v\n%s", err, out)
			}
			for flags, want := range map[string]string{
				"designs/design.toml again":                     "again: it exists already",
				"no.toml new":                                   "no.toml: expected a sweep file",
				"designs/design.toml new --rules x":             "compare.sh SWEEP OUT",
				"designs/design.toml new --base origin/nothing": "origin/nothing: expected a commit of this repository: fetch it first",
				"$PWD/designs/design.toml new --base main":      "with --base, expected a path from here",
			} {
				if out, err := shell(script + " " + flags); err == nil || !strings.Contains(out, want) {
					t.Errorf("%s: %v\n%s", flags, err, out)
				}
			}
		})
	}
}

// TestCompareFirst runs examples/ci/compare.sh without a repository on a sweep one of whose points has no room for its weights: without a
// baseline, with a rule that is none, against a folder that is no sweep, and against the first results.
func TestCompareFirst(t *testing.T) {
	deep.Only(t)
	script, err := filepath.Abs(filepath.Join(examples, "ci/compare.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	linked(t, dir)
	text := "[set]\nrun.requests = 2\n[grid]\nrun.model = [\"llama-3-8b\", \"llama-3-70b\"]\nmodel.tensor_parallel = [1, 8]\n"
	if err := os.WriteFile(filepath.Join(dir, "fails.toml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags   string
		exit    int
		says    string // on the terminal
		summary string
	}{
		{"fails.toml a --baseline stored --rule 'output_tokens_per_s<2'", 0, "1 point of 4 failed", "No baseline to compare with in stored: these are the first results."},
		{"fails.toml b --rule 'output_tokens<<2'", 2, `--fail-if = "output_tokens<<2": expected METRIC<NUMBER%`, ""},
		{"fails.toml c --baseline a", 2, "a: expected a folder that --out named", ""},
		{"fails.toml d --baseline a/new --rule 'output_tokens_per_s<-2%'", 0, "1 point of 4 failed", "4 points, 3 equal, 1 still fails"},
	} {
		cmd := exec.Command("sh", "-c", script+" "+c.flags)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "L3SIM="+filepath.Join(dir, "l3sim"))
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.exit || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: exit code %d\n%s", c.flags, cmd.ProcessState.ExitCode(), out)
		}
		if c.summary == "" {
			continue
		}
		if summary := string(read(t, filepath.Join(dir, strings.Fields(c.flags)[1], "summary.md"))); !strings.Contains(summary, c.summary) {
			t.Errorf("%s:\n%s", c.flags, summary)
		}
	}
}

// TestExamples plans every example sweep from the repository's root, as
// lab/docs/findings.md runs them.
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
