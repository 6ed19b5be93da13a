package input

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/list"
)

// Checked is a configuration section, or any other struct with values under keys, that states its own rules. Check calls c once
// for each rule.
type Checked interface{ Check(c *Check) }

// Check collects the rules that values break. Rules on a known type are methods of Check; generic
// ones are functions (Within, OneOf).
type Check struct {
	section string // followed by a dot; "" at the top
	errs    []*Error
	ranges  map[string][]string // all rules by key; nil unless Ranges collects them
}

// Faults returns an error for each rule that a value of s breaks, in the order of the
// rules. Keys are relative to s.
func Faults(s Checked) []*Error {
	var c Check
	s.Check(&c)
	return c.errs
}

// Validate returns the first of the Faults of s, or nil. A nil pointer is itself a fault.
func Validate(s Checked) error {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return &Error{Key: fmt.Sprintf("%T", s), Value: "nil", Expected: "a value"}
	}
	var c Check
	s.Check(&c)
	return c.Err()
}

// Err returns the error for the first broken rule, or nil.
func (c *Check) Err() error {
	if len(c.errs) > 0 {
		return c.errs[0]
	}
	return nil
}

// Ranges returns the expected values of each key of s as text. It leaves out rules that compare values with each other (those
// behind OK).
func Ranges(s Checked) map[string]string {
	c := Check{ranges: map[string][]string{}}
	s.Check(&c)
	all := map[string]string{}
	for key, said := range c.ranges {
		all[key] = strings.Join(said, "; ")
	}
	return all
}

// OK reports whether no rule has been broken so far. Values are compared with each other only then.
func (c *Check) OK() bool { return len(c.errs) == 0 && c.ranges == nil }

// In checks a nested section: its keys are prefixed with name and a dot.
func (c *Check) In(name string, s Checked) {
	outer := c.section
	c.section += name + "."
	s.Check(c)
	c.section = outer
}

// Key is another key that a rule names, given as an argument of the expected text of That. The text shows it as written, and the
// error lists it in OtherKeys.
type Key string

// That is the rule that ok holds; otherwise the value of key is wrong. The expected text is formatted with args, and keys among
// these have type Key.
func (c *Check) That(ok bool, key string, value any, expected string, args ...any) {
	if ok && c.ranges == nil {
		return
	}
	key, expected = c.section+key, fmt.Sprintf(expected, args...)
	if c.ranges == nil {
		c.errs = append(c.errs, &Error{Key: key, Value: written(value), Expected: expected, OtherKeys: keysOf(args)})
	} else if !slices.Contains(c.ranges[key], expected) {
		c.ranges[key] = append(c.ranges[key], expected)
	}
}

// keysOf returns the keys among the arguments of a message.
func keysOf(args []any) (keys []string) {
	for _, a := range args {
		if key, is := a.(Key); is {
			keys = append(keys, string(key))
		}
	}
	return keys
}

// Fails adds an error that another package found; nil adds nothing. The error's key is relative to section, "" for the section
// under check.
func (c *Check) Fails(section string, err error) {
	if err == nil || c.ranges != nil {
		return
	}
	bad := &Error{Err: err}
	errors.As(err, &bad)
	full := *bad
	full.Key = strings.Trim(c.section+section+"."+bad.Key, ".")
	c.errs = append(c.errs, &full)
}

// Share is the rule that 0 < v <= 1. It refuses NaN.
func (c *Check) Share(key string, v float64) {
	c.That(v > 0 && v <= 1, key, v, "more than 0, at most 1")
}

// Within is the rule that low <= v <= high. It refuses NaN.
func Within[T cmp.Ordered](c *Check, key string, v, low, high T) {
	c.That(v >= low && v <= high, key, v, "%v to %v", low, high)
}

// OneOf is the rule that v is one of valid.
func OneOf[T ~string](c *Check, key string, v T, valid ...T) {
	if slices.Contains(valid, v) && c.ranges == nil {
		return
	}
	names := list.Map(valid, func(v T) string { return string(v) })
	if c.That(false, key, string(v), "one of %s", strings.Join(slices.Sorted(slices.Values(names)), ", ")); c.ranges == nil {
		c.errs[len(c.errs)-1].Nearest = Alike(string(v), names)
	}
}

// written formats a value as TOML: texts and quantities in quotes.
func written(v any) string {
	if _, quantity := v.(encoding.TextMarshaler); quantity || reflect.TypeOf(v).Kind() == reflect.String {
		return fmt.Sprintf("%q", fmt.Sprint(v))
	}
	return fmt.Sprint(v)
}
