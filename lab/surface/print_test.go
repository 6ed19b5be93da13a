package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakes are programs that the test's binary imitates under their names, with their output by arguments. The first has a command of two
// subcommands, one without, and shared ones; five flags that are not shared, one of which appears twice in a command's help; four keys besides
// three entries of tables; and a sweep of six columns. The second has one command with a flag.
var fakes = map[string]map[string]string{
	"l3sim": {
		"--help": "A tool\n\nUsage:\n  tool [command]\n\nBasic Commands:\n  run         Run\n    more\n  trace       Traces\n  help        Help\n\nMore:\n  completion  Complete\n\nFlags:\n  -h, --help   help\n",
		"run --help": "Run\n\nUsage:\n  tool run [flags]\n\nExamples:\n  tool run\n\nFlags:\n      --model string   one\n  -s, --seed int       two\n      --model string   again\n  -h, --help           help\n\n" +
			"Global Flags:\n  -q, --quiet   no\n",
		"trace --help":          "Traces\n\nUsage:\n  tool trace [command]\n\nAvailable Commands:\n  stats       Stats\n  convert     Convert\n\nFlags:\n      --all     every\n",
		"trace stats --help":    "Usage:\n  tool trace stats\n\nFlags:\n      --model string   one\n",
		"trace convert --help":  "Usage:\n  tool trace convert\n\nFlags:\n      --to string   one\n",
		"__complete run --set ": "a=\tx\nb=\tx\nc=\nd=\te.g.\ne=\t\nf=\tx\ng=\tx\n:4\n",
		"config keys":           "key takes\na b\nb b\nc b\nd b\n",
	},
	"l3lab": {
		"--help":     "Usage:\n  lab [command]\n\nAvailable Commands:\n  fit         Fit\n",
		"fit --help": "Usage:\n  lab fit\n\nFlags:\n      --out file   one\n      --version\n",
	},
}

// TestMain runs a fake program if the binary has its name, else the tests.
func TestMain(m *testing.M) {
	if says, fake := fakes[strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")]; fake {
		os.Exit(pretend(says, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// pretend prints a fake program's output and returns its exit code. Its sweep writes a table for a sweep file that has two requests.
func pretend(says map[string]string, args []string) int {
	if text, ok := says[strings.Join(args, " ")]; ok {
		fmt.Print(text)
		return 0
	}
	if len(args) == 5 && args[0] == "-q" && args[1] == "sweep" {
		file, err := os.ReadFile(args[2])
		if err == nil && strings.Contains(string(file), "run.requests = 2") && os.Mkdir(args[4], 0o777) == nil &&
			os.WriteFile(filepath.Join(args[4], "results.csv"), []byte("point,a,b,c,d,e\nx,1,2,3,4,5\n"), 0o666) == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "no", strings.Join(args, " "))
	return 3
}

// TestPrint: everything counted in a small checkout and two programs, by hand.
func TestPrint(t *testing.T) {
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	ext := strings.TrimSuffix(filepath.Ext(self), ".test") // ".exe" where programs have it
	for name := range fakes {
		write(filepath.Join(bin, name+ext), string(binary))
	}
	s, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.print(&out)
	p := programs{filepath.Join(bin, "l3sim"+ext), filepath.Join(bin, "l3lab"+ext)}
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
	// A failure is reported in the program's own words; wrong use is code 2.
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

// TestPrintOptions: how many options are used in how many packages, and those in more than three.
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
