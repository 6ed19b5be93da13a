package schema

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// Key is one value of a struct under a dotted name.
type Key struct {
	Name  string       // "pim.precision.score"
	Type  reflect.Type // of the field
	Owner reflect.Type // the struct whose field it is
	Field string       // the field's name in Go
	// Optional are the keys and sections that a file may leave out: the key itself, by its name, and each optional section it is
	// in ("gpu.experts."), which is given whole or not at all. Their tags have an option after the name: omitempty, omitzero, or
	// optional for a field that is always written.
	Optional []string
	index    []int // for reflect.Value.FieldByIndex; relative to the section of With, if the key is in one
	open     []int // the field that holds the key's section of With; nil for other keys
	nth      int   // index of the section in that field
}

// Get returns the key's value in the struct that of points to.
func (k *Key) Get(of any) reflect.Value {
	v := reflect.ValueOf(of).Elem()
	if k.open != nil {
		v = v.FieldByIndex(k.open).Index(k.nth).Elem()
	}
	return v.FieldByIndex(k.index)
}

// Set sets the key in the struct that to points to. Copies of the struct keep their value, even if they share sections of With.
func (k *Key) Set(to any, value reflect.Value) {
	v := reflect.ValueOf(to).Elem()
	if k.open == nil {
		v.FieldByIndex(k.index).Set(value)
		return
	}
	field := v.FieldByIndex(k.open)
	sections := slices.Clone(field.Interface().([]any))
	section := reflect.New(reflect.TypeOf(sections[k.nth])).Elem()
	section.Set(reflect.ValueOf(sections[k.nth]))
	section.FieldByIndex(k.index).Set(value)
	sections[k.nth] = section.Interface()
	field.Set(reflect.ValueOf(sections))
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// IsText reports whether values of type t are written as text.
func IsText(t reflect.Type) bool { return t.Kind() == reflect.String || IsQuantity(t) }

// IsQuantity reports whether values of type t unmarshal from text.
func IsQuantity(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshaler) }

// Walk returns the values that a struct type has under its tags ("toml", "json"), in the order of the fields. Keys of a nested
// struct are prefixed with its tag and a dot. An embedded struct without a tag belongs to the enclosing struct; other fields
// without a tag, or with the tag "-", are left out.
func Walk(t reflect.Type, tag string) []Key {
	var keys []Key
	walk(t, tag, "", Key{}, nil, func(key Key, section bool) {
		if !section {
			keys = append(keys, key)
		}
	})
	return keys
}

// walk visits the keys of t, a part of the whole struct at the given place.
func walk(t reflect.Type, tag, prefix string, at Key, sections []Section, visit func(key Key, section bool)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, optional := strings.Cut(f.Tag.Get(tag), ",")
		key := Key{Name: prefix + name, Type: f.Type, Owner: t, Field: f.Name, Optional: at.Optional, index: append(slices.Clone(at.index), i), open: at.open, nth: at.nth}
		section := f.Type.Kind() == reflect.Struct && !IsQuantity(f.Type)
		if optional {
			key.Optional = append(slices.Clip(at.Optional), key.Name)
			if section {
				key.Optional[len(at.Optional)] += "."
			}
		}
		switch {
		case f.Type == reflect.TypeFor[[]any]():
			n := 0 // sections in this field
			for _, s := range sections {
				if last, within := strings.CutPrefix(s.Name, prefix); within && !strings.Contains(last, ".") {
					visit(Key{Name: s.Name}, true)
					walk(s.Type, tag, s.Name+".", Key{open: key.index, nth: n}, nil, visit)
					n++
				}
			}
		case name == "-" || name == "" && !(f.Anonymous && section):
		case name == "":
			walk(f.Type, tag, prefix, key, sections, visit)
		case section:
			visit(key, true)
			walk(f.Type, tag, prefix+name+".", key, sections, visit)
		default:
			visit(key, false)
		}
	}
}

// Fault returns the reason why a type cannot be a section, or nil for a struct all of whose keys can be set.
func Fault(t reflect.Type) error {
	if t == nil || t.Kind() != reflect.Struct {
		return fmt.Errorf("expected a struct, not %v", t)
	}
	value, seen := reflect.New(t).Elem(), map[string]bool{}
	for _, k := range Walk(t, "toml") {
		if !value.FieldByIndex(k.index).CanSet() {
			return fmt.Errorf("field %s of %v has a toml tag, but it or what it is in begins with a small letter", k.Field, t)
		}
		if seen[k.Name] {
			return fmt.Errorf("two fields of %v have the toml tag %s", t, k.Name)
		}
		seen[k.Name] = true
	}
	return nil
}

// Section is a section that is not a field of the struct itself.
type Section struct {
	Name string       // in full, with the section that it is in: "policy.quest"
	Type reflect.Type // a struct
}

// Schema is the keys of a struct type by its toml tags.
type Schema struct {
	Keys     []Key    // in the order of the fields
	sections []string // full names, in the order of the fields
	byName   map[string]*Key
	// Others maps names that other programs use to keys: whole names, or last parts.
	Others map[string]string
	// Former are the keys' names in earlier versions. Unknown refuses them and gives the new name.
	Former []Former
}

// Former is a key that was renamed or removed. If both names end with a dot, it is a section with all its keys. The longest
// matching name counts.
type Former struct {
	Name string // in earlier versions: "prices.utilisation", "old_section."
	Now  string // the name today, or alternatives ("a or b"); "" for a removed key
	Use  string // for a removed key, what to do instead, as the end of a sentence: "use policy.quest.page"
}

