package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/l3sim/l3sim/internal/lab/fused"
)

func main() { unitchecker.Main(fused.Analyzer) }
