package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// small is the base of all plans in these tests: a run of some milliseconds.
const small = `
[set]
run.model = "llama-2-7b"
run.requests = 2
traces.max_tokens = 20000
`

func parse(t *testing.T, text string) *design.File {
	t.Helper()
	f, err := design.ParseFile(system.Configs(), "sweep.toml", text)
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

// TestPlanOrder fixes the points of every kind of axis and their order: axes in the order of the
// file, the last fastest, keys in every form of TOML.
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
	f, err := design.ReadFile(system.Configs(), filepath.Join(dir, "sweep.toml"))
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

// TestBadFiles: every error is found before anything runs, with its line.
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
		f, err := design.ParseFile(system.Configs(), "sweep.toml", c.text)
		if err == nil {
			_, err = NewPlan(f, "test")
		}
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestSamplesArePinned: a seed gives the same points in all versions and on all machines.
func TestSamplesArePinned(t *testing.T) {
	const text = small + `
[latin_hypercube]
samples = 4
seed = 7
node.ranksets = {min = 1, max = 8}
pcie.efficiency = {min = 0.5, max = 1.0}
pcie.latency = {min = "500ns", max = "50us", scale = "log"}
pcie.generation = [4, 5]
`
	want := []string{
		"ranksets=5,efficiency=0.709,latency=4.06us,generation=5",
		"ranksets=3,efficiency=0.863,latency=5.36us,generation=4",
		"ranksets=7,efficiency=0.978,latency=602ns,generation=5",
		"ranksets=1,efficiency=0.535,latency=24.2us,generation=4",
	}
	if got := names(plan(t, text)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if other := names(plan(t, strings.Replace(text, "seed = 7", "seed = 8", 1))); other[0] == want[0] {
		t.Error("another seed, the same points")
	}
}

// TestLatinHypercubeAxis: samples are one axis among others, and equal samples after rounding are
// one.
func TestLatinHypercubeAxis(t *testing.T) {
	p := plan(t, small+"[grid]\nnode.channels = [8, 16]\n[latin_hypercube]\nsamples = 50\nnode.ranksets = {min = 1, max = 4}\npcie.generation = [4, 5]\n")
	axis := p.File.Axes[1]
	if len(axis.Choices) != 8 || axis.Dropped != 42 || len(p.Points) != 16 {
		t.Errorf("%d choices, %d dropped, %d points", len(axis.Choices), axis.Dropped, len(p.Points))
	}
}

// TestSamplesMayFail: an invalid sample is a failed point, not an error of the file, unless all are
// invalid.
func TestSamplesMayFail(t *testing.T) {
	const text = small + "[latin_hypercube]\nsamples = 40\nnode.gpus = {min = %d, max = 8}\nmodel.tensor_parallel = [8]\n"
	p := plan(t, fmt.Sprintf(text, 1))
	failed := 0
	for i := range p.Points {
		if p.Points[i].Err != nil {
			failed++
		}
	}
	if len(p.Points) != 8 || failed != 7 {
		t.Errorf("%d of %d points failed", failed, len(p.Points))
	}
	for _, listed := range []string{`comm.balance = ["split", "leest-loaded"]`, `run.trace = ["openr1", "missing.csv"]`} {
		p := plan(t, small+"[latin_hypercube]\nsamples = 12\npcie.efficiency = {min = 0.5, max = 0.9}\n"+listed+"\n")
		for i := range p.Points {
			if wrong := strings.Contains(p.Points[i].Name, "leest") || strings.Contains(p.Points[i].Name, "missing"); wrong != (p.Points[i].Err != nil) {
				t.Errorf("%s: %v", p.Points[i].Name, p.Points[i].Err)
			}
		}
	}
	if _, err := NewPlan(parse(t, small+"[latin_hypercube]\nsamples = 10\nnode.gpus = {min = 1, max = 7}\nmodel.tensor_parallel = [8]\n"), "test"); err == nil || !strings.Contains(err.Error(), "sweep.toml:") {
		t.Errorf("no sample is a configuration: %v", err)
	}
}

// TestConditionsOnWhatIsNoConfiguration: a condition on the axes' own keys excludes combinations
// that would not load; a condition on other keys reads the loaded configuration.
func TestConditionsOnWhatIsNoConfiguration(t *testing.T) {
	axes := small + "[grid]\nmodel.tensor_parallel = [1, 8]\nnode.gpus = [4, 8]\n"
	if got := plan(t, axes); len(got.Points) != 4 || got.Points[2].Err == nil {
		t.Fatalf("without condition: %v", names(got))
	}
	p := plan(t, "where = \"node.gpus % model.tensor_parallel == 0\"\n"+small+"[grid]\nmodel.tensor_parallel = [1, 8]\nnode.gpus = [4, 8]\n")
	if got, want := strings.Join(names(p), " "), "tensor_parallel=1,gpus=4 tensor_parallel=1,gpus=8 tensor_parallel=8,gpus=8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p = plan(t, "where = \"model.layers > 40\"\n[set]\nrun.requests = 2\n[grid]\nrun.model = [\"llama-2-7b\", \"opt-66b\"]\n")
	if got := strings.Join(names(p), " "); got != "model=opt-66b" {
		t.Errorf("got %s", got)
	}
}
