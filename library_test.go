package l3sim_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLibraryPage compares the programs of docs/library.md with the examples that
// they say they are.
func TestLibraryPage(t *testing.T) {
	page, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- example (\\S+) (\\S+) -->\n```go\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "```go"); n < 3 || n != len(shown) {
		t.Errorf("%d programs, of which %d name an example", n, len(shown))
	}
	for _, s := range shown {
		source, err := os.ReadFile(s[1])
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, s[1], source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		body := ""
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == s[2] {
				body = string(source[files.Position(f.Body.Lbrace).Offset+2 : files.Position(f.Body.Rbrace).Offset])
			}
		}
		if body = strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:]; body != s[3] {
			t.Errorf("%s of %s is\n%s\nthe page has\n%s", s[2], s[1], body, s[3])
		}
	}
}
