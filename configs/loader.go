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

// System is what the loader knows of a system that a node can be.
type System struct {
	Name   string   // value of run.system
	Others []string // what else people call it, for messages
	// Section is the name of the section that is the system's own, "" for none; Zero is a
	// value of the struct with its keys. Section returns it from a configuration.
	Section string
	Zero    input.Checked
	// Defaults is the section in TOML, with a comment on each number. It lies below the
	// system presets.
	Defaults string
	// Check has the rules of what must fit together for this system, nil for none. The
	// sections are right by themselves when it is called.
	Check func(c *Config, k *input.Check)
	// Value is the system itself, of which this package knows nothing: Config.System and Loader.Systems lead to it.
	Value any
}

// Loader loads configurations of nodes that can be one of its systems, with one of its policies.
type Loader struct {
	policies *policy.List
	systems  []System
	zero     []any   // the systems' sections without values
	whole    *Config // what has defaults
	keys     *schema.Schema
	once     struct {
		defaults, ranges sync.Once
	}
	defaults *layer // of sections that no preset need have: [policy], [arrivals], [serving], [slo], [cache], [content], the systems'
	err      error  // in them
	ranges   map[string]string
	presets  sync.Map // of *layer, by name of a system preset
	titles   sync.Map // of *Config, by system preset and preset of a section
}

// New returns the loader for the systems and the policies.
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

// Made returns the error for a loader that is nil, or a value of Loader that New did not return.
func (ld *Loader) Made() error {
	if ld == nil || ld.keys == nil {
		return &input.Error{Key: "loader", Expected: "one that Configs, Extend or New returned"}
	}
	return nil
}

// Made returns the error for a configuration that is nil, or a value of Config that no loader returned.
func (c *Config) Made() error {
	if c == nil || c.loader == nil {
		return &input.Error{Key: "configuration", Expected: "one that a loader of Configs or Extend made"}
	}
	return nil
}

// readDefaults returns the defaults of sections that no preset need have as one layer.
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

// newConfig returns a configuration without values, but for [policy].
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

// Set gives a key the value of a text, as --set does.
func (c *Config) Set(key, text string) error {
	if err := c.Made(); err != nil {
		return err
	}
	return c.loader.keys.Set(c, key, text)
}

// System returns the system that run.system names, nil where its loader knows none of that name. Nobody changes it.
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

// plain is the loader for what has no system around it.
var plain = New(policies.Builtin())

// LoadGPU returns the GPU that name stands for, a preset or a file, and the link that
// the file describes, nil where it has none. Flag is what the user gave the name to.
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

// LoadModel returns the model that name stands for, a preset or a file. A file that
// does not say how many GPUs share a replica gets as few of g as hold it, at most gpus.
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

// loadSection loads what a preset or a file says, without a system around it.
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
