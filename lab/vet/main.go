package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"

	"github.com/l3sim/l3sim/lab/fused"
)

// dependencies says that facts about dependencies are computed, too: which of their functions are deprecated, pure, or print like
// Printf. That takes as long as all else; 'go build -ldflags "-X main.dependencies=yes"' sets it.
var dependencies string

func main() {
	if dependencies == "" && ofDependency(os.Args[len(os.Args)-1]) {
		unitchecker.Main(fused.Analyzer) // fused has no facts: only types are written
	}
	unitchecker.Main(analyzers()...)
}

const module = "github.com/l3sim/l3sim"

// ofDependency says that a unit is a package of another module, which is read only for its types and facts.
func ofDependency(unit string) bool {
	if filepath.Ext(unit) != ".cfg" {
		return false
	}
	text, err := os.ReadFile(unit)
	var c unitchecker.Config
	return err == nil && json.Unmarshal(text, &c) == nil && c.VetxOnly && !strings.HasPrefix(c.ImportPath, module)
}

// analyzers returns all analysers.
func analyzers() []*analysis.Analyzer {
	all := append(slices.Clone(vet.Suite), fused.Analyzer, unusedAnalyzer)
	for _, list := range [][]*lint.Analyzer{simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers} {
		for _, a := range list {
			if !a.Doc.NonDefault {
				all = append(all, a.Analyzer)
			}
		}
	}
	return all
}
