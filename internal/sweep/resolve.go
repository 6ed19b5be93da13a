package sweep

import (
	"fmt"
	"go/constant"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/tables"
)

// resolver turns settings into configurations. Two combinations have the same presets if they set
// the same keys, and text keys to the same text. resolver loads the first one and copies it with
// other numbers for the others, which is a hundred times faster than reading presets. It loads an
// invalid copy from the presets, for an error with file and line.
type resolver struct {
	loadAll bool // load every configuration, for tests that compare copies with it

	mu     sync.RWMutex
	loaded map[string]*loaded // by presetsOf
}

// loaded is a configuration and the origins of its keys.
type loaded struct {
	config  configs.Config
	origins *configs.Origins
}

// resolve returns the configuration of the plan's file with settings, which the caller owns, and the origins of its keys.
func (r *resolver) resolve(p *Plan, settings []design.Setting) (*configs.Config, *configs.Origins, error) {
	name := presetsOf(p.keys(), settings)
	r.mu.RLock()
	like := r.loaded[name]
	r.mu.RUnlock()
	if like != nil && !r.loadAll {
		config := withNumbers(p.keys(), &like.config, settings)
		if derived, _ := like.origins.DerivesLayout(); derived && config != nil && design.FindSetting(settings, layoutKey) == nil {
			config.DeriveTensorParallel()
		}
		if config != nil && input.Validate(config) == nil {
			return config, like.origins, nil
		}
	}
	config, origins, err := p.File.Loader.LoadWithOrigins(p.options(settings))
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded == nil {
		r.loaded = map[string]*loaded{}
	}
	r.loaded[name] = &loaded{*config, origins}
	return config, origins, nil
}

