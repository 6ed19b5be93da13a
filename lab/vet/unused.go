package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// unusedAnalyzer reports what staticcheck's U1000 finds. Staticcheck's own program reports what no variant of a package uses; here each
// variant is seen separately, so the variant with the package's tests decides for both.
var unusedAnalyzer = &analysis.Analyzer{
	Name: "unused", Doc: "report code that nothing uses (staticcheck's U1000)",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run:      reportUnused,
}

func reportUnused(pass *analysis.Pass) (any, error) {
	tested, err := testedElsewhere(pass)
	if err != nil || tested {
		return nil, err
	}
	files := map[string]*token.File{}
	for _, f := range pass.Files {
		file := pass.Fset.File(f.Pos())
		files[file.Name()] = file
	}
	for _, o := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
		if file := files[o.Position.Filename]; file != nil {
			pass.Reportf(file.LineStart(o.Position.Line), "%s %s is unused", o.Kind, o.Name)
		}
	}
	return nil, nil
}

// testedElsewhere says that another variant of the package has its tests.
func testedElsewhere(pass *analysis.Pass) (bool, error) {
	dir := ""
	for _, f := range pass.Files {
		name := pass.Fset.File(f.Pos()).Name()
		if strings.HasSuffix(name, "_test.go") {
			return false, nil
		}
		dir = filepath.Dir(name)
	}
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || dir == "" {
		return false, err
	}
	for _, path := range tests {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err != nil {
			return false, err
		}
		if f.Name.Name == pass.Pkg.Name() {
			return true, nil
		}
	}
	return false, nil
}
