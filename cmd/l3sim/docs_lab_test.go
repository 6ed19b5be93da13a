//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

var update = flag.Bool("update", false, "write the table of systems, and what commands on pages print")

// TestSystemsTable: the table of docs/reference/systems.md is that of the list of systems.
func TestSystemsTable(t *testing.T) {
	const path, head = "../../docs/reference/systems.md", "| system | hardware | schedule | source | sections |\n"
	var b strings.Builder
	b.WriteString(head + "| --- | --- | --- | --- | --- |\n")
	for _, s := range system.Systems(system.Configs()) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` |\n", s.Name, s.Hardware, s.Schedule, s.Source, strings.ReplaceAll(s.Sections, ", ", "`, `"))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	_, after, end := strings.Cut(rest, "\n\n")
	if !ok || !end {
		t.Fatalf("%s has no table %q", path, head)
	}
	want := before + b.String() + "\n" + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not the list's; 'go test ./cmd/l3sim -run SystemsTable -update' writes it", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestTracePage: docs/traces.md has every readable format and every built-in trace.
func TestTracePage(t *testing.T) {
	page := string(read(t, "../../docs/traces.md"))
	for _, name := range append(traces.FormatNames(), traces.BuiltinNames()...) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/traces.md lacks %s", name)
		}
	}
}

// TestScaleOutPage: the commands of docs/reference/scale-out.md write the jobs in testdata/ranks.*, and the page shows their head
// comments, which explain their use.
func TestScaleOutPage(t *testing.T) {
	t.Chdir("../..")
	page := string(read(t, "docs/reference/scale-out.md"))
	for form, of := range map[string]struct{ fence, file string }{"slurm": {"bash", "ranks.sh"}, "k8s": {"yaml", "ranks.yaml"}} {
		command := "l3sim sweep examples/ranks.toml --emit " + form + " --shards 8 --out out/ranks"
		if !strings.Contains(page, "\n"+command+" > "+of.file+"\n") {
			t.Errorf("the page lacks %q", command)
		}
		var out, messages bytes.Buffer
		if code := run(t.Context(), strings.Fields(command)[1:], &out, &messages); code != cli.OK {
			t.Fatalf("exit code %d: %s", code, messages.String())
		}
		path := "cmd/l3sim/testdata/" + of.file
		if *update {
			if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if string(read(t, path)) != out.String() {
			t.Errorf("%s is not what %s writes:\n%s", path, command, out.String())
		}
		head := ""
		for line := range strings.Lines(out.String()) {
			if !strings.HasPrefix(line, "#") {
				break
			}
			head += line
		}
		if !strings.Contains(page, "```"+of.fence+"\n"+head+"```\n") || strings.Count(head, "\n") < 5 {
			t.Errorf("the page does not show\n%s", head)
		}
	}
}

// TestExamplesWriteIntoNoPackage: the outputs of the commands on pages and in help go into a folder
// that git ignores, and into none of the module's.
func TestExamplesWriteIntoNoPackage(t *testing.T) {
	texts := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "lab/docs/*.md", "examples/*", "examples/ci/*"} {
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
			if m[1] != "out" && m[1] != "lab" {
				t.Errorf("%s writes into %s", name, m[0])
			}
		}
	}
	if ignored, err := os.ReadFile("../../.gitignore"); err != nil || !strings.Contains(string(ignored), "/out/\n") || found < 20 {
		t.Errorf("%v, %d folders: %s", err, found, ignored)
	}
}
