package configs

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// DefaultPreset is the system preset of a configuration that names none.
const DefaultPreset = "dgx-a100-l3"

//go:embed systems/*.toml gpus/*.toml models/*.toml prices/*.toml
var files embed.FS

// Kind is what a preset describes.
type Kind string

// The kinds of presets.
const (
	SystemPresets Kind = "system" // a whole node with its policies: the key `preset`
	Model         Kind = "model"  // [model]: the key run.model
	GPUs          Kind = "gpu"    // [gpu]: the key gpu.preset
	DRAMs         Kind = "dram"   // [dram]: the key dram.preset
	PriceLists    Kind = "prices" // [prices]: the key prices.preset
)

// folders of the embedded presets; those of kind DRAMs are tables of package
// dram.
var folders = map[Kind]string{SystemPresets: "systems", Model: "models", GPUs: "gpus", PriceLists: "prices"}

// Preset is the name of a preset and what it is.
type Preset struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	Summary string `json:"summary"` // the first line of its comment
}

// Presets returns all presets by kind, then by name.
func Presets() []Preset { return slices.Clone(presets()) }

// presets reads all embedded presets once, kind after kind, sorted by name.
var presets = sync.OnceValue(func() []Preset {
	var all []Preset
	for _, kind := range []Kind{SystemPresets, Model, GPUs, PriceLists} {
		// Embedded folders are there and sorted by name.
		paths, _ := fs.Glob(files, folders[kind]+"/*.toml")
		for _, p := range paths {
			text, _ := files.ReadFile(p)
			first, _, _ := strings.Cut(string(text), "\n")
			all = append(all, Preset{
				Kind: kind, Name: strings.TrimSuffix(path.Base(p), ".toml"),
				Summary: strings.TrimSpace(strings.TrimLeft(first, "# ")),
			})
		}
	}
	for _, name := range dram.SpecNames() {
		all = append(all, Preset{Kind: DRAMs, Name: name, Summary: "one rank by JESD79-4C: organisation and timing"})
	}
	return all
})

// Names returns the names of all presets, or of those of the given kinds.
func Names(kinds ...Kind) []string {
	var names []string
	for _, p := range presets() {
		if len(kinds) == 0 || slices.Contains(kinds, p.Kind) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Source returns the text of a preset with its comments.
func Source(name string) (string, error) {
	i := slices.IndexFunc(presets(), func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return "", input.UnknownName("preset", name, Names())
	}
	return source(presets()[i].Kind, name, "preset")
}

// source returns the text of a preset of one kind; key is what named it.
func source(kind Kind, name, key string) (string, error) {
	if !slices.Contains(Names(kind), name) {
		return "", input.UnknownName(key, name, Names(kind))
	}
	if kind == DRAMs {
		return dramSource(name)
	}
	text, err := files.ReadFile(folders[kind] + "/" + name + ".toml")
	return string(text), err
}

var presetLayers sync.Map // of *layer, by kind and name: no preset is read twice

// presetLayer returns the layer of a preset of a section, which nobody may change; key
// is what named it.
func presetLayer(kind Kind, name, key string) (*layer, error) {
	return plain.presetLayer(&presetLayers, kind, name, key)
}

// systemPreset returns the layer of a system preset.
func (ld *Loader) systemPreset(named *entry) (*layer, error) {
	return ld.presetLayer(&ld.presets, SystemPresets, named.value.String(), named.key)
}

// presetLayer reads an embedded preset once. known keeps it for all later loads.
func (ld *Loader) presetLayer(known *sync.Map, kind Kind, name, key string) (*layer, error) {
	id := [2]string{string(kind), name}
	if l, ok := known.Load(id); ok {
		return l.(*layer), nil
	}
	text, err := source(kind, name, key)
	if err != nil {
		return nil, err
	}
	l, err := ld.parse("preset "+name, text)
	if err != nil {
		return nil, err
	}
	l.preset = kind == SystemPresets
	known.Store(id, l)
	return l, nil
}
