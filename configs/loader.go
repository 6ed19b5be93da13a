package configs

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// System is the loader's view of a system that can be simulated.
type System struct {
	Name   string   // value of run.system
	Others []string // other common names, for messages
	// Section is the name of the system's own section, "" for none. Zero is a value of the struct with its keys. The function Section
	// returns the section of a configuration.
	Section string
	Zero    input.Checked
	// Defaults is the section in TOML, with a comment on each number. System presets override it.
	Defaults string
	// Check has the rules across sections for this system, or is nil. It is called only if each section is valid by itself.
	Check func(c *Config, k *input.Check)
	// Value is the system itself, opaque to this package. Config.System and Loader.Systems lead to it.
	Value any
}

// Loader loads configurations for a set of systems and policies.
type Loader struct {
	policies *policy.List
	systems  []System
	zero     []any   // the systems' own sections, without values
	whole    *Config // holds the defaults
	keys     *schema.Schema
	once     struct {
		defaults, ranges sync.Once
	}
	defaults *layer // of sections that presets may leave out: [policy], [arrivals], [serving], [slo], [cache], [content], the systems' own
	err      error  // error in the defaults
	ranges   map[string]string
	presets  sync.Map // system presets (*layer) by name
	titles   sync.Map // configurations (*Config) by system preset and a section's preset
}

// New returns the loader for these policies and systems.
func New(known *policy.List, systems ...System) *Loader {
	ld := &Loader{policies: known, systems: systems}
	sections := known.Sections()
	for _, s := range systems {
		if s.Section != "" {
			sections = append(sections, schema.Section{Name: s.Section, Type: reflect.TypeOf(s.Zero)})
			ld.zero = append(ld.zero, s.Zero)
		}
	}
	ld.keys = schema.With[Config](sections...)
	ld.keys.Others, ld.keys.Former = otherNames, formerKeys
	return ld
}

// Made returns the error for a loader that is nil or that New did not return.
func (ld *Loader) Made() error {
	if ld == nil || ld.keys == nil {
		return &input.Error{Key: "loader", Expected: "one that Configs, Extend or New returned"}
	}
	return nil
}

// Made returns the error for a configuration that is nil or that no loader returned.
func (c *Config) Made() error {
	if c == nil || c.loader == nil {
		return &input.Error{Key: "configuration", Expected: "one that a loader of Configs or Extend made"}
	}
	return nil
}

// readDefaults returns, as one layer, the defaults of sections that presets may leave out.
func (ld *Loader) readDefaults() (*layer, error) {
	all := &layer{preset: true}
	for _, d := range [][2]string{{"policies", ld.policies.Defaults()}, {"traces", traces.SyntheticDefaults}, {"arrivals", traces.ArrivalDefaults}, {"serving", scheduler.ServingDefaults}, {"energy", "[energy]\nconstants = \"constants-2026\"\n"}, {"kernels", gpu.ScaleDefaults}, {"memory", gpu.MemoryDefaults}, {"tiles", llm.TileDefaults}, {"bands", bandDefaults}, {"batching", scheduler.BatchingDefaults}, {"cache", scheduler.CacheDefaults}, {"content", contentDefaults}} {
		l, err := ld.parse("defaults of "+d[0], d[1])
		if err != nil {
			return nil, err
		}
		all.entries, all.bands = append(all.entries, l.entries...), append(all.bands, l.bands...)
	}
	for _, s := range ld.systems {
		l, err := ld.parse("defaults of "+s.Name, s.Defaults)
		if err != nil {
			return nil, err
		}
		for _, e := range l.entries {
			if !strings.HasPrefix(e.key, s.Section+".") {
				return nil, fmt.Errorf("%s: %s is no key of a section of its own", l.file, e.key)
			}
		}
		for _, k := range ld.keys.Section(s.Section) {
			if s.Section != "" && l.find(k.Name) == nil {
				return nil, fmt.Errorf("%s: no value for %s", l.file, k.Name)
			}
		}
		all.entries, all.bands = append(all.entries, l.entries...), append(all.bands, l.bands...)
	}
	c := ld.newConfig()
	for _, e := range all.entries {
		ld.keys.Key(e.key).Set(c, e.value)
	}
	ld.whole = c
	return all, nil
}

// Schema is the keys of configurations: their names, types, fields and values as text.
type Schema = schema.Schema

