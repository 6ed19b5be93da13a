package results

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Where returns a table of the rows that fulfil all conditions: "column=value", as in
// the file, or "column<=value" with <=, >=, < or > between numbers. A number may carry
// a unit of the column's kind ("tbt_p99_ms<=2s"). A cell that is no number fulfils no
// comparison.
func (t *Table) Where(flag string, conditions []string) (*Table, error) {
	out := &Table{Name: t.Name, Columns: t.Columns, Rows: t.Rows}
	for _, text := range conditions {
		holds, err := t.condition(flag, text)
		if err != nil {
			return nil, err
		}
		var kept [][]string
		for _, row := range out.Rows {
			if holds(row) {
				kept = append(kept, row)
			}
		}
		out.Rows = kept
	}
	if len(out.Rows) == 0 {
		return nil, &input.Error{File: t.Name, Key: flag, Expected: "at least one row that fulfils " + strings.Join(conditions, " and ")}
	}
	return out, nil
}

var ordered = regexp.MustCompile(`^([^<>=]*)(<=|>=|<|>)(.*)$`)

// condition reads one condition.
func (t *Table) condition(flag, text string) (func(row []string) bool, error) {
	m := ordered.FindStringSubmatch(text)
	if m == nil {
		column, value, err := t.Condition(flag, text)
		return func(row []string) bool { return row[column] == value }, err
	}
	name, operator, value := strings.TrimSpace(m[1]), m[2], strings.TrimSpace(m[3])
	column, err := t.Column(flag, name)
	if err != nil {
		return nil, err
	}
	limit, ok := numberIn(t.Columns[column], value)
	if !ok {
		bad := &input.Error{Key: flag + " " + t.Columns[column], Value: strconv.Quote(value), Expected: "a number after " + operator}
		if _, unit := SplitUnit(t.Columns[column]); unit != "" {
			bad.Expected += fmt.Sprintf(", in %s or with a unit", unit)
		}
		return nil, bad
	}
	return func(row []string) bool {
		v, err := strconv.ParseFloat(row[column], 64)
		if err != nil {
			return false
		}
		switch operator {
		case "<=":
			return v <= limit
		case ">=":
			return v >= limit
		case "<":
			return v < limit
		}
		return v > limit
	}, nil
}

// numberIn reads a number in the unit of a column, or a quantity with a unit of that
// kind.
func numberIn(column, text string) (float64, bool) {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v, v-v == 0
	}
	_, unit := SplitUnit(column)
	switch unit {
	case "bytes":
		var b units.Bytes
		err := b.UnmarshalText([]byte(text))
		return float64(b), err == nil
	case "GB/s":
		var b units.Bandwidth
		err := b.UnmarshalText([]byte(text))
		return float64(b) / 1e9, err == nil
	case "TFLOP/s":
		var f units.FLOPRate
		err := f.UnmarshalText([]byte(text))
		return float64(f) / 1e12, err == nil
	}
	size, isTime := map[string]units.Duration{
		"ns": units.Nanosecond, "us": units.Microsecond, "ms": units.Millisecond, "s": units.Second,
	}[unit]
	var d units.Duration
	err := d.UnmarshalText([]byte(text))
	return float64(d) / float64(max(size, 1)), isTime && err == nil
}
