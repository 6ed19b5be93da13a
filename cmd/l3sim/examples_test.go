//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
