package dram

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// field is one configurable value of a spec under its configuration key.
type field struct {
	key   string
	value reflect.Value
}

// text returns the value as configuration writes it.
func (f field) text() string { return fmt.Sprint(f.value.Interface()) }

// set reads the value from text, in which quotes are optional.
func (f field) set(text string) *input.InputError {
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	bad := func(expected string) *input.InputError {
		return &input.InputError{Key: f.key, Value: text, Expected: expected}
	}
	if u, ok := f.value.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return &input.InputError{Key: f.key, Err: err}
		}
		return nil
	}
	switch f.value.Kind() {
	case reflect.Int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return bad("a whole number")
		}
		f.value.SetInt(int64(v))
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v {
			return bad("a number")
		}
		f.value.SetFloat(v)
	case reflect.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return bad("true or false")
		}
		f.value.SetBool(v)
	case reflect.String:
		f.value.SetString(text)
	default:
		return bad("a value that can be set")
	}
	return nil
}

// fieldsOf lists the fields of the struct that v points to by their toml tags;
// those of a nested struct follow its key and a dot.
func fieldsOf(v any) []field {
	var list []field
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			f, key := v.Field(i), prefix+v.Type().Field(i).Tag.Get("toml")
			_, text := f.Addr().Interface().(encoding.TextUnmarshaler)
			if f.Kind() == reflect.Struct && !text {
				walk(key+".", f)
				continue
			}
			list = append(list, field{key, f})
		}
	}
	walk("", reflect.ValueOf(v).Elem())
	return list
}

// setField sets the field of v that key names, or reports the nearest key.
func setField(v any, key, value string) *input.InputError {
	var keys []string
	for _, f := range fieldsOf(v) {
		if f.key == key {
			return f.set(value)
		}
		keys = append(keys, f.key)
	}
	return &input.InputError{Key: key, Expected: "a known key", Nearest: input.Nearest(key, keys)}
}

// fields lists the configurable fields of s.
func (s *Spec) fields() []field { return fieldsOf(s) }

// Set sets the field of s that the configuration key names ("tRFC", "rows",
// "power.IDD0") from its text. Call Validate after the last one.
func (s *Spec) Set(key, value string) *input.InputError { return setField(s, key, value) }

// Set sets the field that the configuration key names, of the part ("tRFC",
// "dram.tRFC") or of the policy ("page", "policy.page"), from its text. Call
// Validate after the last one.
func (s *Setup) Set(key, value string) *input.InputError {
	if k, ok := strings.CutPrefix(key, "dram."); ok {
		return setField(s.Spec, k, value)
	}
	if k, ok := strings.CutPrefix(key, "policy."); ok {
		return setField(s.Policy, k, value)
	}
	var keys []string
	for _, f := range append(fieldsOf(s.Spec), fieldsOf(s.Policy)...) {
		if f.key == key {
			return f.set(value)
		}
		keys = append(keys, f.key)
	}
	return &input.InputError{Key: key, Expected: "a key of the part or of the policy", Nearest: input.Nearest(key, keys)}
}
