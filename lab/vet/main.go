package main

import (
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"

	"github.com/l3sim/l3sim/lab/fused"
)

func main() { unitchecker.Main(analyzers()...) }

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
