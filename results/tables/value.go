package tables

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Value is one cell: nothing, a text, a whole number, a real, or a truth value. Values are comparable, so
// that they are keys of groups. The zero Value is an empty cell.
type Value struct {
	v any // nil, string, int64, uint64, float64, bool or written
}

// written is a number that a table writes otherwise than String does: as a file has it, or with fewer digits.
type written struct {
	number float64
	text   string
}

// Of returns what a cell holds of a Go value: a text, a number, a truth value, or nil for an empty cell.
func Of(x any) Value {
	switch x := x.(type) {
	case Value:
		return x
	case nil, int64, uint64, float64, bool:
		return Value{x}
	case int:
		return Value{int64(x)}
	case string:
		if x == "" {
			return Value{}
		}
		return Value{x}
	}
	return Of(fmt.Sprint(x))
}

// Digits returns a number that is written with so many significant digits.
func Digits(v float64, digits int) Value {
	return Value{written{v, strconv.FormatFloat(v, 'g', digits, 64)}}
}

// Decimals returns a number that is written with so many decimals.
func Decimals(v float64, decimals int) Value {
	return Value{written{v, strconv.FormatFloat(v, 'f', decimals, 64)}}
}

// Empty says that a cell holds nothing.
func (v Value) Empty() bool { return v.v == nil }

// String returns a cell as CSV has it. A real is the shortest decimal number that reads back to it.
func (v Value) String() string {
	switch x := v.v.(type) {
	case string:
		return x
	case int64:
		return strconv.FormatInt(x, 10)
	case uint64:
		return strconv.FormatUint(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(x)
	case written:
		return x.text
	}
	return ""
}

// Float returns a cell as a number, false where it is none or not finite.
func (v Value) Float() (float64, bool) {
	switch x := v.v.(type) {
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, isFinite(x)
	case written:
		return x.number, isFinite(x.number)
	}
	return 0, false
}

// whole says that a cell is a whole number, as CSV writes one.
func (v Value) whole() bool {
	switch x := v.v.(type) {
	case int64, uint64:
		return true
	case float64:
		return x == math.Trunc(x) && math.Abs(x) < 1<<63
	}
	return false
}

// MarshalText writes a cell as CSV has it.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a cell of CSV.
func (v *Value) UnmarshalText(text []byte) error {
	*v = parse(string(text))
	return nil
}

// parse reads a cell of a text file: the one place where a text becomes a number. Only decimal numbers are numbers.
func parse(text string) Value {
	switch {
	case text == "":
		return Value{}
	case text == "true" || text == "false":
		return Value{text == "true"}
	case !strings.ContainsRune("+-.0123456789", rune(text[0])) || strings.Trim(text, "0123456789.eE+-") != "":
		return Value{text}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return Value{n}
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > math.MaxInt64 && text[0] != '0' {
		return Value{n}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !isFinite(v) {
		return Value{text}
	}
	if real := (Value{v}); real.String() == text {
		return real
	}
	return Value{written{v, text}}
}

// isFinite says that v is a number, and not an infinite one.
func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
