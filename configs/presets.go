package configs

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// DefaultPreset is the system preset of a configuration that names none.
const DefaultPreset = "dgx-a100-l3"

//go:embed systems/*.toml gpus/*.toml fits/*.toml models/*.toml energy/*.toml prices/*.toml
var files embed.FS

const presetFile = "preset " // prefix of a preset's name, as the file of its entries

// Kind is what a preset describes.
type Kind string

// The kinds of presets.
const (
	SystemPresets Kind = "system" // a whole node with its policies: the key `preset`
	Model         Kind = "model"  // [model]: the key run.model
	GPUs          Kind = "gpu"    // [gpu]: the key gpu.preset
	DRAMs         Kind = "dram"   // [dram]: the key dram.preset
	PriceLists    Kind = "prices" // [prices]: the key prices.preset
	Fits          Kind = "fit"    // kernels of a GPU: the key gpu.fit
	EnergyTables  Kind = "energy" // [energy]: the key energy.constants
)

// Kinds returns the names of all kinds.
func Kinds() []string {
	return list.Map(append(ownKinds, DRAMs), func(k Kind) string { return string(k) })
}

// ownKinds are the kinds of embedded presets, in the order of lists.
var ownKinds = []Kind{SystemPresets, Model, GPUs, Fits, EnergyTables, PriceLists}

// folders of the embedded presets; those of kind DRAMs are tables of package dram.
var folders = map[Kind]string{SystemPresets: "systems", Model: "models", GPUs: "gpus", Fits: "fits", EnergyTables: "energy", PriceLists: "prices"}

// Preset is the name of a preset and what it is.
type Preset struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	Summary string `json:"summary"` // the first line of its comment
}

// Presets returns all presets by kind, then by name.
func Presets() []Preset { return presets() }

// presets has all presets, kind after kind, sorted by name.
func presets() []Preset { return slices.Concat(embedded(), parts()) }

// embedded reads the presets of this package once. Every command names some of them in its help, and none needs the DRAM tables for that.
var embedded = sync.OnceValue(func() []Preset {
	var all []Preset
	for _, kind := range ownKinds {
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
	return all
})

// parts reads the tables of DRAM standards once. Reading them takes longer than all else in 'l3sim version'.
var parts = sync.OnceValue(func() []Preset {
	var all []Preset
	for _, s := range dram.Standards() {
		for _, name := range s.PartNames() {
			all = append(all, Preset{Kind: DRAMs, Name: name, Summary: "one rank: " + s.Title})
		}
	}
	return all
})

// Names returns the names of all presets, or of the presets of the given kinds.
func Names(kinds ...Kind) []string {
	var names []string
	list := embedded()
	if len(kinds) == 0 || slices.Contains(kinds, DRAMs) {
		list = presets()
	}
	for _, p := range list {
		if len(kinds) == 0 || slices.Contains(kinds, p.Kind) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Source returns the text of a preset with its comments. If a GPU and its fit share a name, the text has both.
func Source(name string) (string, error) {
	var texts []string
	for _, p := range presets() {
		if p.Name == name {
			text, err := source(p.Kind, name, "preset")
			if err != nil {
				return "", err
			}
			texts = append(texts, text)
		}
	}
	if texts == nil {
		return "", input.UnknownName("preset", name, slices.Compact(slices.Sorted(slices.Values(Names()))))
	}
	return strings.Join(texts, "\n"), nil
}

// source returns the text of a preset of one kind; key is what named it.
func source(kind Kind, name, key string) (string, error) {
	if !slices.Contains(Names(kind), name) {
		return "", unknownPreset(kind, name, key)
	}
	if kind == DRAMs {
		return dramSource(name)
	}
	text, err := files.ReadFile(folders[kind] + "/" + name + ".toml")
	return string(text), err
}

var presetLayers sync.Map // *layer by kind and name, so that each preset is read once

// presetLayer returns the layer of a section's preset, which must not be changed; key is what named it.
func presetLayer(kind Kind, name, key string) (*layer, error) {
	return plain.presetLayer(&presetLayers, kind, name, key)
}

// presetLayer reads an embedded preset once and keeps it in known.
func (ld *Loader) presetLayer(known *sync.Map, kind Kind, name, key string) (*layer, error) {
	id := [2]string{string(kind), name}
	if l, ok := known.Load(id); ok {
		return l.(*layer), nil
	}
	text, err := source(kind, name, key)
	if err != nil {
		return nil, err
	}
	file := presetFile + name
	if kind == Fits || kind == EnergyTables {
		file = string(kind) + " " + name
	}
	l, err := ld.parse(file, text)
	if err != nil {
		return nil, err
	}
	if l.preset = kind == SystemPresets; l.preset {
		if l.variants, err = ld.parseVariants(l.file, text); err != nil {
			return nil, err
		}
	}
	known.Store(id, l)
	return l, nil
}

// dramSource writes a part of package dram as a section file with a comment on each number.
func dramSource(name string) (string, error) {
	spec, err := dram.LookupSpec(name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(map[string]*dram.Spec{"dram": spec}); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# %s: one rank of devices by %s; timing in clocks of tCK.\n\n", name, spec.Rules().Title)
	sources := map[string]string{}
	for _, p := range spec.Parameters() {
		sources[p.Term] = p.Source + "; "
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		key, _, _ := strings.Cut(line, " =")
		if comment := lineOf(dramComments, key); comment != "" {
			line = fmt.Sprintf("%-20s # %s%s", line, sources[key], comment)
		} else if strings.HasPrefix(line, "[dram.") {
			line = "\n" + line
		}
		out.WriteString(line + "\n")
	}
	return out.String(), nil
}

// dramComments has a line "key, tab, comment" for the keys of [dram]: the effect of each and, except for timings, its meaning and source.
// The standard's table has the sources of timings.
//
//go:embed dram_comments.tsv
var dramComments string

// lineOf returns the text for a key in a table of lines "key, tab, text", or "".
func lineOf(table, key string) string {
	for line := range strings.Lines(table) {
		if name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); name == key {
			return text
		}
	}
	return ""
}

// NewestPrices returns the shipped price list with the latest date, and the date, YYYY-MM-DD.
var NewestPrices = sync.OnceValues(func() (name, date string) {
	for _, list := range Names(PriceLists) {
		layer, err := presetLayer(PriceLists, list, "prices.preset")
		if err != nil {
			continue // embedded lists are valid: tests load them all
		}
		if e := layer.find("prices.date"); e != nil && e.value.String() > date {
			name, date = list, e.value.String()
		}
	}
	return name, date
})
