package system_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// The programs of docs/reference/policies-and-systems.md, by their headings.
var programs = []struct{ heading, file, example string }{
	{"Write a policy", "../attention/policies/example/snapkv_test.go", "Example"},
	{"Write a system", "cxl_test.go", "ExampleExtend"},
}

// TestPageHasThePrograms: the pieces of Go under a heading of docs/reference/policies-and-systems.md are in its program, in this order,
// and the printed output is the program's.
func TestPageHasThePrograms(t *testing.T) {
	page := read(t, "../docs/reference/policies-and-systems.md")
	for _, p := range programs {
		_, section, _ := strings.Cut(page, "\n## "+p.heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rest, pieces := read(t, p.file), 0
		for _, block := range regexp.MustCompile("(?s)```(\\w*)\n(.*?)\n```\n").FindAllStringSubmatch(section, -1) {
			piece := block[2]
			if block[1] == "sh" {
				continue
			}
			if block[1] == "" { // printed output
				piece = "\t// " + strings.ReplaceAll(piece, "\n", "\n\t// ") + "\n"
			}
			_, after, found := strings.Cut(rest, piece)
			if !found {
				t.Errorf("%s: %s lacks, or has earlier,\n%s", p.heading, p.file, piece)
				continue
			}
			rest, pieces = after, pieces+1
		}
		if pieces < 4 {
			t.Errorf("%s: the page has %d pieces of %s", p.heading, pieces, p.file)
		}
	}
}

// TestProgramsOutside: the programs compile in a separate module, which cannot import internal packages, and print what
// their examples say.
func TestProgramsOutside(t *testing.T) {
	deep.Only(t) // it compiles all packages that they use
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(read(t, "../go.mod"), "module github.com/l3sim/l3sim\n", "module example.com/outside\n", 1)
	module += "\nrequire github.com/l3sim/l3sim v0.0.0\nreplace github.com/l3sim/l3sim => " + root + "\n"
	for _, p := range programs {
		t.Run(p.example, func(t *testing.T) {
			program := regexp.MustCompile(`^package \w+\n`).ReplaceAllString(read(t, p.file), "package main\n")
			program = strings.Replace(program, "\nfunc "+p.example+"() {", "\nfunc main() {", 1)
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": module, "go.sum": read(t, "../go.sum"), "main.go": program} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "go", "run", ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
			got, err := cmd.CombinedOutput()
			_, want, _ := strings.Cut(program, "\t// Output:\n")
			want = regexp.MustCompile(`(?m)^\t// ?`).ReplaceAllString(strings.TrimSuffix(want, "}\n"), "")
			if err != nil || string(got) != want {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
