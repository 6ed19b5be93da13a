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
	for _, s := range dram.Standards() {
		for _, name := range s.PartNames() {
			all = append(all, Preset{Kind: DRAMs, Name: name, Summary: "one rank: " + s.Title})
		}
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

// dramSource writes a part of package dram's tables as a section file with a
// comment on each number.
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
		if comment := dramComments[key]; comment != "" {
			line = fmt.Sprintf("%-20s # %s%s", line, sources[key], comment)
		} else if strings.HasPrefix(line, "[dram.") {
			line = "\n" + line
		}
		out.WriteString(line + "\n")
	}
	return out.String(), nil
}

// dramComments says of each key of [dram] what it moves, and of those that are no timings,
// whose source is in the standard's table, what they are and where from.
var dramComments = map[string]string{
	"standard":        "the rules; every distance of two commands",
	"timings":         "timings of the standard's own that differ from its table; the distances that they name",
	"bank_groups":     "the standard's addressing, two at x16; distance of bursts, all-bank width of the PIM",
	"banks_per_group": "the standard's addressing; all-bank width of the PIM",
	"rows":            "the standard's addressing, by density; capacity of a rank alone",
	"columns":         "the standard's addressing; tokens of one row, so row switches",
	"dies":            "0: one, in a node as many at each position of a rank as node.memory_capacity takes, for which the timing stays that of one; energy of standby and refresh",
	"ecc":             "check bits: none, side-band (DIMMs of 72 bits), inline, inline-16; energy of the chips, capacity for data",
	"device_width":    "data pins of a chip; chips of a rank, re-layout",
	"bus_width":       "data pins of a DIMM without ECC; bytes of a burst",
	"burst_length":    "transfers, BL; bytes and clocks of a burst",
	"tCK":             "speed bin; all times",
	"CL":              "read latency",
	"CWL":             "write latency, turnaround of the bus",
	"tRCD":            "each row switch, ACT to column access",
	"tRP":             "each row switch, PRE to ACT",
	"tRAS":            "shortest life of an open row",
	"tRC":             "row cycle of a bank",
	"tRRD_S":          "all-bank activation",
	"tRRD_L":          "all-bank activation",
	"tFAW":            "all-bank activation: 16 ACTs take 3 tFAW + 3 tRRD_S",
	"tCCD_S":          "bandwidth of the channel",
	"tCCD_L":          "all-bank PIM reads, so PIM bandwidth",
	"tRTP":            "read to PRE, each row switch after reads",
	"tWR":             "write data to PRE, row switches after writes",
	"tWTR_S":          "write to read turnaround",
	"tWTR_L":          "write to read turnaround",
	"tRFC":            "share of time lost to refresh",
	"tREFI":           "share of time lost to refresh",
	"tRTRS":           "gap between bursts of two ranks",
	"VDD":             "volts; energy",
	"IDD0":            "mA a chip, data sheet; energy of a row cycle",
	"IDD2N":           "mA a chip, data sheet; energy of precharged standby",
	"IDD2P":           "mA a chip, data sheet; energy of precharged power-down, which dram replay alone models",
	"IDD3P":           "mA a chip, data sheet; energy of active power-down, which dram replay alone models",
	"IDD6":            "mA a chip, data sheet; energy of self-refresh, which dram replay alone models",
	"IDD3N":           "mA a chip, data sheet; energy of active standby",
	"IDD4R":           "mA a chip, data sheet; energy of reads",
	"IDD4W":           "mA a chip, data sheet; energy of writes",
	"IDD5B":           "mA a chip, data sheet; energy of refresh",
	"bank_share":      "0: Micron's TN-40-07; 0.5 in DDR5, DRAMPower's own factRho there, since IDD0 is below IDD3N; energy of activations against active standby",
}