// Policies returns the policies that a configuration may name.
func (ld *Loader) Policies() *policy.List {
	ld = cmp.Or(ld, &Loader{})
	return ld.policies
}

// Keys returns the description of a Config's keys.
func (ld *Loader) Keys() *Schema {
	ld = cmp.Or(ld, &Loader{})
	return ld.keys
}

// Systems returns the systems that a configuration may name, in order.
func (ld *Loader) Systems() []System {
	ld = cmp.Or(ld, &Loader{})
	return slices.Clone(ld.systems)
}

// names returns the names of the systems.
func (ld *Loader) names() []string {
	return list.Map(ld.systems, func(s System) string { return s.Name })
}

// newConfig returns a configuration without values, except in [policy].
func (ld *Loader) newConfig() *Config {
	return &Config{Sections: ld.zero, Policy: ld.policies.Default(), loader: ld}
}

// Section returns a system's own section, which has type T.
func Section[T input.Checked](c *Config) T {
	for _, s := range c.Sections {
		if section, ok := s.(T); ok {
			return section
		}
	}
	var zero T
	return zero
}

// Set sets a key to the value of a text, as --set does.
func (c *Config) Set(key, text string) error {
	if err := c.Made(); err != nil {
		return err
	}
	return c.loader.keys.Set(c, key, text)
}

// System returns the system that run.system names, or nil if the loader does not know it. It must not be changed.
func (c *Config) System() *System {
	for i := 0; c.loader != nil && i < len(c.loader.systems); i++ {
		if s := &c.loader.systems[i]; s.Name == c.Run.System {
			return s
		}
	}
	return nil
}

// CommonSystems returns the systems that run.common_to names.
func (c *Config) CommonSystems() []string {
	switch c.Run.CommonTo {
	case "":
		return nil
	case "all":
		return c.loader.names()
	}
	names := strings.Split(c.Run.CommonTo, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// plain is the loader for a section without a system.
var plain = New(policies.Builtin())

// LoadGPU returns the GPU of a preset or a file, and the link if the file describes one, else nil. flag is the flag that gave the name.
func LoadGPU(flag, name string) (*gpu.Spec, *pcie.Spec, error) {
	r, err := loadSection(GPUs, flag, name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.valid("gpu", &r.config.GPU); err != nil {
		return nil, nil, err
	}
	if _, given := r.origin["pcie.generation"]; !given {
		return &r.config.GPU.Spec, nil, nil
	}
	if err := r.valid("pcie", &r.config.PCIe); err != nil {
		return nil, nil, err
	}
	return &r.config.GPU.Spec, &r.config.PCIe, nil
}

// LoadModel returns the model of a preset or a file. If a file does not say how many GPUs share a replica, the model gets the fewest of g
// that hold it, at most gpus.
func LoadModel(flag, name string, g *gpu.Spec, gpus int) (*llm.Model, error) {
	r, err := loadSection(Model, flag, name)
	if err != nil {
		return nil, err
	}
	if o, given := r.origin[layoutKey]; !given || o.fit {
		r.config.GPU.Spec, r.config.Node.GPUs = *g, gpus
		r.config.DeriveTensorParallel()
	}
	return &r.config.Model, r.valid("model", &r.config.Model)
}

// loadSection loads a preset or a file without a system.
func loadSection(kind Kind, flag, name string) (*resolution, error) {
	r := plain.newResolution()
	for _, b := range bases {
		if b.kind != kind {
			continue
		}
		named := &layer{entries: []entry{{key: b.key, value: reflect.ValueOf(name), file: flag}}}
		root, err := b.find(plain, []*layer{{}, named})
		if err != nil {
			return nil, input.Edit(err, func(bad *input.Error) {
				if bad.File == flag && bad.Key == b.key {
					bad.File, bad.Key = "", flag
				}
			})
		}
		for _, e := range root.entries {
			if e.replaced(root.files...) {
				continue
			}
			r.set(e, origin{entry: e, preset: true})
		}
		for _, file := range root.files {
			for _, e := range file.entries {
				r.set(e, origin{entry: e})
			}
		}
	}
	return r, nil
}

// valid returns the first fault of a section, with full key and place.
func (r *resolution) valid(name string, section input.Checked) error {
	var c input.Check
	c.In(name, section)
	return r.locate(c.Err())
}
