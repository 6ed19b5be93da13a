package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/schema"
	"github.com/l3sim/l3sim/results"
)

// resolver turns settings into configurations. Combinations that set the same
// keys, and those that hold text to the same text, form a family: they have the
// presets in common, so that after one of them has been loaded the others differ
// from it in numbers alone. Those are set in a copy, a thousand times faster than
// presets are read, and a copy that Validate finds fault with is loaded after
// all, for the error that names the place.
type resolver struct {
	loadAll bool // load every configuration: the way that the short one is compared with

	mu       sync.RWMutex
	families map[string]*family
}

// family is what combinations with the same presets share.
type family struct {
	base  configs.Config // one of them, as it was loaded
	text  []byte         // as WriteTOML writes base
	lines []keyLines     // of the keys that members set, and the seed, in the order of text
}

// keyLines is where family.text holds a key.
type keyLines struct {
	name       string // without sections
	index      []int  // of the field
	start, end int    // of the line, its end included
}

// resolved is a configuration and what it has in common with others.
type resolved struct {
	config configs.Config
	family *family
}

// resolve returns the configuration that settings make of the plan's file.
func (r *resolver) resolve(p *Plan, settings []Setting) (*resolved, error) {
	name := familyName(settings)
	r.mu.RLock()
	f := r.families[name]
	r.mu.RUnlock()
	if f != nil && !r.loadAll {
		if member := f.member(settings); member != nil && len(member.config.Validate()) == 0 {
			return member, nil
		}
	}
	loaded, err := configs.Load(p.options(settings))
	if err != nil {
		return nil, err
	}
	if f == nil {
		if f, err = newFamily(loaded, settings); err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.families == nil {
			r.families = map[string]*family{}
		}
		r.families[name] = f // or that of another goroutine: either will do
	}
	return &resolved{*loaded, f}, nil
}

// familyName returns what the settings of a family's members have in common.
func familyName(settings []Setting) string {
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

// newFamily returns the family of a configuration with these settings.
func newFamily(base *configs.Config, settings []Setting) (*family, error) {
	var text bytes.Buffer
	if err := base.WriteTOML(&text); err != nil {
		return nil, err
	}
	f := &family{base: *base, text: text.Bytes()}
	wanted := map[string]bool{results.SeedColumn: true}
	for _, s := range settings {
		wanted[s.Key] = true
	}
	section, at := "", 0
	for line := range bytes.Lines(f.text) {
		if line[0] == '[' {
			section = strings.Trim(string(line), "[]\n") + "."
		} else if name, _, ok := strings.Cut(string(line), " = "); ok && wanted[section+name] {
			f.lines = append(f.lines, keyLines{name, keys.Key(section + name).Index, at, at + len(line)})
			delete(wanted, section+name)
		}
		at += len(line)
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("configuration: keys %v are not where its text is expected to hold them", wanted)
	}
	return f, nil
}

// member returns the configuration with other numbers, nil where a setting is no value
// of its key.
func (f *family) member(settings []Setting) *resolved {
	m := &resolved{f.base, f}
	config := reflect.ValueOf(&m.config).Elem()
	for _, s := range settings {
		key := keys.Key(s.Key)
		if key.Type.Kind() == reflect.String {
			continue // all members have the same
		}
		if schema.Set(key.Of(config), s.Value) != nil {
			return nil
		}
	}
	return m
}

// seed gives the configuration another seed.
func (r *resolved) seed(seed uint64) { r.config.Run.Seed = seed }

// sha256 returns the configuration's Config.SHA256. It writes the lines alone
// that differ from the family's text.
func (r *resolved) sha256() (string, error) {
	hash := sha256.New()
	is, was := reflect.ValueOf(&r.config).Elem(), reflect.ValueOf(&r.family.base).Elem()
	at := 0
	for _, l := range r.family.lines {
		value := is.FieldByIndex(l.index)
		if value.Equal(was.FieldByIndex(l.index)) {
			continue
		}
		line, err := toml.Marshal(map[string]any{l.name: value.Interface()})
		if err != nil {
			return "", fmt.Errorf("configuration: %w", err)
		}
		hash.Write(r.family.text[at:l.start])
		hash.Write(line)
		at = l.end
	}
	hash.Write(r.family.text[at:])
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// cells returns what the point's row in the results shows of its configuration:
// the values of the plan's columns, as far as they are known where the
// combination is no configuration.
func (p *Plan) cells(point *Point, settings []Setting, resolved *resolved) []string {
	cells := make([]string, len(p.columns))
	for i, key := range p.columns {
		switch {
		case resolved != nil:
			cells[i] = columnValue(&resolved.config, key)
		case key == results.SeedColumn:
			cells[i] = fmt.Sprint(point.Seed)
		default:
			cells[i] = plannedCell(settings, key)
		}
	}
	return cells
}

// plannedCell writes what settings give a key the way a configuration that holds
// this value writes it.
func plannedCell(settings []Setting, key string) string {
	for _, s := range slices.Backward(settings) {
		if s.Key != key {
			continue
		}
		var partial configs.Config
		if schema.Set(fieldOf(&partial, key), s.Value) == nil {
			return columnValue(&partial, key)
		}
		return schema.Plain(s.Value)
	}
	return ""
}
