package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/unitchecker"
)

// TestOfDependency: packages of other modules that are read only for their facts are distinguished from checked ones.
func TestOfDependency(t *testing.T) {
	for _, c := range []struct {
		unit unitchecker.Config
		want bool
	}{
		{unitchecker.Config{ImportPath: "bytes", VetxOnly: true}, true},
		{unitchecker.Config{ImportPath: "gonum.org/v1/gonum/mat", VetxOnly: true}, true},
		{unitchecker.Config{ImportPath: module + "/gpu", VetxOnly: true}, false},
		{unitchecker.Config{ImportPath: module + "/gpu"}, false},
		{unitchecker.Config{ImportPath: "bytes"}, false},
	} {
		file := filepath.Join(t.TempDir(), "unit.cfg")
		text, err := json.Marshal(c.unit)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ofDependency(file); got != c.want {
			t.Errorf("%s, VetxOnly %v: %v", c.unit.ImportPath, c.unit.VetxOnly, got)
		}
	}
	for _, arg := range []string{"-V=full", "-flags", "help", "none.cfg", "main.go"} {
		if ofDependency(arg) {
			t.Errorf("%s is a unit", arg)
		}
	}
}
