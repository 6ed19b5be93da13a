package configs

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestPresetComments: a preset starts with a description, and every number and quantity in it has its source and effect.
func TestPresetComments(t *testing.T) {
	seen := map[string]Kind{}
	for _, p := range Presets() {
		if other, ok := seen[p.Name]; ok && !(other == GPUs && p.Kind == Fits) {
			t.Errorf("%s is both a %s and a %s", p.Name, other, p.Kind)
		}
		seen[p.Name] = p.Kind
		if len(p.Summary) < 20 {
			t.Errorf("%s: no summary on its first line", p.Name)
		}
		text, err := Source(p.Name)
		if err != nil {
			t.Fatal(err)
		}
		commented := false // by a comment line directly above
		for i, line := range strings.Split(text, "\n") {
			_, value, isKey := strings.Cut(line, "=")
			value = strings.TrimSpace(value)
			switch {
			case strings.HasPrefix(line, "#"):
				commented = true
			case !isKey:
				commented = false
			case strings.Trim(value, `"`) != "" && strings.ContainsAny(strings.Trim(value, `"`)[:1], "-0123456789"):
				if _, comment, ok := strings.Cut(value, "#"); !commented && (!ok || len(strings.TrimSpace(comment)) < 12) {
					t.Errorf("%s:%d: no comment: %s", p.Name, i+1, line)
				}
			}
		}
	}
}

// TestSectionFiles: a preset of a section sets all keys of that section and no others, except those that say how a server uses it; a GPU
// sets all of PyTorch's kernels or none.
func TestSectionFiles(t *testing.T) {
	for _, b := range bases {
		for _, name := range Names(b.kind) {
			text, err := Source(name)
			if err != nil {
				t.Fatal(err)
			}
			l, err := plain.parse(name, text)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range l.entries {
				if !strings.HasPrefix(e.key, b.section+".") || e.key == b.key && b.kind != GPUs {
					t.Errorf("%s sets %s", name, e.key)
				}
			}
			for _, k := range keys.Section(b.section) {
				lacks := b.kind == GPUs && !slices.ContainsFunc(ofEveryGPU, func(s string) bool { return strings.HasPrefix(k.Name, s) }) && l.mayLack(&k)
				if k.Name != b.key && l.find(k.Name) == nil && !slices.Contains(served, k.Name) && !lacks {
					t.Errorf("%s does not set %s", name, k.Name)
				}
			}
		}
	}
}

// ofEveryGPU are optional keys, or prefixes of keys, that the presets of all GPUs set.
var ofEveryGPU = []string{"gpu.fit", "gpu.price", "gpu.extend_attention.", "gpu.narrow_kv.", "gpu.scale."}

func TestUnknownPreset(t *testing.T) {
	_, err := Source("gpt-175")
	if err == nil || !strings.Contains(err.Error(), `did you mean "gpt-175b"?`) {
		t.Errorf("got %v", err)
	}
	if _, err = Source("nope"); err == nil || strings.Count(err.Error(), " a100-sxm-80gb,") != 1 { // a GPU and its fit share a name
		t.Errorf("got %v", err)
	}
}

// TestNamesReadNoTables: names of other presets, which every command's help lists, do not need the DRAM tables. It needs its own process,
// since tables once read are cached.
func TestNamesReadNoTables(t *testing.T) {
	const key = "L3SIM_TEST_NAMES"
	if os.Getenv(key) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNamesReadNoTables$")
		cmd.Env = append(os.Environ(), key+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var before, after, all runtime.MemStats
	runtime.ReadMemStats(&before)
	Names(GPUs, Model, SystemPresets, PriceLists)
	runtime.ReadMemStats(&after)
	Names()
	runtime.ReadMemStats(&all)
	if some, rest := after.Mallocs-before.Mallocs, all.Mallocs-after.Mallocs; 10*some > rest {
		t.Errorf("%d allocations for the names of presets without tables, %d for the tables", some, rest)
	}
}
