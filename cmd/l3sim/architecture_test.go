package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestImportsPointDown checks every import of the module against the rows of packages in
// docs/reference/architecture.md, and that the page's files exist.
func TestImportsPointDown(t *testing.T) {
	const root, module = "../..", "github.com/l3sim/l3sim/"
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]int{} // a package's position: row by row, left to right
	row := regexp.MustCompile(`(?m)^\| \d+ \| (.*) \|$`)
	for _, cells := range row.FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(cells[1], ", ") {
			place[strings.Trim(name, "`")] = len(place)
		}
	}
	for name, at := range place {
		files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("docs/reference/architecture.md names %s, which has no Go files: %v", name, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range parsed.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				imported, ours := strings.CutPrefix(path, module)
				if below, known := place[imported]; ours && known && below <= at {
					t.Errorf("%s imports %s, which stands above %s", file, imported, name)
				} else if ours && !known {
					t.Errorf("%s imports %s, which docs/reference/architecture.md does not name", file, imported)
				}
			}
		}
	}
	for _, name := range regexp.MustCompile("`([a-z0-9_/]+\\.(go|toml))`").FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join(root, name[1])); err != nil {
			t.Error(err)
		}
	}
}
