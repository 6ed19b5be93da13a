package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// user is a program with a command of two subcommands, one without, and shared ones; five flags in all that are not shared, of which one stands twice
// in a command's help. Its keys are four, three entries of tables stand beside them, and a sweep has six columns.
const user = `#!/bin/sh
case "$*" in
"--help") printf 'A tool\n\nUsage:\n  tool [command]\n\nBasic Commands:\n  run         Run\n    more\n  trace       Traces\n  help        Help\n\nMore:\n  completion  Complete\n\nFlags:\n  -h, --help   help\n';;
"run --help") printf 'Run\n\nUsage:\n  tool run [flags]\n\nExamples:\n  tool run\n\nFlags:\n      --model string   one\n  -s, --seed int       two\n      --model string   again\n  -h, --help           help\n\nGlobal Flags:\n  -q, --quiet   no\n';;
"trace --help") printf 'Traces\n\nUsage:\n  tool trace [command]\n\nAvailable Commands:\n  stats       Stats\n  convert     Convert\n\nFlags:\n      --all     every\n';;
"trace stats --help") printf 'Usage:\n  tool trace stats\n\nFlags:\n      --model string   one\n';;
"trace convert --help") printf 'Usage:\n  tool trace convert\n\nFlags:\n      --to string   one\n';;
"__complete run --set ") printf 'a=\tx\nb=\tx\nc=\nd=\te.g.\ne=\t\nf=\tx\ng=\tx\n:4\n';;
"config keys") printf 'key takes\na b\nb b\nc b\nd b\n';;
"-q sweep "*) mkdir "$5"; grep -q 'run.requests = 2' "$3" && printf 'point,a,b,c,d,e\nx,1,2,3,4,5\n' > "$5/results.csv";;
*) echo "no $*" >&2; exit 3;;
esac
`

// lab is a program of one command with a flag.
const labProgram = `#!/bin/sh
case "$*" in
"--help") printf 'Usage:\n  lab [command]\n\nAvailable Commands:\n  fit         Fit\n';;
"fit --help") printf 'Usage:\n  lab fit\n\nFlags:\n      --out file   one\n      --version\n';;
*) exit 3;;
esac
`

// TestPrint: all that is counted of a small checkout and two programs, by hand.
func TestPrint(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no shell")
	}
	root, bin := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"a/a.go": "package a\n\n// T is one.\ntype T struct{ A, B int }\n", "a/b.go": "package a\n\nfunc F() {}\n", "a/a_test.go": "package a\n\nvar x int\n", "lab/l/l.go": "package l\n\ntype U struct{ A, B, C int }\n",
		"README.md": "one two\n", "docs/a.md": "one\ntwo three\n", "docs/b.md": "four\n", "docs/reference/r.md": "r r r r r\n\n\n", "lab/docs/l.md": "l\nl l l l l l\n",
	} {
		write(filepath.Join(root, name), text)
	}
	write(filepath.Join(bin, "l3sim"), user)
	write(filepath.Join(bin, "l3lab"), labProgram)
	s, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.print(&out)
	p := programs{filepath.Join(bin, "l3sim"), filepath.Join(bin, "l3lab")}
	if err := p.print(&out, root); err != nil {
		t.Fatal(err)
	}
	// Tokens: of a.go 2 and 9, of b.go 2 and 6, of l.go 2 and 11; of the test 2 and 3.
	want := `lines of Go code comment blank all tokens
product 4 1 2 7 19
lab 2 0 1 3 13
tests 2 0 1 3 5
product and lab 6 1 3 10 32

package tokens lines tests exported
a 19 7 3 2
lab/l 13 3 0 1
all 3

largest structs fields
lab/l.U 3
a.T 2

l3sim commands 2: run trace
l3sim commands, leaves 3
l3sim flags, all leaves 5
configuration keys 4
entries of named tables 3
columns of results.csv 6
l3lab commands 1: fit
l3lab commands, leaves 1
l3lab flags, all leaves 1
README.md 2 words, 1 lines, 1 files
pages for users 4 words, 3 lines, 2 files
pages for developers 5 words, 3 lines, 1 files
pages of the lab 7 words, 2 lines, 1 files
`
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// What fails is said with the program's own words; wrong use is code 2.
	if _, err := output(p.user, "x", "y"); err == nil || err.Error() != p.user+" x y: exit status 3: no x y\n" {
		t.Errorf("got %v", err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "surface: expected one argument, the folder of a checkout\n"}, {[]string{root, root}, 2, "surface: expected one argument"}, {[]string{"--none", root}, 2, "flag provided but not defined: -none"},
		{[]string{"--l3lab", p.user + "x", root}, 1, "surface: "}, {[]string{filepath.Join(root, "none")}, 1, "surface: lstat "}, {[]string{"--l3lab", p.lab, root}, 0, ""},
	} {
		var out, messages bytes.Buffer
		if code := run(c.args, &out, &messages); code != c.code || !strings.HasPrefix(messages.String(), c.says) || c.says == "" && messages.Len() > 0 || c.code == 0 && !strings.Contains(out.String(), "l3lab commands, leaves") {
			t.Errorf("%v: exit code %d, %s, %s", c.args, code, messages.String(), out.String())
		}
	}
}

// TestPrintOptions: how many options live in how many packages, and those in more than three.
func TestPrintOptions(t *testing.T) {
	var out strings.Builder
	printOptions(&out, []option{{"a.A", []string{"a", "b", "c", "d"}}, {"a.B", []string{"a"}}, {"a.C", []string{"a", "b", "c"}}, {"a.D", []string{"b"}}, {"a.E", nil}})
	want := "\npackages that know an option options\n0 1\n1 2\n3 1\n4 1\n\noptions in more than 3 packages packages\na.A 4 a b c d\n"
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
