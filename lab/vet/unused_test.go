package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// TestUnused: names that a package without tests does not use are reported.
func TestUnused(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), unusedAnalyzer, "a")
}
