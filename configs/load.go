package configs

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// Options says where a configuration comes from, from lowest to highest precedence.
type Options struct {
	Preset      string   // system preset of a configuration that names none; "" is DefaultPreset
	ConfigFiles []string // overlay files; the later wins
	Sets        []string // "section.key=value"; later ones win
	Flags       []Flag   // the command's own flags, only those that were given
	// SectionsOnly skips the rules across sections that a system needs, for commands that simulate none.
	SectionsOnly bool
}

// Load builds the configuration from the preset and the layers of o, and validates it. The error is an *input.Error that names one fault.
func (ld *Loader) Load(o Options) (*Config, error) {
	c, _, err := ld.LoadWithOrigins(o)
	return c, err
}

// LoadWithOrigins is Load for a caller that may find faults later, in files that the configuration names (a trace), and reports where they
// were named.
func (ld *Loader) LoadWithOrigins(o Options) (*Config, *Origins, error) {
	if err := ld.Made(); err != nil {
		return nil, nil, err
	}
	r, err := ld.resolveAll(nil, o)
	if err != nil {
		return nil, nil, err
	}
	return r.config, &Origins{r}, nil
}

// Origins says where each key of a configuration got its value.
type Origins struct{ r *resolution }

// Locate adds, to an *input.Error about a key of the configuration, the file and line where the key was set. It returns any other error
// unchanged.
func (o *Origins) Locate(err error) error {
	var bad *input.Error
	if !errors.As(err, &bad) || bad.File != "" {
		return err
	}
	if _, known := o.r.origin[bad.Key]; !known {
		return err
	}
	return o.r.locate(bad)
}

// resolveAll adds the layers of the options on top of others, and validates the result.
func (ld *Loader) resolveAll(layers []*layer, o Options) (*resolution, error) {
	r, err := ld.resolveOptions(layers, o)
	if err != nil {
		return nil, err
	}
	r.config.sectionsOnly = o.SectionsOnly
	if err := r.readFiles(); err != nil {
		return nil, err
	}
	if err := input.Validate(r.config); err != nil {
		return nil, r.locate(err)
	}
	return r, nil
}

// resolveOptions is resolveAll without validation.
func (ld *Loader) resolveOptions(layers []*layer, o Options) (*resolution, error) {
	layers, err := ld.userLayers(layers, o)
	if err != nil {
		return nil, err
	}
	return ld.resolve(layers)
}

