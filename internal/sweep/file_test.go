package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

// small is what all plans of these tests share: a run of some milliseconds.
const small = `
[set]
run.model = "llama-2-7b"
run.requests = 2
traces.max_tokens = 20000
`

func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := ParseFile("sweep.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func plan(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := NewPlan(parse(t, text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// config returns the configuration of a plan's point.
func config(t *testing.T, p *Plan, point int) *configs.Config {
	t.Helper()
	c, err := p.Config(&p.Points[point])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(p *Plan) []string {
	var all []string
	for i := range p.Points {
		all = append(all, p.Points[i].Name)
	}
	return all
}

// TestPlanOrder pins the points of every kind of axis and their order: axes in
// the order of the file, the last fastest, keys in every form that TOML has.
func TestPlanOrder(t *testing.T) {
	p := plan(t, small+`
[[zip]]
name = ["few", "many"]
node.channels = [8, 16]
"node.memory_capacity" = ["1TiB", "2TiB"]
[grid.node]
ranksets = [2, 4]
[[list]]
name = "one"
scheduler.sub_batches = 1
[[list]]
scheduler.sub_batches = 2
pcie.latency = "1us"
`)
	got := strings.Join(names(p), "\n")
	want := strings.Join([]string{
		"few,ranksets=2,one", "few,ranksets=2,sub_batches=2,latency=1us",
		"few,ranksets=4,one", "few,ranksets=4,sub_batches=2,latency=1us",
		"many,ranksets=2,one", "many,ranksets=2,sub_batches=2,latency=1us",
		"many,ranksets=4,one", "many,ranksets=4,sub_batches=2,latency=1us",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	last := config(t, p, 7)
	if last.Node.Channels != 16 || last.Node.Ranksets != 4 || last.Scheduler.SubBatches != 2 || last.PCIe.Latency.String() != "1us" {
		t.Errorf("the last point is %+v %+v %+v", last.Node, last.Scheduler, last.PCIe)
	}
	if a, b := config(t, p, 0), config(t, p, 1); a.PCIe.Latency == b.PCIe.Latency {
		t.Error("a key of one list entry leaked into the other")
	}
}

func TestRepeats(t *testing.T) {
	p := plan(t, "repeats = 3\n"+small+"run.seed = 7\n[grid]\nnode.ranksets = [2, 4]\n")
	if len(p.Points) != 6 {
		t.Fatalf("%d points", len(p.Points))
	}
	hashes := map[string]bool{}
	for i := range p.Points {
		point := &p.Points[i]
		if want := uint64(7 + i%3); point.Seed != want || config(t, p, i).Run.Seed != want {
			t.Errorf("point %d: seed %d, want %d", i, point.Seed, want)
		}
		hashes[point.Hash] = true
	}
	if len(hashes) != 6 || p.Points[0].Name != p.Points[2].Name {
		t.Errorf("%d addresses of %v", len(hashes), names(p))
	}
}

func TestOverlayBesideTheFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"base.toml":  "[node]\nranksets = 2\n",
		"sweep.toml": "config = \"base.toml\"\n" + small + "[grid]\nnode.channels = [8, 16]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := ReadFile(filepath.Join(dir, "sweep.toml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(f, "test")
	if err != nil {
		t.Fatal(err)
	}
	if node := config(t, p, 1).Node; node.Ranksets != 2 || node.Channels != 16 {
		t.Errorf("got %+v", node)
	}
}

// TestBadFiles: whatever is wrong is found before anything runs, with the place.
func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"config = 3", `sweep.toml:1: config = 3: expected a text`},
		{"\nconfig = ''", `sweep.toml:2: config: expected a text`},
		{"\nset.node.ranks = 1", `sweep.toml:2: node.ranks: expected a key of [node]; did you mean "node.ranksets"?`},
		{"[grid]\nnode.rankset = [1]", `sweep.toml:2: node.rankset: expected a key of [node]; did you mean "node.ranksets"?`},
		{"[grid]\n# none\nnode.ranksets = []", `sweep.toml:3: node.ranksets = []: expected an array of at least one value`},
		{"[grid]\nnode = {}", `sweep.toml:2: grid.node: expected at least one key`},
		{"[grid]\nnode.ranksets = 4", `sweep.toml:2: node.ranksets = 4: expected an array of at least one value`},
		{"[grid]\nnode.ranksets = [[4]]", `sweep.toml:2: node.ranksets = [4]: expected a single value`},
		{"[grid]\nnode.ranksets = [4, 2, 4]", `sweep.toml:2: grid.node.ranksets = 4: expected each value once`},
		{"[grid]\nmodel = [\"opt-66b\"]", `sweep.toml:2: model: expected a key of the section, such as model.`},
		{"[grid]\nnode.ranksets = [0, 4]", `sweep.toml:2: node.ranksets = 0: expected 1 to 1024`},
		{"[grid]\nnode.ranksets = [\"4\"]", `sweep.toml:2: node.ranksets = "4": expected a whole number`},
		{"[grid]\nrun.model = [\"opt66b\"]", `did you mean "opt-66b"?`},
		{"[grid]\nrun.trace = [\"missing.csv\"]", `no such file or directory; expected a trace file`},
		{"repeats = 0", `sweep.toml:1: repeats = 0: expected 1 to 100000`},
		{"repeats = 3\n[grid]\nrun.seed = [1, 2]", `sweep.toml:3: grid.run.seed: expected either this axis or repeats, not both`},
		{"[set]\nnode.ranksets = 2\n[grid]\nnode.ranksets = [4]", `sweep.toml:4: grid.node.ranksets: expected no key that set sets too (line 2)`},
		{"[[zip]]\nnode.ranksets = [2]\n[[list]]\nnode.ranksets = 4", `sweep.toml:4: list.node.ranksets: expected no key that zip sets too (line 2)`},
		{"[[zip]]\nnode.ranksets = [2, 4]\nnode.channels = [8]", `sweep.toml:3: zip.node.channels = 1 values: expected as many as zip.node.ranksets, 2`},
		{"[[list]]\nname = \"a\"\nnode.ranksets = 2\n[[list]]\nname = \"a\"\nnode.ranksets = 4", `sweep.toml: name = "a": expected a name that no other point has`},
		{"list = 3", `sweep.toml:1: list: expected sections [[list]]`},
		{"ranksets = [1]", `sweep.toml:1: ranksets: expected one of config, grid`},
		{"[grid]\nnode.ranksets = [1,", `sweep.toml:2: grid.node.ranksets: not TOML`},
		{"where = 3", `sweep.toml:1: where = 3: expected an expression in quotes`},
		{"where = \"node.ranksets > 100\"\n[grid]\nnode.ranksets = [2]", `sweep.toml: where: expected at least one combination`},
		{"where = \"model.tensor_parallel == 8 && node.gpus == 4\"\n" + small + "[grid]\nnode.gpus = [4, 8]\nmodel.tensor_parallel = [1, 8]", `sweep.toml:8: node.gpus = 4: expected a multiple of model.tensor_parallel = 8`},
		{"where = \"node.ranksets > 100\"\n" + small + "[grid]\nnode.gpus = [4, 8]\nmodel.tensor_parallel = [1, 8]", `sweep.toml:8: node.gpus = 4: expected a multiple of model.tensor_parallel = 8`},
		{"where = \"node.rankset > 1\"", `sweep.toml:1: where: node.rankset: expected a key of [node]; did you mean "node.ranksets"?`},
		{"[set]\nrun.trace = 3", `sweep.toml:2: run.trace = "3": no such file or directory; expected a trace file or one of openr1`},
	} {
		f, err := ParseFile("sweep.toml", c.text)
		if err == nil {
			_, err = NewPlan(f, "test")
		}
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
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
	_, err := ParseFile("sweep.toml", text.String())
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
	p, err := newFileParser("x.toml", text)
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
	f.Add("config = \"x\"\nrepeats = 2\nwhere = \"node.ranksets < 3\"\n" + small + "[grid]\nnode.ranksets = [1, 2]\n")
	f.Add("[[zip]]\nname = [\"a\"]\nnode.channels = [1]\n[[list]]\nname = \"b\"\n[list.node]\nranksets = 3\n")
	f.Add("list = [{name = \"a\", node.ranksets = 2}]\ngrid.run.seed = [1, 2]")
	f.Add("[grid]\nnode = 1979-05-27\n'node.ranksets' = [nan, inf, 1.5, true]")
	f.Add("[latin_hypercube]\nsamples = 5\nseed = 2\nnode.ranksets = {min = 1, max = 9, step = 2}\npcie.latency = {min = \"1ns\", max = \"1us\", scale = \"log\"}\npcie.generation = [3, 4]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile("sweep.toml", text)
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
		if n < 1 || n > maxCombinations {
			t.Fatalf("%d combinations", n)
		}
	})
}