// presetsOf returns the part of the settings that determines the presets: the keys, and the values
// of text keys.
func presetsOf(keys *configs.Schema, settings []design.Setting) string {
	var b strings.Builder
	for _, s := range settings {
		b.WriteString(s.Key)
		if k := keys.Key(s.Key); k == nil || k.Type.Kind() == reflect.String {
			b.WriteString("=" + s.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// withNumbers returns a copy of a configuration with the numbers of the settings, nil if a setting
// is not a valid value of its key.
func withNumbers(keys *configs.Schema, like *configs.Config, settings []design.Setting) *configs.Config {
	config := *like
	for _, s := range settings {
		if keys.Key(s.Key).Type.Kind() != reflect.String && config.Set(s.Key, s.Value) != nil {
			return nil
		}
	}
	return &config
}

// cells returns the configuration's cells in the point's row: the values of the plan's columns. If
// the combination is not valid, it returns the known ones.
func (p *Plan) cells(point *Point, settings []design.Setting, config *configs.Config) []tables.Value {
	cells := make([]tables.Value, len(p.columns))
	for i, key := range p.columns {
		switch {
		case config != nil && key == "gpu.preset" && config.GPU.Name != "":
			cells[i] = tables.Of(config.GPU.Name) // two files on one preset differ by their names; a preset has its own name
		case config != nil:
			cells[i] = cell(p.keys().Key(key).Get(config))
		case key == tables.SeedColumn:
			cells[i] = tables.Of(point.Seed)
		default:
			cells[i] = plannedCell(p.keys(), settings, key)
		}
	}
	return cells
}

// plannedCell returns the cell of a key that settings set, in the form of a valid configuration's
// cell.
func plannedCell(keys *configs.Schema, settings []design.Setting, key string) tables.Value {
	s := design.FindSetting(settings, key)
	if s == nil {
		return tables.Value{}
	}
	if v, err := schema.Parse(keys.Key(key).Type, s.Value); err == nil {
		return cell(v)
	}
	return tables.Of(schema.Plain(s.Value))
}

// columnName returns the column of a key in a sweep's results: the key, with the unit of its
// values.
func columnName(k *schema.Key) string {
	unit, _ := schema.UnitOf(k.Type)
	return k.Name + unit.Suffix
}

// columnKind returns the kind of a key's column. Bytes are whole numbers. Other quantities are real
// numbers: a column's unit is larger than their base unit.
func columnKind(k *schema.Key) tables.Kind {
	if u, ok := schema.UnitOf(k.Type); ok && u.Size != 1 {
		return tables.Real
	}
	return tables.KindOf(k.Type)
}

// cell returns a value of the configuration in the form of its column.
func cell(v reflect.Value) tables.Value {
	u, ok := schema.UnitOf(v.Type())
	_, named := v.Interface().(fmt.Stringer)
	switch {
	case ok && (u.Size != 1 || v.CanFloat()):
		return tables.Of(schema.Number(v) / u.Size)
	case !ok && (named || schema.IsQuantity(v.Type())):
		return tables.Of(schema.Text(v))
	case v.CanInt():
		return tables.Of(v.Int())
	case v.CanUint():
		return tables.Of(v.Uint())
	case v.CanFloat():
		return tables.Of(v.Float())
	}
	return tables.Of(v.Interface())
}

// combinations returns the combinations of the axes' choices that no condition
// on the axes' own keys excludes.
func (p *Plan) combinations() ([]int, error) {
	total := 1
	for _, a := range p.File.Axes {
		total *= len(a.Choices)
	}
	var all []int
	for c := range total {
		settings := p.settings(c)
		keep, err := p.File.Keeps(func(key string) constant.Value {
			if s := design.FindSetting(settings, key); s != nil {
				return s.Constant()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if keep {
			all = append(all, c)
		}
	}
	return all, nil
}

// Combination is a configuration of a sweep's axes.
type Combination struct {
	Config  *configs.Config
	Options configs.Options   // from which Config is loaded
	Names   map[string]string // of the choices, by the keys that they set
	Point   string            // name of its point in a sweep
	Err     error             // an *input.Error if the choices are not valid together; Config is nil then
}

// Combinations returns the configuration of each combination of the axes, without a plan's
// traces and seeds.
func Combinations(f *design.File) ([]Combination, error) {
	p := emptyPlan(f, "", nil)
	p.nameParts()
	combinations, err := p.combinations()
	if err != nil {
		return nil, err
	}
	all := make([]Combination, len(combinations))
	for i, c := range combinations {
		o := p.options(p.settings(c))
		cfg, err := p.File.Loader.Load(o)
		all[i] = Combination{cfg, o, map[string]string{}, p.name(c), err}
		for axis, choice := range p.choices(c) {
			chosen := &f.Axes[axis].Choices[choice]
			for _, s := range chosen.Settings {
				all[i].Names[s.Key] = chosen.Name
			}
		}
	}
	return all, nil
}

// choices yields each axis with its choice in a combination, from the last axis
// to the first.
func (p *Plan) choices(combination int) func(yield func(axis, choice int) bool) {
	return func(yield func(axis, choice int) bool) {
		for axis := len(p.File.Axes) - 1; axis >= 0; axis-- {
			n := len(p.File.Axes[axis].Choices)
			if !yield(axis, combination%n) {
				return
			}
			combination /= n
		}
	}
}

// settings returns the settings of a combination, after those of the file.
func (p *Plan) settings(combination int) []design.Setting {
	chosen := make([]int, len(p.File.Axes))
	for axis, choice := range p.choices(combination) {
		chosen[axis] = choice
	}
	all := slices.Clone(p.File.Set)
	for axis, choice := range chosen {
		all = append(all, p.File.Axes[axis].Choices[choice].Settings...)
	}
	return all
}

// nameParts prepares name.
func (p *Plan) nameParts() {
	for _, a := range p.File.Axes {
		parts := make([]string, len(a.Choices))
		for i, c := range a.Choices {
			parts[i] = p.namePart(c)
		}
		p.parts = append(p.parts, parts)
	}
}

// namePart returns what a choice adds to the name of a point.
func (p *Plan) namePart(c design.Choice) string {
	if c.Name != "" {
		return c.Name
	}
	var settings []string
	for _, s := range c.Settings {
		if s.Key != tables.SeedColumn {
			settings = append(settings, p.shortKey(s.Key)+"="+schema.Plain(s.Value))
		}
	}
	return strings.Join(settings, ",")
}

// name returns the name of a combination: the parts of its axes, joined by
// commas. The seed is not part of the name.
func (p *Plan) name(combination int) string {
	var parts []string
	for axis, choice := range p.choices(combination) {
		if part := p.parts[axis][choice]; part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "default"
	}
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

// shortKey returns a key without its section if no other key of the axes has the same last part.
func (p *Plan) shortKey(key string) string {
	_, last := schema.Split(key)
	for _, other := range p.Keys {
		if _, l := schema.Split(other); l == last && other != key {
			return key
		}
	}
	return last
}
