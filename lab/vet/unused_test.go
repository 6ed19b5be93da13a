package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// TestUnused: what a package without tests does not use is reported.
func TestUnused(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), unusedAnalyzer, "a")
}
