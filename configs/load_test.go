package configs_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// keys are those of configurations of all systems.
var keys = system.Keys()

// Load loads a configuration of one of all systems.
func Load(o Options) (*Config, error) { return system.Load(o) }

// load resolves an overlay text and the options of a command line.
func load(overlay string, o Options) (*Config, error) {
	return system.Configs().LoadText("x.toml", overlay, o)
}

// mustLoad is load without an error.
func mustLoad(t *testing.T, overlay string, o Options) *Config {
	t.Helper()
	c, err := load(overlay, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryKeyIsSet: presets, and systems' defaults for their own sections, set every key, except those of kernels that are unknown for
// their GPU.
func TestEveryKeyIsSet(t *testing.T) {
	for _, name := range Names(SystemPresets) {
		c, err := Load(Options{Sets: []string{"preset=" + name}})
		if err != nil {
			t.Fatal(err)
		}
		all := explainAll(t, Options{Sets: []string{"preset=" + name}})
		for _, key := range keys.Names() {
			if k := keys.Key(key); TableOf(key) == "gpu.fit" && len(k.Optional) > 0 && k.Get(c).IsZero() {
				continue
			}
			if e := all[key]; strings.HasPrefix(e.SetIn, "the program") {
				t.Errorf("%s does not set %s: %+v", name, key, e)
			}
		}
	}
}

// TestECCOfNode: in-line ECC takes its share of the node's capacity, side-band ECC none.
func TestECCOfNode(t *testing.T) {
	for ecc, want := range map[string]units.Bytes{"none": 32 * units.GiB, "side-band": 32 * units.GiB, "inline": 28 * units.GiB, "inline-16": 30 * units.GiB} {
		c, err := Load(Options{Sets: []string{`dram.ecc="` + ecc + `"`}})
		if err != nil {
			t.Fatal(err)
		}
		if c.RankRoom() != want {
			t.Errorf("%s: %s a rank, want %s", ecc, c.RankRoom(), want)
		}
	}
}

func TestDefault(t *testing.T) {
	c, err := Load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Preset != DefaultPreset || c.Run.Model != "gpt-175b" || c.Model.Layers != 96 || c.Run.Seed != 1 {
		t.Errorf("got preset %s, model %s of %d layers, seed %d", c.Preset, c.Run.Model, c.Model.Layers, c.Run.Seed)
	}
	if c.DRAM.TCK != 625 || c.DRAM.TRFC != 560 || c.Node.RankCapacity() != 32*units.GiB {
		t.Errorf("got tCK %s, tRFC %d, %s a rank", c.DRAM.TCK, c.DRAM.TRFC, c.Node.RankCapacity())
	}
}

// TestModels: replicas and KV heads for each channel, for each model of the paper on the default node.
func TestModels(t *testing.T) {
	for name, want := range map[string]struct{ replicas, headsPerChannel int }{
		"opt-66b": {4, 18}, "gpt-89b": {2, 12}, "gpt-175b": {1, 6},
	} {
		c := mustLoad(t, "", Options{Flags: []Flag{{"--model", "run.model", name}}})
		heads := c.Model.KVHeads / c.ReplicaChannels()
		if c.Model.Name != name || c.Replicas() != want.replicas || heads != want.headsPerChannel {
			t.Errorf("%s: got %s, %d replicas, %d KV heads a channel, want %d, %d",
				name, c.Model.Name, c.Replicas(), heads, want.replicas, want.headsPerChannel)
		}
	}
	for _, name := range Names(Model) {
		mustLoad(t, "run.model = '"+name+"'", Options{Sets: []string{"run.system=gpu-only", "gpu.memory_capacity=300GiB"}}) // holds every model
	}
}

func TestPrecedence(t *testing.T) {
	overlay := "run.seed = 2\nnode.ranksets = 8\n[dram]\ntRCD = 23\ntRP = 23\ntRAS = 51"
	c := mustLoad(t, overlay, Options{
		Sets:  []string{"run.seed=3", "dram.tRP=24", "run.trace = a b.csv", "dram.tRP=25", "node.memory_capacity=4TiB"},
		Flags: []Flag{{"--seed", "run.seed", "4"}},
	})
	got := []any{c.Run.Seed, c.Node.Ranksets, c.DRAM.TRCD, c.DRAM.TRP, c.Run.Trace, c.Node.MemoryCapacity, c.DRAM.CL}
	want := []any{uint64(4), 8, 23, 25, "a b.csv", 4 * units.TiB, 22}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSectionPresets: a section's keys stay with the preset for which they were written.
func TestSectionPresets(t *testing.T) {
	// Keys without their own preset apply to any preset that a flag names.
	flag := Options{Flags: []Flag{{"--model", "run.model", "opt-66b"}}}
	if c := mustLoad(t, "[model]\nlayers = 2", flag); c.Model.Layers != 2 || c.Model.Heads != 72 {
		t.Errorf("got %d layers, %d heads, want 2, 72", c.Model.Layers, c.Model.Heads)
	}
	// A written configuration names its model: another model drops its shape.
	var text bytes.Buffer
	if err := mustLoad(t, "[model]\nlayers = 2", Options{}).WriteTOML(&text); err != nil {
		t.Fatal(err)
	}
	if c := mustLoad(t, text.String(), flag); c.Model.Layers != 64 || c.Model.Hidden != 9216 {
		t.Errorf("got %d layers, hidden %d, want those of opt-66b", c.Model.Layers, c.Model.Hidden)
	}
	if c := mustLoad(t, text.String(), Options{Sets: []string{"run.model=gpt-175b"}}); c.Model.Layers != 2 {
		t.Errorf("naming the same model again: got %d layers, want 2", c.Model.Layers)
	}
	c := mustLoad(t, "dram.preset = 'ddr4-2400-8gb-x8'\ndram.tRFC = 999", Options{})
	if c.DRAM.TCK != 833 || c.DRAM.TRFC != 999 {
		t.Errorf("got tCK %s, tRFC %d, want 833ps, 999", c.DRAM.TCK, c.DRAM.TRFC)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, overlay string
		options       Options
		want          string
	}{
		{"unknown key", "[run]\nseed = 1\n\n[dram]\n# tRCDD\ntRCDD = 22", Options{},
			`x.toml:6: dram.tRCDD = 22: expected a key of [dram]; did you mean "dram.tRCD"?`},
		{"wrong case", "dram.trcd = 22", Options{},
			`x.toml:1: dram.trcd = 22: expected a key of [dram]; did you mean "dram.tRCD"?`},
		{"wrong case of a section", "[Dram]\ntRCD = 22", Options{},
			`x.toml:1: Dram: expected a key of a known section; did you mean "dram"?`},
		{"key without its section", "ranksets = 4", Options{},
			`x.toml:1: ranksets = 4: expected a key of a known section; did you mean "node.ranksets"?`},
		{"key in another section", "[dram]\nlayers = 4", Options{},
			`x.toml:2: dram.layers = 4: expected a key of [dram]; did you mean "model.layers"?`},
		{"preset of a model", "[model]\npreset = 'opt-66b'", Options{},
			`x.toml:2: model.preset = "opt-66b": expected a key of [model]; did you mean "run.model"?`},
		{"no unit", "[node]\nmemory_capacity = 2048", Options{},
			`x.toml:2: node.memory_capacity: "2048" is not a byte count: want a number with a unit ` +
				`(B, kB, KiB, MB, MiB, GB, GiB, TB, TiB), such as "2TiB"`},
		{"wrong unit", "[dram]\ntCK = '625MHz'", Options{},
			`x.toml:2: dram.tCK: "625MHz" is not a duration: want a number with a unit (ps, ns, us, ms, s), such as "100ms"`},
		{"wrong type", "[scheduler]\nchunking = 1", Options{},
			"x.toml:2: scheduler.chunking = 1: expected true or false"},
		{"fraction", "node.gpus = 8.0", Options{}, "x.toml:1: node.gpus = 8.0: expected a whole number"},
		{"scalar for a section", "dram = 1", Options{}, "x.toml:1: dram = 1: expected a section [dram]"},
		{"array of sections", "[[dram]]\ntCK = '1ns'", Options{}, "x.toml:1: dram = a table: expected a section [dram]"},
		{"out of range", "[model]\nheads = 96\nlayers = 0", Options{}, "x.toml:3: model.layers = 0: expected 1 to 16777216"},
		{"out of range inline", "model = {heads = 96, layers = 0}", Options{},
			"x.toml:1: model.layers = 0: expected 1 to 16777216"},
		{"conflict within a section", "[dram]\ntRAS = 99", Options{},
			"x.toml:2: dram.tRC = 74: expected at least tRAS = 99"},
		{"syntax", "[dram]\ntCK = = 1", Options{}, "x.toml:2: dram.tCK: not TOML: "},
		{"key twice", "[run]\nseed = 1\nseed = 2", Options{}, "x.toml:3: run.seed: not TOML: Key 'run.seed' has already been defined"},
		{"unknown model", "", Options{Flags: []Flag{{"--model", "run.model", "gpt175b"}}},
			`--model: run.model = "gpt175b": expected one of `},
		{"unknown system preset", "preset = 'dgx-a100-l4'", Options{},
			`x.toml:1: preset = "dgx-a100-l4": expected one of desk, dgx-a100-l3, dgx-b200-l3, dgx-h100-l3, dgx-h200-l3, fair, gb200-tray, hgca, paper; did you mean "dgx-a100-l3"?`},
		{"unknown part", "[dram]\npreset = 'ddr4-3200'", Options{}, `x.toml:2: dram.preset = "ddr4-3200": expected one of ddr4-`},
		{"unknown system", "[run]\nsystem = 'l2'", Options{},
			`x.toml:2: run.system = "l2": expected one of ` + strings.Join(slices.Sorted(slices.Values(system.Names())), ", ") + `; did you mean "l3"?`},
		{"set without value", "", Options{Sets: []string{"dram.tRCD"}}, `--set: "dram.tRCD": expected section.key=value`},
		{"set of a section", "", Options{Sets: []string{"dram=1"}},
			"--set: dram = 1: expected a key of the section, such as dram.preset"},
		{"set of an unknown key", "", Options{Sets: []string{"dram.trcd=1"}},
			`--set: dram.trcd = 1: expected a key of [dram]; did you mean "dram.tRCD"?`},
		{"set of a wrong type", "", Options{Sets: []string{"dram.tRCD=many"}},
			`--set: dram.tRCD = "many": expected a whole number`},
		{"set of two lines", "", Options{Sets: []string{"node.gpus=8\nnode.channels=1"}},
			`--set: node.gpus = "8\nnode.channels=1": expected a whole number`},
		{"negative seed", "", Options{Sets: []string{"run.seed=-1"}}, "--set: run.seed = -1: expected a whole number, 0 to "},
		{"path that TOML cannot hold", "", Options{Flags: []Flag{{"--trace", "run.trace", "a\xff.csv"}}},
			`--trace: run.trace = "a\xff.csv": expected the name of a built-in trace or a file, in UTF-8`},
		{"GPUs over replicas", "", Options{Sets: []string{"node.gpus=4"}},
			"--set: node.gpus = 4: expected a multiple of model.tensor_parallel = 8"},
		{"channels over replicas", "[node]\nchannels = 6", Options{Flags: []Flag{{"--model", "run.model", "opt-66b"}}},
			"x.toml:2: node.channels = 6: expected a multiple of the 4 replicas (node.gpus / model.tensor_parallel)"},
		{"heads over GPUs", "[model]\nkv_heads = 6\ntensor_parallel = 4", Options{},
			"x.toml:3: model.tensor_parallel = 4: expected a divisor of kv_heads = 6, or a multiple of it up to heads = 96"},
		{"weights over GPUs", "[model]\nmax_positions = 0\ntensor_parallel = 4", Options{},
			`x.toml:3: gpu.memory_capacity = "80GiB": expected room for the weights of gpt-175b: 325.2 GiB on ` +
				"model.tensor_parallel = 4 GPUs, which hold 317.2 GiB without gpu.memory_reserve"},
		{"key of a later section", "[model]\nheads = 96\nkv_heads = 96\n[pim]\nscore_buffer = '1KiB'\nmacs_per_read = 0",
			Options{}, "x.toml:6: pim.macs_per_read = 0: expected 1 to 128"},
		{"nested section", "[pim.precision]\npreset = 'fp64'", Options{},
			`x.toml:2: pim.precision.preset = "fp64": expected one of fp32, paper; did you mean "fp32"?`},
		{"not a number", "gpu.gemm.compute_efficiency = nan", Options{},
			"x.toml:1: gpu.gemm.compute_efficiency = NaN: expected a finite number"},
		{"a standard without the commands of the PIM", "[dram]\npreset = 'lpddr5x-6400-16gb-x16'", Options{},
			`x.toml:2: dram.standard = "lpddr5x": expected a standard with the commands of the PIM, such as ddr4`},
		{"head wider than a rank", "[dram]\npreset = 'ddr4-3200-8gb-x16'\n[model]\nlayers = 2\nhead_dim = 512", Options{},
			"x.toml:5: model.head_dim = 512: expected at most 256: one burst of a value in each of the 8 banks"},
		{"score buffer below a chunk", "pim.score_buffer = '1KiB'", Options{Sets: []string{
			"model.heads=1600", "model.kv_heads=16", "model.head_dim=8"}},
			"x.toml:1: pim.score_buffer = 1KiB: expected room for 16 scores of 100 query heads"},
		{"no memory", "node.memory_capacity = '0B'", Options{}, `x.toml:1: node.memory_capacity = "0B": expected more than 0B`},
		{"negative requests", "", Options{Flags: []Flag{{"--requests", "run.requests", "-1"}}},
			"--requests: run.requests = -1: expected at least 0"},
		{"unknown flag value", "", Options{Flags: []Flag{{"--seed", "run.seed", "few"}}},
			`--seed: run.seed = "few": expected a whole number`},
		{"rank below a row pair", "node.memory_capacity = '16MB'", Options{},
			`x.toml:1: node.memory_capacity = "16MB": expected at least 16MiB, a K row and a V row on each of ` +
				"node.channels * node.ranksets = 64 ranks"},
	} {
		_, err := load(c.overlay, c.options)
		var bad *input.Error
		switch {
		case !errors.As(err, &bad):
			t.Errorf("%s: got %v, want an input error", c.name, err)
		case !strings.HasPrefix(err.Error(), c.want):
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, err, c.want)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: more than one line: %q", c.name, err)
		}
	}
}

// TestConfigFile reads a written configuration back from its file.
func TestConfigFile(t *testing.T) {
	c := mustLoad(t, "node.ranksets = 8", Options{})
	var text bytes.Buffer
	if err := c.WriteTOML(&text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if back, err := Load(Options{ConfigFiles: []string{path}}); err != nil || !reflect.DeepEqual(c, back) {
		t.Errorf("read %+v, %v", back, err)
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(Options{ConfigFiles: []string{filepath.Join("nowhere", "x.toml")}})
	var bad *input.Error
	if !errors.As(err, &bad) || !errors.Is(err, os.ErrNotExist) || bad.File != filepath.Join("nowhere", "x.toml") {
		t.Errorf("got %v", err)
	}
}

// TestTwoPresets: a file and --set must not name different system presets.
func TestTwoPresets(t *testing.T) {
	_, err := load("preset = 'other'", Options{Sets: []string{"preset=dgx-a100-l3"}})
	if want := `--set: preset = "dgx-a100-l3": expected "other", which x.toml names`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestHashSeesEveryKey changes one key at a time.
func TestHashSeesEveryKey(t *testing.T) {
	deep.Heavy(t)
	c, err := Load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := c.SHA256()
	for _, key := range keys.Names() {
		changed, k := *c, keys.Key(key)
		v := reflect.New(k.Type).Elem()
		v.Set(k.Get(c))
		switch {
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		case v.CanFloat():
			v.SetFloat(v.Float()*1.5 + 1)
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.Kind() == reflect.String:
			v.SetString(v.String() + "x")
		default:
			t.Errorf("%s: kind %s is not tested", key, v.Kind())
			continue
		}
		k.Set(&changed, v)
		if after, err := changed.SHA256(); err != nil || after == before {
			t.Errorf("%s: the hash does not change (%v)", key, err)
		}
		if again, _ := c.SHA256(); again != before {
			t.Fatalf("%s: a copy's change reaches the original", key)
		}
	}
}

// FuzzLoad: any text gives either one input error on one line, or a configuration that can be written and read back.
func FuzzLoad(f *testing.F) {
	for _, name := range Names() {
		if text, err := Source(name); err == nil {
			f.Add(text)
		}
	}
	f.Add("preset = 'dgx-a100-l3'\n[dram]\ntCK = '0.625 ns' # comment\n")
	f.Add("model = {heads = 96, layers = 0}\nrun.\"seed\" = 7")
	f.Add("[[dram]]\n[dram.x]\n''=\"\"\"a\n\\\"\"\"\"")
	f.Add("[gpu]\nx = nan\ny = [1, {a = 2}]\n\ufeff")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := load(text, Options{})
		var bad *input.Error
		switch {
		case err == nil:
			checkRoundTrip(t, c)
		case !errors.As(err, &bad):
			t.Errorf("%v is no input error", err)
		case bad.File == "":
			t.Errorf("%v has no file", err)
		}
	})
}
