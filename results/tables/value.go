package tables

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Value is one cell: nothing, a text, a whole number, a real number, or a truth value. Values can be keys of maps: equal
// numbers are equal Values, from any type or file. The zero Value is an empty cell.
type Value struct {
	v any // nil, string, bool, int64; uint64 above its range; float64 for all other numbers
}

// Of returns the cell for a Go value: a text, a number, a truth value, or nil for an empty cell. A number that is
// not finite gives an empty cell.
func Of(x any) Value {
	switch x := x.(type) {
	case Value:
		return x
	case nil, bool, int64:
		return Value{x}
	case int:
		return Value{int64(x)}
	case uint64:
		if x > math.MaxInt64 {
			return Value{x}
		}
		return Value{int64(x)}
	case float64:
		switch {
		case !isFinite(x):
			return Value{}
		case x == math.Trunc(x) && math.Abs(x) < 1<<63:
			return Value{int64(x)}
		case x == math.Trunc(x) && x > 0 && x < 1<<64:
			return Of(uint64(x))
		}
		return Value{x}
	case string:
		if x == "" {
			return Value{}
		}
		return Value{strings.ToValidUTF8(x, "\uFFFD")}
	}
	return Of(fmt.Sprint(x))
}

// Round rounds a number to a number of significant digits. Powers of ten up to 22 are exact, so the quotient is the
// nearest number.
func Round(v float64, digits int) float64 {
	if v == 0 || !isFinite(v) {
		return v
	}
	switch decimals := digits - 1 - int(math.Floor(math.Log10(math.Abs(v)))); {
	case decimals > 300:
		return v
	case decimals < 0:
		unit := math.Pow10(-decimals)
		return math.Round(v/unit) * unit
	default:
		return math.Round(v*math.Pow10(decimals)) / math.Pow10(decimals)
	}
}

// Empty says that a cell is empty.
func (v Value) Empty() bool { return v.v == nil }

// String returns a cell as in CSV. A real number is the shortest decimal that reads back to it.
func (v Value) String() string {
	switch x := v.v.(type) {
	case nil:
		return ""
	case string:
		return x
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	default:
		return fmt.Sprint(x)
	}
}

// Float returns a cell as a number, false if it is none.
func (v Value) Float() (float64, bool) {
	switch x := v.v.(type) {
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// MarshalJSON writes a cell by its type: null, a text, a number or a truth value.
func (v Value) MarshalJSON() ([]byte, error) {
	if _, number := v.Float(); number {
		return []byte(v.String()), nil
	}
	return json.Marshal(v.v)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(text []byte) error {
	var x any
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	if *v = Of(x); len(text) > 0 && text[0] != '"' && x != nil {
		*v = parse(string(text)) // float64 cannot hold all whole numbers
	}
	return nil
}

// parse reads a cell of a text file; it is the only place where a text becomes a number. Only decimal numbers are
// numbers.
func parse(text string) Value {
	switch {
	case text == "true" || text == "false":
		return Value{text == "true"}
	case text == "" || !strings.ContainsRune("+-.0123456789", rune(text[0])) || strings.Trim(text, "0123456789.eE+-") != "":
		return Of(text)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Value{n}
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return Of(n)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Of(text)
	}
	return Of(v)
}

// isFinite says that v is a number, and not an infinite one.
func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
