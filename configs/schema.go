package configs

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// schema is the set of keys that a Config has, derived from its toml tags.
type schema struct {
	fields map[string]schemaField // by full dotted key
	keys   []string               // of fields, in the order of the struct
	tables map[string]bool        // full names of sections
}

// schemaField is one leaf: where it is in a Config and its type.
type schemaField struct {
	index []int // for reflect.Value.FieldByIndex
	typ   reflect.Type
}

// configSchema returns the schema of Config.
var configSchema = sync.OnceValue(func() *schema {
	s := &schema{fields: map[string]schemaField{}, tables: map[string]bool{}}
	s.add(reflect.TypeFor[Config](), "", nil)
	return s
})

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// add adds the fields of struct type t under prefix. Embedded structs without
// a tag belong to the section that embeds them.
func (s *schema) add(t reflect.Type, prefix string, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch table := f.Type.Kind() == reflect.Struct && !reflect.PointerTo(f.Type).Implements(textUnmarshaler); {
		case name == "-" || name == "" && !f.Anonymous:
		case name == "":
			s.add(f.Type, prefix, at)
		case table:
			s.tables[prefix+name] = true
			s.add(f.Type, prefix+name+".", at)
		default:
			s.fields[prefix+name] = schemaField{index: at, typ: f.Type}
			s.keys = append(s.keys, prefix+name)
		}
	}
}

// unknownKey returns the error for a key that is not in the schema, with the
// key that was meant: one of the same name in another section or another case,
// or else the nearest.
func (s *schema) unknownKey(key string) *input.InputError {
	section, last := splitKey(key)
	bad := &input.InputError{Key: key, Expected: "a key of a known section", Nearest: s.nearest(key, section, last)}
	switch {
	case s.tables[section]:
		bad.Expected = "a key of [" + section + "]"
	case bad.Nearest == "":
		bad.Expected = "a key of one of the sections " + strings.Join(s.sections(), ", ")
	}
	return bad
}

// sections returns the names of the sections in order.
func (s *schema) sections() []string { return slices.Sorted(maps.Keys(s.tables)) }

func (s *schema) nearest(key, section, last string) string {
	for _, b := range bases {
		if b.section == section && last == "preset" {
			return b.key // run.model, where [model] has no key for it
		}
	}
	sameName, valid := "", append([]string(nil), s.keys...)
	for _, k := range s.keys {
		if _, l := splitKey(k); strings.EqualFold(k, key) || sameName == "" && strings.EqualFold(l, last) {
			sameName = k
		}
	}
	if sameName != "" {
		return sameName
	}
	if !s.tables[section] {
		valid = append(valid, s.sections()...)
	}
	return input.Nearest(key, valid)
}

// splitKey splits a dotted key into its section ("" at the top level) and name.
func splitKey(key string) (section, name string) {
	dot := strings.LastIndexByte(key, '.')
	if dot < 0 {
		return "", key
	}
	return key[:dot], key[dot+1:]
}

// convert returns value, as the TOML decoder gives it, as a value of type t.
// It is stricter than the decoder: no number where a unit is due, no fraction
// for an integer, no infinity. The error has no place yet.
func convert(t reflect.Type, value any) (reflect.Value, *input.InputError) {
	dst := reflect.New(t).Elem()
	fail := func(expected string) (reflect.Value, *input.InputError) {
		return dst, &input.InputError{Value: formatValue(value), Expected: expected}
	}
	if reflect.PointerTo(t).Implements(textUnmarshaler) {
		text, ok := value.(string)
		if !ok {
			text = fmt.Sprint(value) // "625 is not a duration" says what is missing
		}
		err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		if err != nil {
			return dst, &input.InputError{Err: err}
		}
		if !ok {
			return fail("a string")
		}
		return dst, nil
	}
	switch t.Kind() {
	case reflect.String:
		text, ok := value.(string)
		if !ok {
			return fail("a string")
		}
		dst.SetString(text)
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			return fail("true or false")
		}
		dst.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := value.(int64)
		if !ok || dst.OverflowInt(n) {
			return fail("a whole number")
		}
		dst.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, ok := value.(int64)
		if !ok || n < 0 || dst.OverflowUint(uint64(n)) {
			return fail("a whole number, 0 to 9223372036854775807") // TOML has no larger ones
		}
		dst.SetUint(uint64(n))
	case reflect.Float32, reflect.Float64:
		f, ok := value.(float64)
		if n, whole := value.(int64); whole {
			f, ok = float64(n), true
		}
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) || dst.OverflowFloat(f) {
			return fail("a finite number")
		}
		dst.SetFloat(f)
	default:
		return fail("a key without value: type " + t.String() + " cannot be configured")
	}
	return dst, nil
}

// formatValue writes a decoded TOML value for an error message.
func formatValue(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case map[string]any, []map[string]any:
		return "a table"
	case []any:
		return "an array"
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if v == math.Trunc(v) && !strings.ContainsAny(text, "eIN") {
			text += ".0" // what makes 4.0 no whole number
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}