// String says what became of the key.
func (f *Former) String() string {
	if f.Now == "" {
		return "was removed: " + f.Use
	}
	return "was renamed to " + strings.TrimSuffix(f.Now, ".")
}

var schemas sync.Map // by reflect.Type

// Of returns the schema of a struct type.
func Of[T any]() *Schema {
	if s, ok := schemas.Load(reflect.TypeFor[T]()); ok {
		return s.(*Schema)
	}
	s := With[T]()
	schemas.Store(reflect.TypeFor[T](), s)
	return s
}

// With is Of a struct type with fields of type []any, at the top or in nested structs. Each such field holds one value for each
// section that belongs there by its name, in the order of the sections.
func With[T any](sections ...Section) *Schema {
	s := &Schema{byName: map[string]*Key{}}
	walk(reflect.TypeFor[T](), "toml", "", Key{}, sections, func(key Key, section bool) {
		if section {
			s.sections = append(s.sections, key.Name)
			return
		}
		s.Keys = append(s.Keys, key)
	})
	for i := range s.Keys {
		s.byName[s.Keys[i].Name] = &s.Keys[i]
	}
	return s
}

// Set sets the key, in the struct that to points to, to the value of a text.
func (s *Schema) Set(to any, key, text string) error {
	k := s.Key(key)
	if k == nil {
		return s.Unknown(key)
	}
	v, err := Parse(k.Type, text)
	if err != nil {
		return input.Edit(err, func(e *input.Error) { e.Key = key })
	}
	k.Set(to, v)
	return nil
}

// Changed returns the keys whose values differ between the structs that two pointers point to.
func (s *Schema) Changed(a, b any) []Key {
	return slices.DeleteFunc(slices.Clone(s.Keys), func(k Key) bool { return k.Get(a).Equal(k.Get(b)) })
}

// Key returns the key called name, nil for an unknown name.
func (s *Schema) Key(name string) *Key { return s.byName[name] }

// Names returns the names of all keys.
func (s *Schema) Names() []string {
	return list.Map(s.Keys, func(k Key) string { return k.Name })
}

// Sections returns the names of all sections.
func (s *Schema) Sections() []string { return slices.Clone(s.sections) }

// IsSection reports whether name is the name of a section.
func (s *Schema) IsSection(name string) bool { return slices.Contains(s.sections, name) }

// Section returns the keys of a section and of the sections in it.
func (s *Schema) Section(name string) []Key {
	return slices.DeleteFunc(slices.Clone(s.Keys), func(k Key) bool { return !strings.HasPrefix(k.Name, name+".") })
}

// Unknown returns the error for a name that is not a key. It suggests a key of the same name in another section or case, or else
// the nearest.
func (s *Schema) Unknown(name string) error {
	if f := s.former(name); f != nil {
		return &input.Error{Key: name, Err: errors.New(f.String())}
	}
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

// IsFormer reports whether a name was valid in an earlier version and is not any more.
func (s *Schema) IsFormer(name string) bool { return s.former(name) != nil }

// former returns what became of a key or section of an earlier version, or nil.
func (s *Schema) former(name string) *Former {
	var longest *Former
	for _, f := range s.Former {
		rest, within := strings.CutPrefix(name+".", f.Name)
		whole := strings.HasSuffix(f.Name, ".")
		if name != f.Name && !(whole && within) || longest != nil && len(longest.Name) > len(f.Name) {
			continue
		}
		if whole && f.Now != "" {
			f.Now += rest
		}
		longest = &f
	}
	return longest
}

// Called returns the keys that a name without a section may mean: those that end with it, or the one that other programs call so.
func (s *Schema) Called(last string) []string {
	var all []string
	for _, k := range s.Keys {
		if _, l := Split(k.Name); strings.EqualFold(l, last) {
			all = append(all, k.Name)
		}
	}
	if other := s.Others[strings.ToLower(last)]; other != "" && len(all) == 0 {
		all = append(all, other)
	}
	return all
}

// nearest returns the key that a wrong name most likely means: one with the same last part in another section or case, one that
// other programs call so, or else the most similar spelling.
func (s *Schema) nearest(name string) string {
	section, last := Split(name)
	alike := func(own string) bool { return strings.EqualFold(own, name) }
	if i := slices.IndexFunc(s.sections, alike); i >= 0 {
		return s.sections[i]
	}
	if other := s.Others[strings.ToLower(name)]; other != "" {
		return other
	}
	if i := slices.IndexFunc(s.Keys, func(k Key) bool { return alike(k.Name) }); i >= 0 {
		return s.Keys[i].Name
	}
	if called := s.Called(last); len(called) > 0 {
		return called[0]
	}
	if !s.IsSection(section) {
		return input.Nearest(name, append(slices.Sorted(maps.Keys(s.byName)), s.sections...))
	}
	// A prefix that all names of a section share does not make a name more similar.
	var lasts, begins []string
	keys := s.Section(section)
	for _, k := range keys {
		_, own := Split(k.Name)
		if lasts = append(lasts, own); len(own) > 1 && strings.HasPrefix(strings.ToLower(last), strings.ToLower(own[:2])) {
			begins = append(begins, k.Name)
		}
	}
	if i := slices.Index(lasts, input.Alike(last, lasts)); i >= 0 {
		return keys[i].Name
	}
	return input.Nearest(name, begins)
}

// Split splits a dotted name into its section ("" at the top level) and last part.
func Split(name string) (section, last string) {
	dot := strings.LastIndexByte(name, '.')
	return name[:max(dot, 0)], name[dot+1:]
}
