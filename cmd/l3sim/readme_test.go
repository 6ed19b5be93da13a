package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
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
	if code := run(t.Context(), []string{"run", "--quiet"}, &out, &messages); code != exitOK || messages.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, messages.String())
	}
	wall := regexp.MustCompile(`(?m)^(wall time +)[0-9.,]+ s$`)
	if got, want := wall.ReplaceAllString(out.String(), "$1"), wall.ReplaceAllString(sample, "$1"); got != want {
		t.Errorf("the sample of README.md is out of date; the run now prints\n%s", out.String())
	}
}
