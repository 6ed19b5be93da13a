package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOptions counts the packages that use two fields with toml tags: one is used in its own package and another, the other
// nowhere.
func TestOptions(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.26\n",
		"a/a.go":      "package a\n\ntype Spec struct {\n\tOne int `toml:\"one\"`\n\tTwo int `toml:\"two\"`\n\tnone int\n}\n\nfunc (s *Spec) get() int { return s.One + s.none }\n",
		"b/b.go":      "package b\n\nimport \"example.com/m/a\"\n\nfunc f(s *a.Spec) { s.One = 2 }\n",
		"b/b_test.go": "package b\n\nimport \"example.com/m/a\"\n\nfunc g(s *a.Spec) { s.Two = 2 }\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all, err := options(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range all {
		got = append(got, o.name+": "+strings.Join(o.packages, " "))
	}
	if want := "a.Spec.One: a b\na.Spec.Two: "; strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	var out bytes.Buffer
	printOptions(&out, append(all, option{"a.Spec.Four", []string{"a", "b", "c", "d"}}))
	if !strings.Contains(out.String(), "2        1\n") || !strings.HasSuffix(out.String(), "a.Spec.Four                                         4  a b c d\n") || strings.Contains(out.String(), "One ") {
		t.Error(out.String())
	}
}
