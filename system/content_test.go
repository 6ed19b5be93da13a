package system

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
)

// writeTo writes a file of a test.
func writeTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gated returns the settings of DuoAttention with a file of gates on two layers of 8 KV heads, and a function that returns the
// text of a file by which the first heads of a layer stream.
func gated(path string) (sets []string, text func(first, second int) string) {
	layer := func(n int) string { return strings.Repeat("0 ", n) + strings.Repeat("1 ", 8-n) + "\n" }
	return []string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=2", "policy.name=duo", "policy.gates=" + path,
		"run.trace=longbench", "run.requests=4"}, func(first, second int) string { return layer(first) + layer(second) }
}

// checkedRun returns the summary of a configuration's run on its own trace, with all laws verified.
func checkedRun(t *testing.T, cfg *configs.Config) *results.Summary {
	t.Helper()
	trace, err := LoadTrace(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mustRun(t, mustNode(t, cfg), trace, false).Summary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGatesAreOfTheConfiguration: once a configuration is loaded, no change of the files that it names changes a run.
func TestGatesAreOfTheConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gates.tsv")
	sets, text := gated(path)
	attended := func(change func()) []float64 {
		writeTo(t, path, text(8, 0))
		cfg := mustLoad(t, sets...)
		change()
		s := checkedRun(t, cfg)
		if s.Attention.Policy != "duo" {
			t.Fatal(s.Attention.Policy)
		}
		return s.Attention.ByLayer
	}
	want := attended(func() {})
	if len(want) != 2 || want[0] != 384 || want[1] < 1000 {
		t.Fatalf("%v tokens by layer, want 128 + 256 and all", want)
	}
	for name, change := range map[string]func(){
		"removed":    func() { _ = os.Remove(path) },
		"changed":    func() { writeTo(t, path, text(0, 8)) },
		"unreadable": func() { writeTo(t, path, "x") },
	} {
		if got := attended(change); !slices.Equal(got, want) {
			t.Errorf("a file that is %s after loading has %v tokens attended to, want %v", name, got, want)
		}
	}
	writeTo(t, path, text(8, 0))
	cfg := mustLoad(t, sets...)
	cfg.Policy.Gates += "2"
	if _, err := NewNode(cfg); err == nil || !strings.Contains(err.Error(), `gates.tsv2": expected a file that was read`) {
		t.Errorf("another file than was read: %v", err)
	}
}

// TestContentIsHashed: if a key names a file, the file's content is part of the configuration's hash; its layout need not
// be. Keys that may name a file are in the list, except the trace, which sweeps hash separately.
func TestContentIsHashed(t *testing.T) {
	dir := t.TempDir()
	source := func(name string, changes ...string) string {
		text, err := configs.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer(changes...).Replace(text)
	}
	gates, gatesText := gated("FILE")
	var profiles [2]string
	var hgca []string
	for i, share := range []float64{0.25, 0.5} {
		hgca = profiled(t, dir, 8, slices.Repeat([]float64{share}, 16))
		text, err := os.ReadFile(filepath.Join(dir, "profile.toml"))
		if err != nil {
			t.Fatal(err)
		}
		profiles[i] = string(text)
	}
	huggingFace := `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": %d, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}`
	for i, c := range []struct {
		key, file  string
		sets       []string
		one, other string
	}{
		{"run.model", "m.toml", []string{"run.model=FILE"}, source("opt-66b"), source("opt-66b", "layers = 64", "layers = 63")},
		{"run.model", "m.json", []string{"run.model=FILE"}, fmt.Sprintf(huggingFace, 14336), fmt.Sprintf(huggingFace, 14080)},
		{"gpu.preset", "g.toml", []string{"gpu.preset=FILE"}, "[gpu]\npreset = \"h200-sxm\"\nmemory_capacity = \"141GiB\"\n", "[gpu]\npreset = \"h200-sxm\"\nmemory_capacity = \"140GiB\"\n"},
		{"gpu.fit", "f.toml", []string{"gpu.fit=FILE"}, "[gpu.gemm]\nridge = 5.5\n", "[gpu.gemm]\nridge = 5.6\n"},
		{"energy.constants", "e.toml", []string{"energy.constants=FILE"}, "[energy]\npue = \"1.5\"\n", "[energy]\npue = \"1.6\"\n"},
		{"dram.preset", "d.toml", []string{"dram.preset=FILE"}, "[dram]\npreset = \"ddr4-3200-8gb-x8\"\ntRFC = 560\n", "[dram]\npreset = \"ddr4-3200-8gb-x8\"\ntRFC = 561\n"},
		{"dram.preset", "t.toml", []string{"dram.preset=FILE"}, ownTable("ddr4", "tFAW | 40"), ownTable("ddr4", "tFAW | 41")},
		{"dram.preset", "t.toml", []string{"dram.preset=FILE:own-4800-16gb-x8"}, ownTable("ddr5", ""), ownTable("ddr5", "") + "rules = [\"tWTW | rank | WR | WR | burst + 3\"]\n"},
		{"prices.preset", "p.toml", []string{"prices.preset=FILE"}, "[prices]\ndate = \"2026-01-02\"\nyears = \"4 [3, 6] assumption\"\n", "[prices]\ndate = \"2026-01-03\"\nyears = \"4 [3, 6] assumption\"\n"},
		{"policy.gates", "g.tsv", gates, gatesText(8, 0), gatesText(0, 8)},
		{"policy.profile", "profile.toml", hgca, profiles[0], profiles[1]},
	} {
		if !deep.Case(i, 3) {
			continue
		}
		path := filepath.Join(dir, c.file)
		load := func(text string, more ...string) (*configs.Config, string) {
			t.Helper()
			writeTo(t, path, text)
			var sets []string
			for _, set := range c.sets {
				sets = append(sets, strings.Replace(set, "FILE", path, 1))
			}
			cfg := mustLoad(t, append(sets, more...)...)
			hash, err := cfg.SHA256()
			if err != nil {
				t.Fatal(err)
			}
			return cfg, hash
		}
		if c.one == c.other {
			t.Fatalf("%s: %s twice", c.key, c.file)
		}
		_, one := load(c.one)
		cfg, other := load(c.other)
		if _, again := load(c.one); one == other || one != again {
			t.Errorf("%s: %s has the hash %s, another content %s, and the first again %s", c.key, c.file, one, other, again)
		}
		checkRewritten(t, dir, cfg, c.key, path, c.one, c.other)
	}
	listed := strings.Fields("run.model gpu.preset gpu.fit energy.constants dram.preset prices.preset policy.gates policy.profile run.trace")
	others := strings.Fields("run.columns traces.distribution arrivals.kind arrivals.window content.dram_preset content.policy_gates content.policy_profile") // concern another key's file
	explained, err := everything().Find(configs.Options{}, "")
	if err != nil || len(explained) != len(everything().Keys().Keys) {
		t.Fatalf("%d keys, %v", len(explained), err)
	}
	for i, k := range everything().Keys().Keys {
		e := explained[i]
		file := k.Type.Kind() == reflect.String && strings.Contains(e.Meaning+e.Range, "file") && !slices.Contains(others, k.Name)
		if file != slices.Contains(listed, k.Name) {
			t.Errorf("%s (%s): a key that names a file is in this test, and no other", k.Name, e.Meaning)
		}
	}
}

// ownTable returns a user's standard with a part of DDR4 or DDR5 and an additional row of values, "" for none.
func ownTable(base, row string) string {
	parts := map[string]string{"ddr4": `["3200", "8gb", "x8"]`, "ddr5": `["4800", "16gb", "x8"]`}[base]
	return fmt.Sprintf("standard = \"own\"\nbase = %q\nparts = %s\nvalues = [\n  %q,\n]\n", base, parts, "| "+cmp.Or(row, map[string]string{"ddr4": "tRTRS | 1", "ddr5": "tRTRS | 2"}[base]))
}

// TestOwnStandard: a node of DIMMs with a user's standard equals one of a built-in part in time, energy and cost if the
// standard adds nothing; otherwise it runs by the standard's own timings and rules.
func TestOwnStandard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.toml")
	run := func(set string) *results.Summary {
		t.Helper()
		cfg := mustLoad(t, "run.model=llama-2-7b", "run.trace=longbench", "run.requests=3", set)
		s := checkedRun(t, cfg)
		s.ConfigSHA256, s.WallS = "", 0
		return s
	}
	for base, part := range map[string]string{"ddr4": "ddr4-3200-8gb-x8", "ddr5": "ddr5-4800-16gb-x8"} {
		if base == "ddr5" && !deep.On() {
			continue
		}
		want := run("dram.preset=" + part)
		writeTo(t, path, ownTable(base, ""))
		if got := run("dram.preset=" + path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a table that adds nothing gives %+v, want %+v", base, got, want)
		}
		writeTo(t, path, ownTable(base, "")+"rules = [\"tOwn | rank | MACA | MACA | 2 * tCCD_L\"]\n")
		if got := run("dram.preset=" + path); got.SimulatedS <= want.SimulatedS {
			t.Errorf("%s: units that read at half the rate end at %v s, at the full rate %v s", base, got.SimulatedS, want.SimulatedS)
		}
	}
}

