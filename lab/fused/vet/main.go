package main

import (
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/l3sim/l3sim/lab/fused"
)

func main() { unitchecker.Main(append(vet.Suite, fused.Analyzer)...) }
