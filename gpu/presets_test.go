package gpu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// loadPreset reads a GPU preset of package configs, which embeds the files
// that this package's tests fit and judge.
func loadPreset(t testing.TB, name string) *Spec {
	t.Helper()
	var file struct {
		GPU Spec `toml:"gpu"`
	}
	decodePreset(t, "gpus", name, &file)
	if errs := input.Faults(&file.GPU); len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs[0])
	}
	return &file.GPU
}

func loadModel(t testing.TB, name string) *llm.Model {
	t.Helper()
	var file struct {
		Model llm.Model `toml:"model"`
	}
	decodePreset(t, "models", name, &file)
	if errs := input.Faults(&file.Model); len(errs) > 0 {
		t.Fatalf("%s: %v", name, errs[0])
	}
	return &file.Model
}

func decodePreset(t testing.TB, kind, name string, file any) {
	t.Helper()
	path := filepath.Join("..", "configs", kind, name+".toml")
	meta, err := toml.DecodeFile(path, file)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		t.Fatalf("%s: unknown key %v", path, unknown[0])
	}
}

// presetNames returns the names of all presets of a kind.
func presetNames(t testing.TB, kind string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "configs", kind))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".toml" {
			names = append(names, e.Name()[:len(e.Name())-len(ext)])
		}
	}
	return names
}

func TestPresetsAreValid(t *testing.T) {
	for _, name := range presetNames(t, "gpus") {
		if s := loadPreset(t, name); s.Name != name {
			t.Errorf("%s calls itself %q", name, s.Name)
		}
	}
	for _, name := range presetNames(t, "models") {
		if m := loadModel(t, name); m.Name != name {
			t.Errorf("%s calls itself %q", name, m.Name)
		}
	}
}