// checkRewritten writes a configuration and reads it back: if its file's content is in no key, this works only with the same
// content.
func checkRewritten(t *testing.T, dir string, cfg *configs.Config, key, path, old, now string) {
	t.Helper()
	var text bytes.Buffer
	if err := cfg.WriteTOML(&text); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(dir, "config.toml")
	writeTo(t, written, text.String())
	load := func(sets ...string) error {
		back, err := everything().Load(configs.Options{ConfigFiles: []string{written}, Sets: sets})
		if err == nil && len(sets) == 0 && !reflect.DeepEqual(cfg, back) {
			t.Errorf("%s is not what was written", written)
		}
		return err
	}
	writeTo(t, path, now)
	if err := load(); err != nil {
		t.Error(err)
	}
	writeTo(t, path, old)
	err := load()
	content := strings.Contains(text.String(), "[content]")
	if content != (err != nil) || err != nil && (!strings.Contains(err.Error(), "config.toml:") || !strings.Contains(err.Error(), ": content.") || !strings.Contains(err.Error(), "the file has changed")) {
		t.Errorf("%s changed: %v", path, err)
	}
	if content { // naming the file again accepts its new content
		if err := load(key + "=" + everything().Keys().Key(key).Get(cfg).String()); err != nil {
			t.Error(err)
		}
	}
}
