package tables

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/l3sim/l3sim/internal/deep"
)

// readers are the functions that may convert text to a number: parse reads cells of files, the others what
// a user writes in a flag or in the environment.
var readers = []string{"tables.parse", "sweep.ParseShard", "sweep.variable"}

// parsers are the functions that may read text as a cell: from files, from flags, from keys in base.json, and in the writer
// that checks whether a text looks like a number.
var parsers = []string{"readCSV", "UnmarshalJSON", "Condition", "ParseRule", "numberIn", "addKeys", "needsGuard"}

// TestNoNumberFromText: between a run and a figure only readers convert text to numbers. A cell has a type of its own that is
// opaque to other packages: they get numbers through Float, which reads no text.
func TestNoNumberFromText(t *testing.T) {
	deep.Heavy(t)
	all, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports},
		"github.com/l3sim/l3sim/results/...", "github.com/l3sim/l3sim/internal/report", "github.com/l3sim/l3sim/internal/sweep", "github.com/l3sim/l3sim/internal/plan", "github.com/l3sim/l3sim/lab/claims")
	if err != nil || len(all) < 8 {
		t.Fatal(len(all), err)
	}
	found, parse := map[string]bool{}, map[string]bool{}
	for _, p := range all {
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				name := "a variable"
				if f, ok := d.(*ast.FuncDecl); ok {
					name = f.Name.Name
				}
				ast.Inspect(d, func(n ast.Node) bool {
					id, ok := n.(*ast.Ident)
					if !ok {
						return true
					}
					f, ok := p.TypesInfo.Uses[id].(*types.Func)
					if ok && f.Name() == "parse" && f.Pkg().Name() == "tables" {
						parse[name] = true
					}
					if ok && f.Pkg() != nil && (f.Pkg().Path() == "strconv" && (strings.HasPrefix(f.Name(), "Parse") || f.Name() == "Atoi") || f.Pkg().Path() == "fmt" && strings.Contains(strings.ToLower(f.Name()), "scan") || f.Pkg().Path() == "math/big" && strings.Contains(f.Name(), "Parse")) {
						found[p.Name+"."+name] = true
					}
					return true
				})
			}
		}
	}
	for _, r := range readers {
		if !found[r] {
			t.Errorf("%s parses no number", r)
		}
		delete(found, r)
	}
	for _, name := range parsers {
		delete(parse, name)
	}
	for f := range parse {
		t.Errorf("%s reads a text as a cell", f)
	}
	for f := range found {
		t.Errorf("%s makes a number of a text", f)
	}
}
