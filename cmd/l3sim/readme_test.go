package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
)

// TestREADME runs the README's first command: its sample is what a new user sees.
func TestREADME(t *testing.T) {
	if testing.Short() {
		t.Skip("a default run")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```text\n")
	sample, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("README.md has no sample")
	}
	var out, messages bytes.Buffer
	if code := run(t.Context(), []string{"run", "--quiet"}, &out, &messages); code != cli.OK || messages.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, messages.String())
	}
	wall := regexp.MustCompile(`(?m)^(wall time +)[0-9.,]+ s$`)
	if got, want := wall.ReplaceAllString(out.String(), "$1"), wall.ReplaceAllString(sample, "$1"); got != want {
		t.Errorf("the sample of README.md is out of date; the run now prints\n%s", out.String())
	}
}

// TestExamplesWriteIntoNoPackage: what the pages and the help tell a user to write
// goes into a folder that git ignores, and into none of this module's.
func TestExamplesWriteIntoNoPackage(t *testing.T) {
	texts := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/lab/*.md", "examples/*", "examples/ci/*"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil { // no folder
				texts[f] = string(text)
			}
		}
	}
	for _, c := range everyCommand(program.Root(&cli.App{})) {
		texts[c.CommandPath()] = c.Example
	}
	folder := regexp.MustCompile(`(?:--out[ =]"?|out=(?:\$\{1:-)?)([A-Za-z0-9_-]+)/`)
	found := 0
	for name, text := range texts {
		for _, m := range folder.FindAllStringSubmatch(text, -1) {
			found++
			if m[1] != "out" && m[1] != "docs" {
				t.Errorf("%s writes into %s", name, m[0])
			}
		}
	}
	if ignored, err := os.ReadFile("../../.gitignore"); err != nil || !strings.Contains(string(ignored), "/out/\n") || found < 20 {
		t.Errorf("%v, %d folders: %s", err, found, ignored)
	}
}
