package dram

import (
	"reflect"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/schema"
)

// set gives the field of the struct that v points to the value of a text, in which
// quotes are optional.
func set(v any, key, text string) error {
	s := schema.Of(reflect.TypeOf(v).Elem())
	k := s.Key(key)
	if k == nil {
		return s.Unknown(key)
	}
	return input.Edit(schema.Set(k.Of(reflect.ValueOf(v).Elem()), text), func(e *input.Error) { e.Key = key })
}

// Set sets the field of s that the configuration key names ("tRFC", "rows",
// "power.IDD0") from its text. Call input.Validate after the last one.
func (s *Spec) Set(key, value string) error { return set(s, key, value) }

// Set sets the field that the configuration key names, of the part ("tRFC",
// "dram.tRFC") or of the policy ("page", "policy.page"), from its text. Call
// Validate after the last one.
func (s *Setup) Set(key, value string) error {
	if k, ok := strings.CutPrefix(key, "dram."); ok {
		return set(s.Spec, k, value)
	}
	if k, ok := strings.CutPrefix(key, "policy."); ok {
		return set(s.Policy, k, value)
	}
	part, policy := schema.Of(reflect.TypeFor[Spec]()), schema.Of(reflect.TypeFor[Policy]())
	switch {
	case part.Key(key) != nil:
		return set(s.Spec, key, value)
	case policy.Key(key) != nil:
		return set(s.Policy, key, value)
	}
	return &input.Error{Key: key, Expected: "a key of the part or of the policy",
		Nearest: input.Nearest(key, append(part.Names(), policy.Names()...))}
}