// userLayers returns the layers of options on top of others.
func (ld *Loader) userLayers(layers []*layer, o Options) ([]*layer, error) {
	for _, file := range o.ConfigFiles {
		l, err := ld.read(file)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	sets, err := ld.setLayer(o.Sets)
	if err != nil {
		return nil, err
	}
	flags, err := ld.flagLayer(o.Flags)
	if err != nil {
		return nil, err
	}
	layers = append(layers, sets, flags)
	if o.Preset != "" && !slices.ContainsFunc(layers, func(l *layer) bool { return l.find("preset") != nil }) {
		own := entry{key: "preset", value: reflect.ValueOf(o.Preset)}
		layers = append([]*layer{{preset: true, entries: []entry{own}}}, layers...)
	}
	return layers, nil
}

// resolution is a configuration with the origin of its keys.
type resolution struct {
	config *Config
	origin map[string]origin // by full key
	table  *table            // the table of a user's DRAM part; nil for shipped parts
	bands  map[string]keyBand
}

func (ld *Loader) newResolution() *resolution {
	return &resolution{config: ld.newConfig(), origin: map[string]origin{}, bands: map[string]keyBand{}}
}

// origin is where a key got its value.
type origin struct {
	entry
	preset bool // in an embedded preset, or in a table of a standard; entry is its line
	// within is the line of the value in the preset that entry names; "" if entry has the value.
	within string
	open   bool // nobody gave a value: it is derived
}

// resolve puts the user's layers, lowest first, on top of the system preset.
func (ld *Loader) resolve(user []*layer) (*resolution, error) {
	r := ld.newResolution()
	top, err := systemPreset(user)
	if err != nil {
		return nil, err
	}
	ld.once.defaults.Do(func() { ld.defaults, ld.err = ld.readDefaults() })
	if ld.err != nil {
		return nil, ld.err
	}
	r.config.Sections = ld.whole.Sections
	r.config.Arrivals, r.config.Serving, r.config.SLO = ld.whole.Arrivals, ld.whole.Serving, ld.whole.SLO
	r.config.Energy, r.config.Cache, r.config.GPU.Scale = ld.whole.Energy, ld.whole.Cache, ld.whole.GPU.Scale
	r.config.GPU.MemoryShare = ld.whole.GPU.MemoryShare
	for _, e := range ld.defaults.entries {
		r.origin[e.key] = origin{entry: e, preset: true}
	}
	system, err := ld.presetLayer(&ld.presets, SystemPresets, top.value.String(), top.key)
	if err != nil {
		return nil, at(top, err)
	}
	layers := append([]*layer{system}, user...)
	chosen, err := variantLayer(layers)
	if err != nil {
		return nil, err
	}
	if chosen != nil {
		layers = slices.Insert(layers, 1, chosen)
	}
	roots := make([]*root, len(bases))
	for i := range bases {
		if roots[i], err = bases[i].find(ld, layers); err != nil {
			return nil, err
		}
		if t := roots[i].table; t != nil {
			r.table = t
			r.config.DRAM.Obey(t.standard)
		}
	}
	fits := unsuperseded(layers, roots, "gpu.fit")
	for i := range bases {
		// If the user named a preset, its faults are reported where it was named.
		over := slices.Concat(roots[i].files, fits)
		for _, e := range roots[i].entries {
			if e.replaced(over...) {
				continue
			}
			o := origin{entry: e, preset: true}
			if !layers[roots[i].owner].preset {
				o = origin{entry: *roots[i].named, within: fmt.Sprintf("%s:%d", e.file, e.line)}
				o.comment = e.comment
			}
			r.set(e, o)
		}
	}
	r.set(*top, origin{entry: *top})
	for i, l := range layers {
		r.forget(l)
		for _, e := range l.entries {
			if !superseded(layers, roots, i, e.key) && !e.replaced(layers[i+1:]...) {
				r.set(e, e.origin(l.preset))
			}
		}
		if i > 0 {
			continue
		}
		for _, root := range roots { // the user's values override files, and files override presets
			for _, file := range root.files {
				r.config.notes = append(r.config.notes, file.notes...)
				for _, e := range file.entries {
					if !e.replaced(layers[1:]...) {
						r.set(e, e.origin(file.table != nil))
					}
				}
			}
		}
	}
	r.finish(roots)
	r.setBands(append([]*layer{ld.defaults}, layers...))
	return r, nil
}

// origin returns where a key got the value of an entry. preset reports whether the entry's layer is a preset. An entry of a table that the
// user named counts as the user's.
func (e *entry) origin(preset bool) origin {
	if e.named == nil || preset {
		return origin{entry: *e, preset: preset}
	}
	o := origin{entry: *e.named, within: fmt.Sprintf("%s:%d", e.file, e.line)}
	o.comment = e.comment
	return o
}

// finish stores the names of the presets that sections start from, and derives the keys that no layer sets.
func (r *resolution) finish(roots []*root) {
	for i, b := range bases {
		named := keys.Key(b.key).Get(r.config)
		named.SetString(roots[i].preset)
		if roots[i].preset == "" {
			named.SetString(keys.Key(b.name()).Get(r.config).String())
		}
	}
	r.deriveLayout(roots[0].named)
	r.derivePolicy(roots[0].named)
}

// systemPreset returns the entry that names the system preset. Two layers must not name different ones, since it would be unsafe either to
// keep or to drop the lower layer's keys.
func systemPreset(layers []*layer) (*entry, error) {
	var named *entry
	for _, l := range layers {
		e := l.find("preset")
		if e == nil {
			continue
		}
		if named != nil && named.value.String() != e.value.String() {
			return nil, &input.Error{
				File: e.file, Line: e.line, Key: e.key, Value: schema.Written(e.value.String()),
				Expected: fmt.Sprintf("%q, which %s names", named.value, named.file),
			}
		}
		named = e
	}
	if named == nil {
		named = &entry{key: "preset", value: reflect.ValueOf(DefaultPreset)}
	}
	return named, nil
}

func at(e *entry, err error) error {
	return input.Edit(err, func(bad *input.Error) {
		if bad.File == "" {
			bad.File, bad.Line = e.file, e.line
		}
	})
}

// superseded reports whether layer i set key for another root than the one that the section finally starts from.
func superseded(layers []*layer, roots []*root, i int, key string) bool {
	section, _, _ := strings.Cut(key, ".")
	for j, b := range bases {
		if b.section == section && !slices.Contains(served, key) && i < roots[j].owner {
			own := b.identity(layers[i])
			return own != "" && own != b.identity(layers[roots[j].owner])
		}
	}
	return false
}

// unsuperseded returns the layers whose setting of key is in effect or overridden, but not superseded.
func unsuperseded(layers []*layer, roots []*root, key string) (all []*layer) {
	for i, l := range layers {
		if l.find(key) != nil && !superseded(layers, roots, i, key) {
			all = append(all, l)
		}
	}
	return all
}

func (r *resolution) set(e entry, o origin) {
	r.config.loader.keys.Key(e.key).Set(r.config, e.value)
	r.origin[e.key] = o
}

// locate adds the place to the error of a broken rule: where the user set the key, or else where the user set another key that the rule
// names, or else the preset's line.
func (r *resolution) locate(err error) error {
	return input.Edit(err, func(bad *input.Error) {
		place, ok := r.origin[bad.Key]
		if other := r.conflict(bad); other != nil && (!ok || place.preset || place.within != "" && other.within == "") {
			bad.File, bad.Line = other.file, other.line
			if value, ok := schema.Literal(other.value.Interface()); ok && bad.Key != other.key && !strings.Contains(bad.Expected, other.key+" = ") {
				bad.Expected += "; given: " + other.key + " = " + value
			}
			return
		}
		bad.File, bad.Line = place.file, place.line
		if changed := r.changed(); place.preset && len(changed) > 0 {
			bad.Expected += "; changed: " + strings.Join(changed, ", ")
		}
	})
}

// conflict returns where the user set the first of the other keys that a broken rule names, or nil. A key itself goes before the section it
// is in.
func (r *resolution) conflict(bad *input.Error) *origin {
	var named *origin
	for _, key := range bad.OtherKeys {
		other, found := r.origin[key]
		for section, _ := schema.Split(bad.Key); !found && section != ""; section, _ = schema.Split(section) {
			other, found = r.origin[section+"."+key]
		}
		switch {
		case !found || other.preset:
		case other.within == "":
			return &other
		case named == nil:
			named = &other
		}
	}
	return named
}

// changed returns the keys that the user set, without those of [run] and without entries of files or tables that the user named.
func (r *resolution) changed() []string {
	var set []string
	for _, key := range r.config.loader.keys.Names() {
		if o, ok := r.origin[key]; ok && !o.preset && o.within == "" && !strings.HasPrefix(key, "run.") {
			set = append(set, key)
		}
	}
	return set
}
