package tables

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units"
)

// Where returns a table of the rows that fulfil all conditions: "column=value", as in the file, or
// "column<=value" with <=, >=, < or > between numbers. A number may have a unit ("tbt_p99_ms<=2s").
// A cell that is no number fulfils no comparison. Without conditions Where returns the table
// itself.
func (t *Table) Where(flag string, conditions []string) (*Table, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	out := t
	for _, text := range conditions {
		holds, err := t.condition(flag, text)
		if err != nil {
			return nil, err
		}
		all := out.Rows
		out = out.only(func(r int) bool { return holds(all[r]) })
	}
	if len(out.Rows) == 0 && len(conditions) > 0 {
		return nil, &input.Error{File: t.Name, Key: flag, Expected: "at least one row that fulfils " + strings.Join(conditions, " and ")}
	}
	return out, nil
}

// ordered is a condition that compares numbers.
var ordered = regexp.MustCompile(`^([^<>=]*)(<=|>=|<|>)(.*)$`)

func (t *Table) condition(flag, text string) (func(row []Value) bool, error) {
	if !ordered.MatchString(text) {
		column, value, err := t.Condition(flag, text)
		return func(row []Value) bool { return row[column] == value }, err
	}
	limit, err := t.parseLimit(flag, text)
	return func(row []Value) bool {
		v, ok := row[limit.index].Float()
		return ok && limit.Holds(v)
	}, err
}

// Condition reads "column=value" and checks that the value occurs.
func (t *Table) Condition(flag, text string) (column int, value Value, err error) {
	name, wanted, ok := strings.Cut(text, "=")
	name, wanted = strings.TrimSpace(name), strings.TrimSpace(wanted)
	if !ok || name == "" {
		return 0, Value{}, &input.Error{Key: flag, Value: fmt.Sprintf("%q", text), Expected: "COLUMN=VALUE"}
	}
	if column, err = t.Column(flag, name); err != nil {
		return 0, Value{}, err
	}
	var values []string
	for _, rows := range t.Group(t.All(), column) {
		if value = t.Rows[rows[0]][column]; value == parse(wanted) || value.String() == wanted {
			return column, value, nil
		}
		values = append(values, value.String())
	}
	bad := &input.Error{Key: flag + " " + t.Columns[column], Value: fmt.Sprintf("%q", wanted),
		Expected: "a value of that column", Nearest: input.Nearest(wanted, values)}
	if len(values) <= 12 {
		bad.Expected = "one of " + strings.Join(values, ", ")
	}
	return 0, Value{}, bad
}

// Limit is a bound on a numeric column.
type Limit struct {
	Column   string  // full name
	Operator string  // <=, >=, < or >
	Value    float64 // in the column's unit
	index    int     // of the column
}

// parseLimit reads "COLUMN<=NUMBER" with <=, >=, < or >; the number may have a unit. Errors are of
// type *input.Error and name flag.
func (t *Table) parseLimit(flag, text string) (Limit, error) {
	m := ordered.FindStringSubmatch(text)
	if m == nil {
		return Limit{}, &input.Error{Key: flag, Value: strconv.Quote(text), Expected: `COLUMN<=NUMBER, or with >=, < or >, such as "tbt_p99_ms <= 100"`}
	}
	name, value := strings.TrimSpace(m[1]), strings.TrimSpace(m[3])
	column, err := t.Column(flag, name)
	if err != nil {
		return Limit{}, err
	}
	l := Limit{t.Columns[column], m[2], 0, column}
	ok := false
	if l.Value, ok = numberIn(l.Column, value); !ok {
		bad := &input.Error{Key: flag + " " + l.Column, Value: strconv.Quote(value), Expected: "a number after " + l.Operator}
		if _, unit := SplitUnit(l.Column); unit != "" {
			bad.Expected += fmt.Sprintf(", in %s or with a unit", unit)
		}
		return Limit{}, bad
	}
	return l, nil
}

// Holds says whether a value is within the limit.
func (l Limit) Holds(v float64) bool {
	switch l.Operator {
	case "<=":
		return v <= l.Value
	case ">=":
		return v >= l.Value
	case "<":
		return v < l.Value
	}
	return v > l.Value
}

// numberIn reads a number in the unit of a column, or with another unit of the same quantity.
func numberIn(column, text string) (float64, bool) {
	if v, ok := parse(text).Float(); ok {
		return v, true
	}
	_, unit := SplitUnit(column)
	of, known := quantities[unit]
	if !known {
		return 0, false
	}
	v, err := schema.Convert(of.kind, text)
	return schema.Number(v) / of.size, err == nil
}

// quantities are the units of columns for which numbers may have another unit of the same quantity,
// and the size of each in the base unit.
var quantities = map[string]struct {
	kind reflect.Type
	size float64
}{
	"bytes": {reflect.TypeFor[units.Bytes](), 1}, "GB/s": {reflect.TypeFor[units.Bandwidth](), 1e9}, "TFLOP/s": {reflect.TypeFor[units.FLOPRate](), 1e12},
	"ns": {reflect.TypeFor[units.Duration](), float64(units.Nanosecond)}, "us": {reflect.TypeFor[units.Duration](), float64(units.Microsecond)},
	"ms": {reflect.TypeFor[units.Duration](), float64(units.Millisecond)}, "s": {reflect.TypeFor[units.Duration](), float64(units.Second)},
}
