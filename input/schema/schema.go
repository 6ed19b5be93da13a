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
	// Optional are what a file may lack of the key: the key itself by its name, and each section it is in, "gpu.experts.", that is there
	// whole or not at all. Their fields have an option behind the name in their tags: omitempty, omitzero, or optional for one that is
	// written whatever its value.
	Optional []string
	index    []int // for reflect.Value.FieldByIndex, within a section of With where it has one
	open     []int // the field that holds the section of With that the key is in, nil for other keys
	nth      int   // section in it
}

// Get returns the key's value in the struct that of points to.
func (k *Key) Get(of any) reflect.Value {
	v := reflect.ValueOf(of).Elem()
	if k.open != nil {
		v = v.FieldByIndex(k.open).Index(k.nth).Elem()
	}
	return v.FieldByIndex(k.index)
}

// Set gives the key of the struct that to points to a value of its type. Copies of the
// struct keep theirs, also where they share sections of With.
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

// IsText says that values of type t are written as text.
func IsText(t reflect.Type) bool { return t.Kind() == reflect.String || IsQuantity(t) }

// IsQuantity says that values of type t read themselves from text.
func IsQuantity(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textUnmarshaler) }

// Walk returns the values that a struct type has under its tags ("toml", "json"), in the order of
// the fields. Fields of a nested struct follow its tag and a dot. An embedded struct without a tag
// belongs to the struct around it; other fields without a tag, and those of "-", are left out.
func Walk(t reflect.Type, tag string) []Key {
	var keys []Key
	walk(t, tag, "", Key{}, nil, func(key Key, section bool) {
		if !section {
			keys = append(keys, key)
		}
	})
	return keys
}

// walk visits the keys of t, which is at a place of the whole struct.
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

// Fault returns what keeps a type from being a section, nil for a struct all of whose keys can be set.
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

// Section is a section that the struct itself does not know.
type Section struct {
	Name string       // in full, with the section that it is in: "policy.quest"
	Type reflect.Type // a struct
}

// Schema is the keys of a struct type by its toml tags.
type Schema struct {
	Keys     []Key    // in the order of the fields
	sections []string // full names, in the order of the fields
	byName   map[string]*Key
	// Others are keys by names that others have for them: whole ones, or last parts.
	Others map[string]string
	// Former are names that earlier versions had, which Unknown refuses with the new name.
	Former []Former
}

// Former is a key of earlier versions that was renamed or removed, or a section with all its keys where both
// names end with a dot. The longest name that fits a key counts.
type Former struct {
	Name string // that earlier versions had: "prices.utilisation", "old_section."
	Now  string // its name now, or its names, "a or b"; "" where it was removed
	Use  string // of a removed key, what to do instead, as the end of a sentence: "use policy.quest.page"
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

// With is Of a struct type with fields of type []any, at the top and in structs of it. Each holds a value of
// each section that belongs there by its name, in the order of the sections.
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

// Set gives the key of the struct that to points to the value of a text.
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

// IsSection says that name is that of a section.
func (s *Schema) IsSection(name string) bool { return slices.Contains(s.sections, name) }

// Section returns the keys of a section and of the sections in it.
func (s *Schema) Section(name string) []Key {
	return slices.DeleteFunc(slices.Clone(s.Keys), func(k Key) bool { return !strings.HasPrefix(k.Name, name+".") })
}

// Unknown returns the error for a name that is no key, with the key that was meant: one
// of the same name in another section or another case, or else the nearest.
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

// IsFormer says that a name had a meaning in an earlier version that it has not any more.
func (s *Schema) IsFormer(name string) bool { return s.former(name) != nil }

// former returns what became of a key or section of an earlier version, nil for any other name.
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

// Called returns the keys that a name without a section stands for: those that end with it, or the
// one that others call so.
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

// nearest returns the key that a wrong one stands for: one with the same last name in another section or another
// case, one that others call so, or else the one with the most similar spelling.
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
	// What the names of one section have in common makes none of them more similar.
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
