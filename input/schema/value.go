package schema

import (
	"bytes"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Parse returns the value of type t of a text: a TOML value or, if t holds text or a quantity, the bare text. The caller adds the
// place to the error.
func Parse(t reflect.Type, text string) (reflect.Value, error) {
	value, ok := scalar(text)
	if _, isString := value.(string); !ok || IsText(t) && !isString {
		value = text
	}
	if k := t.Kind(); exponent.MatchString(text) && k >= reflect.Int && k <= reflect.Uint64 && !IsText(t) {
		if f, isFloat := value.(float64); isFloat && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			value = int64(f)
		}
	}
	return Convert(t, value)
}

// exponent matches whole numbers such as 1e6.
var exponent = regexp.MustCompile(`^\d+[eE]\+?\d+$`)

// Plain returns the text of a TOML scalar without quotes.
func Plain(text string) string {
	value, _ := scalar(text)
	if s, isString := value.(string); isString {
		return s
	}
	return text
}

// scalar decodes a TOML value. Simple values, which are common in sweeps, bypass the decoder.
func scalar(text string) (any, bool) {
	switch {
	case text == "true" || text == "false":
		return text == "true", true
	case len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' && !strings.ContainsFunc(text[1:len(text)-1], notPlain):
		return text[1 : len(text)-1], true
	case text != "" && strings.Trim(text, "0123456789") == "" && text[0] != '0':
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, true
		}
	}
	var document map[string]any
	if _, err := input.DecodeTOML("", "value = "+text, &document); err != nil || len(document) != 1 {
		return nil, false
	}
	return document["value"], true
}

func notPlain(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }

// Convert converts a value from the TOML decoder to type t. It is stricter than the decoder: it refuses a number without its
// unit, a fraction for an integer, and infinity. The caller adds the place to the error.
func Convert(t reflect.Type, value any) (reflect.Value, error) {
	dst := reflect.New(t).Elem()
	fits, expected := false, ""
	if IsQuantity(t) {
		text, ok := value.(string)
		if !ok {
			text = fmt.Sprint(value) // "625 is not a duration" says what is missing
		}
		err := dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		if err != nil {
			return dst, &input.Error{Err: err}
		}
		if !ok {
			return dst, &input.Error{Value: Written(value), Expected: fmt.Sprintf("a string: %q", text)}
		}
		return dst, nil
	}
	switch {
	case t.Kind() == reflect.String:
		var text string
		text, fits = value.(string)
		dst.SetString(text)
		expected = "a string"
	case t.Kind() == reflect.Bool:
		var b bool
		b, fits = value.(bool)
		dst.SetBool(b)
		expected = "true or false"
	case dst.CanInt():
		n, whole := value.(int64)
		fits, expected = whole && !dst.OverflowInt(n), "a whole number"
		dst.SetInt(n)
	case dst.CanUint():
		n, whole := value.(int64)
		fits, expected = whole && n >= 0 && !dst.OverflowUint(uint64(n)), "a whole number, 0 to 9223372036854775807" // TOML has no larger integers
		dst.SetUint(uint64(n))
	case dst.CanFloat():
		f, real := value.(float64)
		if n, whole := value.(int64); whole {
			f, real = float64(n), true
		}
		fits, expected = real && !math.IsNaN(f) && !math.IsInf(f, 0) && !dst.OverflowFloat(f), "a finite number"
		dst.SetFloat(f)
	default:
		expected = "a key without value: type " + t.String() + " cannot be configured"
	}
	if !fits {
		return dst, &input.Error{Value: Written(value), Expected: expected}
	}
	return dst, nil
}

// Written writes a decoded TOML value for an error message.
func Written(value any) string {
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
			text += ".0" // so that 4.0 is not shown as a whole number
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}

// Text writes a value without quotes. Parse reads it back, except numbers beyond 2^63, which TOML has only as floats.
func Text(v reflect.Value) string {
	if !IsQuantity(v.Type()) && v.CanFloat() {
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// Literal writes a text, a truth value, a number or a quantity in TOML, and returns false for anything else. Simple values bypass
// the encoder: the hash of each point of a sweep has some hundred.
func Literal(value any) (string, bool) {
	v := reflect.ValueOf(value)
	quantity, isQuantity := value.(encoding.TextMarshaler)
	switch {
	case !v.IsValid():
		return "", false
	case isQuantity:
		if text, err := quantity.MarshalText(); err == nil && !bytes.ContainsFunc(text, notPlain) {
			return `"` + string(text) + `"`, true
		}
	case v.Kind() == reflect.String:
		if text := v.String(); !strings.ContainsFunc(text, notPlain) {
			return `"` + text + `"`, true
		}
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), true
	case v.Kind() == reflect.Float64 && !math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0):
		return Written(v.Float()), true
	case !v.CanUint() && !v.CanFloat():
		return "", false
	}
	text, err := toml.Marshal(map[string]any{"v": value})
	return strings.TrimSpace(strings.TrimPrefix(string(text), "v = ")), err == nil
}

// Number returns a numeric value as a float64, in its base unit.
func Number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// Unit is how quantities of a type are written: with a unit in configurations, and in results as bare numbers in columns whose
// names end with Suffix.
type Unit struct {
	Suffix string
	Size   float64 // of the suffix's unit, in the type's base unit
	Takes  string  // what a configuration accepts, as text for messages
}

// unitOf has, by type, the unit of the type's columns, the unit's size, and the units that a text may have.
var unitOf = map[reflect.Type]Unit{
	reflect.TypeFor[units.Bytes]():     {"_bytes", 1, `bytes with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB`},
	reflect.TypeFor[units.Duration]():  {"_ns", float64(units.Nanosecond), `time with a unit: ps, ns, us, ms, s`},
	reflect.TypeFor[units.Bandwidth](): {"_GB_per_s", 1e9, `bytes a second with a unit: B/s, kB/s, MB/s, GB/s, TB/s`},
	reflect.TypeFor[units.FLOPRate]():  {"_TFLOP_per_s", 1e12, `operations a second with a unit: FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s`},
}

// UnitOf returns the unit of a type, and false if its values have none.
func UnitOf(t reflect.Type) (Unit, bool) {
	u, ok := unitOf[t]
	return u, ok
}

// Quantities reads two texts as quantities of one type, and returns false if no type accepts both.
func Quantities(a, b string) (x, y reflect.Value, ok bool) {
	for t := range unitOf { // a text with a unit is of one type at most
		x, errX := Convert(t, a)
		if y, errY := Convert(t, b); errX == nil && errY == nil {
			return x, y, true
		}
	}
	return x, y, false
}

// Takes describes the values that a type accepts, as text for messages. A type can describe its own with a method Takes.
func Takes(t reflect.Type) string {
	if u, ok := unitOf[t]; ok {
		return u.Takes
	}
	v := reflect.Zero(t)
	if own, ok := v.Interface().(interface{ Takes() string }); ok {
		return own.Takes()
	}
	switch {
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	case v.CanInt() || v.CanUint():
		return "whole number"
	}
	return "number"
}
