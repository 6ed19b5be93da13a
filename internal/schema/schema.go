package schema

import (
	"encoding"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Key is one value of a struct under a dotted name.
type Key struct {
	Name  string       // "pim.precision.score"
	Index []int        // for reflect.Value.FieldByIndex
	Type  reflect.Type // of the field
	Owner reflect.Type // the struct whose field it is
	Field string       // the field's name in Go
}

// Of returns the key's field of a struct.
func (k *Key) Of(v reflect.Value) reflect.Value { return v.FieldByIndex(k.Index) }

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// IsText says that values of type t are written as text.
func IsText(t reflect.Type) bool { return t.Kind() == reflect.String || IsQuantity(t) }

// IsQuantity says that values of type t read themselves from text.
func IsQuantity(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshaler) }

// Walk returns the values that a struct type has under its tags ("toml", "json"), in
// the order of the fields. Fields of a nested struct follow its tag and a dot. An
// embedded struct without a tag belongs to the struct around it; other fields without a
// tag, and those of "-", are left out.
func Walk(t reflect.Type, tag string) []Key {
	var keys []Key
	walk(t, tag, "", nil, func(key Key, section bool) {
		if !section {
			keys = append(keys, key)
		}
	})
	return keys
}

func walk(t reflect.Type, tag, prefix string, index []int, visit func(key Key, section bool)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		key := Key{Name: prefix + name, Index: append(slices.Clone(index), i), Type: f.Type, Owner: t, Field: f.Name}
		switch section := f.Type.Kind() == reflect.Struct && !IsQuantity(f.Type); {
		case name == "-" || name == "" && !f.Anonymous:
		case name == "":
			walk(f.Type, tag, prefix, key.Index, visit)
		case section:
			visit(key, true)
			walk(f.Type, tag, prefix+name+".", key.Index, visit)
		default:
			visit(key, false)
		}
	}
}

// Schema is the keys of a struct type by its toml tags.
type Schema struct {
	Keys     []Key    // in the order of the fields
	sections []string // full names, in the order of the fields
	byName   map[string]*Key
}

var schemas sync.Map // by reflect.Type

// Of returns the schema of a struct type.
func Of(t reflect.Type) *Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*Schema)
	}
	s := &Schema{byName: map[string]*Key{}}
	walk(t, "toml", "", nil, func(key Key, section bool) {
		if section {
			s.sections = append(s.sections, key.Name)
			return
		}
		s.Keys = append(s.Keys, key)
	})
	for i := range s.Keys {
		s.byName[s.Keys[i].Name] = &s.Keys[i]
	}
	schemas.Store(t, s)
	return s
}

// Key returns the key called name, nil for an unknown name.
func (s *Schema) Key(name string) *Key { return s.byName[name] }

// Names returns the names of all keys.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Name
	}
	return names
}

// IsSection says that name is that of a section.
func (s *Schema) IsSection(name string) bool { return slices.Contains(s.sections, name) }

// Section returns the keys of a section and of the sections in it.
func (s *Schema) Section(name string) []Key {
	var keys []Key
	for _, k := range s.Keys {
		if strings.HasPrefix(k.Name, name+".") {
			keys = append(keys, k)
		}
	}
	return keys
}

// Unknown returns the error for a name that is no key, with the key that was meant: one
// of the same name in another section or another case, or else the nearest.
func (s *Schema) Unknown(name string) error {
	section, _ := Split(name)
	bad := &input.Error{Key: name, Expected: "a key of a known section", Nearest: s.nearest(name)}
	switch {
	case s.IsSection(name):
		bad.Expected, bad.Nearest = "a key of the section, such as "+s.Section(name)[0].Name, ""
	case s.IsSection(section):
		bad.Expected = "a key of [" + section + "]"
	case len(s.sections) == 0:
		bad.Expected = "a known key"
	case bad.Nearest == "":
		bad.Expected = "a key of one of the sections " + strings.Join(slices.Sorted(slices.Values(s.sections)), ", ")
	}
	return bad
}

func (s *Schema) nearest(name string) string {
	section, last := Split(name)
	sameName, valid := "", slices.Sorted(maps.Keys(s.byName))
	for _, k := range s.Keys {
		if _, l := Split(k.Name); strings.EqualFold(k.Name, name) || sameName == "" && strings.EqualFold(l, last) {
			sameName = k.Name
		}
	}
	if sameName != "" {
		return sameName
	}
	if !s.IsSection(section) {
		valid = append(valid, s.sections...)
	}
	return input.Nearest(name, valid)
}

// Split splits a dotted name into its section ("" at the top level) and last part.
func Split(name string) (section, last string) {
	dot := strings.LastIndexByte(name, '.')
	return name[:max(dot, 0)], name[dot+1:]
}
