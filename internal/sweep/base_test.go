package sweep

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// TestBaseMakesThePoints: the shared settings with the keys of a row load the configuration of that
// row's point: its hash is equal.
func TestBaseMakesThePoints(t *testing.T) {
	for seed := range deep.Of(1, 1, 30) {
		checkBase(t, seed)
	}
	if _, ok := SettingOf(tables.StatusColumn, "done"); ok {
		t.Error("a status is a setting")
	}
}

func checkBase(t *testing.T, seed int) {
	t.Helper()
	f := parse(t, fmt.Sprintf(`repeats = 2
[set]
run.requests = 2
traces.max_tokens = 20000
[latin_hypercube]
samples = 10
seed = %d
run.model = ["llama-2-7b", "gpt-175b"]
node.ranksets = { min = 2, max = 16 }
node.memory_capacity = { min = "512GiB", max = "4TiB" }
pcie.latency = { min = "1us", max = "20us", scale = "log" }
pcie.efficiency = { min = 0.1, max = 0.9 }
gpu.memory_bandwidth = { min = "1TB/s", max = "3TB/s" }
scheduler.chunking = [true, false]
`, seed))
	p, err := NewPlan(f, "v1")
	if err != nil {
		t.Fatal(err)
	}
	base, header := p.describe(), p.header()
	for i := range p.Points {
		options := configs.Options{ConfigFiles: base.Configs, Sets: base.Sets}
		for c, cell := range p.Points[i].cells {
			set, ok := SettingOf(header[c+1], cell.String())
			if !ok {
				t.Fatalf("%s = %s is no setting", header[c+1], cell)
			}
			options.Sets = append(options.Sets, set)
		}
		got, err := system.Load(options)
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Config(&p.Points[i])
		if err != nil {
			t.Fatal(err)
		}
		gotHash, err1 := got.SHA256()
		wantHash, err2 := want.SHA256()
		if err1 != nil || err2 != nil || gotHash != wantHash {
			t.Fatalf("%v gives another configuration than %s", options.Sets, p.Points[i].Name)
		}
	}
}

// TestBaseTravels: a merge has the sweep's base, and keys of the first point.
func TestBaseTravels(t *testing.T) {
	whole := newTestPlan(t)
	if whole.describe().Keys["node.gpus"] != "4" || whole.describe().Keys["run.model"] != "llama-2-7b" {
		t.Errorf("%v", whole.describe().Keys)
	}
	dir := t.TempDir()
	part := whole.Part(Shard{0, 1})
	if err := part.Describe(dir); err != nil {
		t.Fatal(err)
	}
	head, err := readShard(dir, nil)
	if err != nil || !reflect.DeepEqual(head.Base, whole.describe()) {
		t.Errorf("%v, %+v", err, head)
	}
	for i := 1; i < 3; i++ { // an empty shard has it, too
		if !reflect.DeepEqual(whole.Part(Shard{i, 100}).whole.describe(), whole.describe()) {
			t.Error("a shard has another base")
		}
	}
}

func newTestPlan(t *testing.T) *Plan {
	t.Helper()
	p, err := NewPlan(parse(t, grid), "v1")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
