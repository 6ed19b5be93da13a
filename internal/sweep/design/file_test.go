package design

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
)

// parsed reads a valid sweep file.
func parsed(t *testing.T, text string) *File {
	t.Helper()
	f, err := ParseFile(system.Configs(), "sweep.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTooManyPoints: a billion combinations are refused at once, not expanded.
func TestTooManyPoints(t *testing.T) {
	var text strings.Builder
	text.WriteString("[grid]\n")
	for _, key := range []string{"node.ranksets", "node.channels", "run.seed"} {
		text.WriteString(key + " = [0")
		for i := 1; i < 1000; i++ {
			text.WriteString(", " + strconv.Itoa(i))
		}
		text.WriteString("]\n")
	}
	_, err := ParseFile(system.Configs(), "sweep.toml", text.String())
	if err == nil || !strings.Contains(err.Error(), "1e+09 combinations: expected at most 100000") {
		t.Errorf("got %v", err)
	}
}

func TestKeyLine(t *testing.T) {
	const text = `repeats = 1 # grid
[grid] # node.x = 1
"node.ranksets" = [1]
node . channels = [
  2,
]
[grid.pcie]
latency = ["1us"]

[[list]]
node.ranksets = 2
[[list]]
name = "b"
[list.node]
ranksets = 3
`
	p, err := newFileParser(system.Configs(), "x.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		section string
		nth     int
		key     string
		want    int
	}{
		{"", 0, "repeats", 1}, {"grid", 0, "node.ranksets", 3}, {"grid", 0, "node.channels", 4},
		{"grid", 0, "pcie.latency", 8}, {"list", 0, "node.ranksets", 11}, {"list", 1, "name", 13},
		{"list", 1, "node.ranksets", 15}, {"list", 1, "", 12}, {"", 0, "grid", 2},
	} {
		if got := p.line(c.section, c.nth, c.key); got != c.want {
			t.Errorf("%s[%d] %s: line %d, want %d", c.section, c.nth, c.key, got, c.want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("config = \"x\"\nrepeats = 2\nwhere = \"node.ranksets < 3\"\n[set]\nrun.model = \"llama-2-7b\"\n[grid]\nnode.ranksets = [1, 2]\n")
	f.Add("[[zip]]\nname = [\"a\"]\nnode.channels = [1]\n[[list]]\nname = \"b\"\n[list.node]\nranksets = 3\n")
	f.Add("list = [{name = \"a\", node.ranksets = 2}]\ngrid.run.seed = [1, 2]")
	f.Add("[grid]\nnode = 1979-05-27\n'node.ranksets' = [nan, inf, 1.5, true]")
	f.Add("[latin_hypercube]\nsamples = 5\nseed = 2\nnode.ranksets = {min = 1, max = 9, step = 2}\npcie.latency = {min = \"1ns\", max = \"1us\", scale = \"log\"}\npcie.generation = [3, 4]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile(system.Configs(), "sweep.toml", text)
		var bad *input.Error
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("%T: %v", err, err)
		}
		if err != nil {
			return
		}
		n := file.Repeats
		for _, a := range file.Axes {
			if len(a.Choices) == 0 {
				t.Fatal("an axis without choices")
			}
			n *= len(a.Choices)
		}
		if n < 1 || n > MaxCombinations {
			t.Fatalf("%d combinations", n)
		}
	})
}
