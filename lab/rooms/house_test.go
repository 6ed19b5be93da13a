package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a module of one page and Go files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module toy\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The test's house: top uses two names of low directly, a field and a method. low has an interface
// that only top implements, and one that both do.
var toy = map[string]string{
	"low/low.go": `package low

type T struct{ Field int }

func (T) Method() {}

type Seam interface{ Up() }

type Wide interface{ Method() }
`,
	"top/top.go": `package top

import "toy/low"

type Top struct{}

func (Top) Up() {}

func (Top) Method() {}

func Use(t low.T) int { t.Method(); return t.Field }
`,
}

func TestHouse(t *testing.T) {
	for _, c := range []struct {
		name, rows string
		up         int
		want       []string
	}{
		{"down", "| 1 | `top` |\n| 2 | `low` |\n", 0, []string{
			"top                      low                         3\n",
			"interface low.Wide: low.T, top.Top\n",
			"one implementation, above: low.Seam, top.Top\n",
			"2 packages, 3 names run down, 0 run up; 2 interfaces, 1 with one implementation above them\n",
		}},
		{"up", "| 1 | `low` |\n| 2 | `top` |\n", 3, []string{"up: top uses low: Field T T.Method\n", "0 with one implementation"}},
		{"to the left in a row", "| 1 | `low`, `top` |\n", 3, []string{"up: top uses low"}},
		{"not on the page", "| 1 | `top` |\n", 3, []string{"up: top uses low"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{page: c.rows}
			for name, text := range toy {
				files[name] = text
			}
			h, err := readHouse(context.Background(), write(t, files))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if up := h.print(&out, true); up != c.up {
				t.Errorf("%d names run up, want %d", up, c.up)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, &out)
				}
			}
		})
	}
}

func TestRun(t *testing.T) {
	for _, args := range [][]string{nil, {"-none"}, {"a", "b"}} {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("run %q ends with %d and says %q", args, code, &stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{t.TempDir()}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), page) {
		t.Errorf("without the page: ends with %d and says %q", code, &stderr)
	}
}
