package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCountLines(t *testing.T) {
	for source, want := range map[string]lines{
		"package p\n":                            {code: 1},
		"package p\n\n// one\n":                  {code: 1, comment: 1, blank: 1},
		"package p // beside code\n":             {code: 1},
		"package p\n\n/* two\n\nlines */\n":      {code: 1, comment: 3, blank: 1},
		"package p\n\nvar s = `a\n\n// no`\n":    {code: 4, blank: 1},
		"package p\n\nfunc f() {\n\tf() // x\n}": {code: 4, blank: 0},
	} {
		if got := countLines([]byte(source)); got != want {
			t.Errorf("%q: %+v, want %+v", source, got, want)
		}
	}
}

// TestCountTokens: counted by hand. Line breaks, comments and longer names add nothing.
func TestCountTokens(t *testing.T) {
	for source, want := range map[string]int{
		"":            0,
		"package p\n": 2,
		"// Package p.\npackage p // here\n\n/* and\nthere */\n": 2,
		"package p; var x int\n":                                 6, // explicit semicolon
		"package p\n\nvar x int\n":                               5, // no explicit semicolon
		"package p\n\nvar s = `a\nb;c`\n":                        6, // a literal is one token
		// package p; func f ( a , b int ) int { return a + b * 2 }
		"package p\n\nfunc f(a, b int) int { return a + b*2 }\n":          2 + 9 + 1 + 6 + 1,
		"package p\n\nfunc f(a, b int) int {\n\treturn a +\n\t\tb*2\n}\n": 2 + 9 + 1 + 6 + 1,
		"package p\n\nfunc f() { for i := 0; i < 3; i++ { f() } }\n":      2 + 5 + 4 + 1 + 3 + 1 + 2 + 1 + 3 + 2,
	} {
		if got := countTokens([]byte(source)); got != want {
			t.Errorf("%q: %d tokens, want %d", source, got, want)
		}
	}
}

// TestReadSource counts a small checkout by kind and by package.
func TestReadSource(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":                "// Package a is small.\npackage a\n\n// T has three fields.\ntype T struct {\n\tA, B int\n\tc    int\n}\n\nfunc (T) M() {}\nfunc f() {}\n\nconst X, y = 1, 2\n",
		"a/a_test.go":           "package a\n\nvar Exported int\n",
		"a/testdata/no.go":      "package no\n",
		"lab/l/l.go":            "package l\n",
		"lab/cmd/l3lab/main.go": "package main\n\nfunc main() {}\n",
		".hidden/h.go":          "package h\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	if want := [kinds]lines{{8, 2, 3}, {3, 0, 1}, {2, 0, 1}}; s.kinds != want {
		t.Errorf("product, lab and tests: %+v, want %+v", s.kinds, want)
	}
	// Product: 2 of package a, 11 of T, 9 of M, 6 of f and 8 of the constants. Lab: 2 of l, 2 and 6 of main.
	if want := [kinds]int{2 + 11 + 9 + 6 + 8, 2 + 2 + 6, 5}; s.tokens != want {
		t.Errorf("tokens of product, lab and tests: %v, want %v", s.tokens, want)
	}
	if want := []string{"a", "lab/cmd/l3lab", "lab/l"}; !slices.Equal(s.packageNames(), want) {
		t.Errorf("packages %v, want %v", s.packageNames(), want)
	}
	if a := s.packages["a"]; a.exported != 3 { // T, M, X
		t.Errorf("%d exported names in a, want 3", a.exported)
	}
	if want := []structType{{"a.T", 3}}; !slices.Equal(s.structs, want) {
		t.Errorf("structs %v, want %v", s.structs, want)
	}
	var out bytes.Buffer
	if code := run([]string{root}, &out, os.Stderr); code != 0 || !strings.Contains(out.String(), "product and lab") {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}
