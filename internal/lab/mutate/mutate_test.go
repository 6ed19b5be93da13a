package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFindMutants plants each operator's mistakes in a function and looks at the text.
func TestFindMutants(t *testing.T) {
	for source, want := range map[string][]string{
		"if a < b { f() }":           {"if !(a < b) { f() }", "if b < a { f() }", "if a <= b { f() }", "if a < b {  }", ""},
		"if a == b { f() }":          {"if a != b { f() }", "if a == b {  }", ""},
		"for !a { break }":           {"for !(!a) { break }", "for a { break }", "for !a { continue }", "for !a {  }", ""},
		"x = a - 2*b":                {"x = 2*b - a", "x = a + 2*b", "x = a - 3*b", "x = a - 2/b", ""},
		"x += 0x10":                  {"x -= 0x10", "x = 0x10", "x += 17", ""},
		"x := a && true":             {"x := a || true", "x := a && false"},
		"x++":                        {"x--", ""},
		"return y, err":              {"return y, nil"},
		"f(a, 1.5)":                  {"f(1.5, a)", "f(a, (1.5*1.5))", ""},
		"defer f()":                  {""},
		"switch x { case 1: f() }":   {"switch x { case 2: f() }", "switch x { case 1:  }"},
		"var x = \"text\"":           nil,
		"if err != nil {return err}": {"if err == nil {return err}", "if err != nil {return nil}", ""},
	} {
		const head, tail = "package p\n\nfunc f() {\n\t", "\n}\n"
		mutants, err := findMutants("p.go", []byte(head+source+tail))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range mutants {
			text := string(mutants[i].apply([]byte(head + source + tail)))
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(text, head), tail))
			if mutants[i].line != 4 {
				t.Errorf("%s is on line %d", source, mutants[i].line)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s becomes\n%q, want\n%q", source, got, want)
		}
	}
}

// TestMutantsParse: what the operators leave of real files is Go.
func TestMutantsParse(t *testing.T) {
	files, err := filepath.Glob("../sweep/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, name := range files[:10] {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		mutants, err := findMutants(name, source)
		if err != nil {
			t.Fatal(err)
		}
		for i := range mutants {
			text := mutants[i].apply(source)
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil || bytes.Equal(text, source) {
				t.Errorf("%v: %v", &mutants[i], err)
			}
		}
	}
}

// TestCarryOut runs the mutants of a package whose tests miss a boundary.
func TestCarryOut(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/p\n\ngo 1.26\n",
		"p.go":      "package p\n\nfunc big(x int) bool {\n\treturn x > 10\n}\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestBig(t *testing.T) {\n\tif big(1) || !big(20) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	o := options{pkg: ".", workers: 2, lines: regexp.MustCompile("p.go:4")}
	var out bytes.Buffer
	if err := o.carryOut(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	want := []string{"2 survived, 1 were found, 0 by a time limit; 0 do not compile", "p.go:4: 10 becomes 11", "p.go:4: > becomes >="}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
	o.lines = regexp.MustCompile("nowhere")
	if err := os.WriteFile("p_test.go", []byte("package p\n\nimport \"testing\"\n\nfunc TestBig(t *testing.T) { t.Fail() }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := o.carryOut(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "fail as they are") {
		t.Errorf("tests that fail without a mutant: %v", err)
	}
}
