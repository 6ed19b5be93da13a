package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
)

// The columns of a sweep's results that are neither keys nor metrics. The order in a file is
// PointColumn, the configuration keys that vary, StatusColumn, ErrorColumn, ConfigColumn, the
// metrics.
const (
	PointColumn  = "point"         // name of the point; the repeats of one share it
	SeedColumn   = "run.seed"      // the key that tells repeats apart
	StatusColumn = "status"        // StatusDone or StatusFailed
	ErrorColumn  = "error"         // why it failed
	ConfigColumn = "config_sha256" // of the effective configuration
)

// The values of StatusColumn.
const (
	StatusDone   = "done"
	StatusFailed = "failed"
)

// ResultsFile is the name of the table in a Folder.
const ResultsFile = "results.csv"

// Table is a table of typed cells. Describe describes its columns.
type Table struct {
	Name    string // the file that it was read from, for errors
	Columns []string
	Rows    [][]Value       // each as long as Columns
	Kinds   map[string]Kind // of columns whose names do not determine it, such as keys; otherwise Kind finds it
}

// Kind returns the kind of a column: by Kinds, by its name, or by all its cells.
func (t *Table) Kind(column int) Kind {
	t = cmp.Or(t, &Table{})
	if column < 0 || column >= len(t.Columns) {
		return ""
	}
	name := t.Columns[column]
	if kind := cmp.Or(t.Kinds[name], Describe(name).Kind); kind != "" {
		return kind
	}
	kind := Kind("")
	for _, row := range t.Rows {
		is := Text
		switch row[column].v.(type) {
		case nil:
			continue
		case bool:
			is = Truth
		case int64:
			is = Integer
		case uint64:
			is = Unsigned
		case float64:
			is = Real
		}
		switch {
		case kind == "":
			kind = is
		case kind != is && (is == Text || is == Truth || kind == Text || kind == Truth):
			return Text
		case kind != is: // numbers of two kinds
			kind = Real
		}
	}
	return cmp.Or(kind, Text)
}

// Add adds a row; Of converts its cells.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, list.Map(cells, Of)) }

// given returns the error for a table that is nil.
func (t *Table) given() error {
	if t == nil {
		return &input.Error{Key: "table", Value: "nil", Expected: "results, as Sweep and Read return"}
	}
	return nil
}

// Value returns a cell by its column's full name, empty if there is no such row or column.
func (t *Table) Value(row int, column string) Value {
	if t == nil || row < 0 || row >= len(t.Rows) {
		return Value{}
	}
	if c := slices.Index(t.Columns, column); c >= 0 && c < len(t.Rows[row]) {
		return t.Rows[row][c]
	}
	return Value{}
}

// Float returns a cell by its column's full name as a number, false if it is none.
func (t *Table) Float(row int, column string) (float64, bool) { return t.Value(row, column).Float() }

// Varies says that a column has several values.
func (t *Table) Varies(column int) bool {
	t = cmp.Or(t, &Table{})
	return slices.ContainsFunc(t.Rows, func(row []Value) bool { return row[column] != t.Rows[0][column] })
}

// with returns a table with the same columns and other rows.
func (t *Table) with(rows [][]Value) *Table {
	return &Table{Name: t.Name, Columns: t.Columns, Rows: rows, Kinds: t.Kinds}
}

// only returns the table with some of its rows.
func (t *Table) only(keep func(row int) bool) *Table {
	out := t.with(nil)
	for r := range t.Rows {
		if keep(r) {
			out.Rows = append(out.Rows, t.Rows[r])
		}
	}
	return out
}

// Column returns the index of the column that name stands for: its full name, or a full name
// without the key's section or the unit, if it is unambiguous (ranksets for node.ranksets). Errors
// name flag.
func (t *Table) Column(flag, name string) (int, error) {
	if err := t.given(); err != nil {
		return 0, err
	}
	if i := slices.Index(t.Columns, name); i >= 0 {
		return i, nil
	}
	var fit []int
	for i, c := range t.Columns {
		if slices.Contains(NameForms(c), name) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	bad := &input.Error{Key: flag, Value: fmt.Sprintf("%q", name), Expected: "a column of " + t.Name, Nearest: t.nearest(name), Details: t.offered(name)}
	if len(fit) > 1 {
		bad.Expected, bad.Nearest, bad.Details = fmt.Sprintf("one of the columns %s and %s", t.Columns[fit[0]], t.Columns[fit[1]]), "", nil
	}
	return 0, bad
}

// nearest returns the column whose full or short name is nearest.
func (t *Table) nearest(name string) string {
	full := map[string]string{}
	var names []string
	for _, c := range t.Columns {
		for _, form := range NameForms(c) {
			if full[form] == "" {
				full[form] = c
				names = append(names, form)
			}
		}
	}
	return full[input.Alike(name, names)]
}

// NameForms returns the forms of a column's name that people may write: in full or without the key's section, and both
// without the unit.
func NameForms(column string) []string {
	last := column[strings.LastIndexByte(column, '.')+1:]
	full, _ := SplitUnit(column)
	short, _ := SplitUnit(last)
	return []string{column, last, full, short}
}

// IsConfig says for each column whether it is a key of the configuration rather than a result:
// those between PointColumn and StatusColumn. A table without these columns has no key columns.
func (t *Table) IsConfig() []bool {
	t = cmp.Or(t, &Table{})
	is := make([]bool, len(t.Columns))
	point, status := slices.Index(t.Columns, PointColumn), slices.Index(t.Columns, StatusColumn)
	for i := range is {
		is[i] = point >= 0 && i > point && i < status
	}
	return is
}

// Number returns a cell as a number, false if it is none.
func (t *Table) Number(row, column int) (float64, bool) {
	t = cmp.Or(t, &Table{})
	if row < 0 || row >= len(t.Rows) || column < 0 || column >= len(t.Rows[row]) {
		return 0, false
	}
	return t.Rows[row][column].Float()
}

// Select returns a table of the given columns.
func (t *Table) Select(columns []int) *Table {
	t = cmp.Or(t, &Table{})
	out := &Table{Name: t.Name, Columns: list.Map(columns, func(c int) string { return t.Columns[c] }), Kinds: t.Kinds}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, list.Map(columns, func(c int) Value { return row[c] }))
	}
	return out
}

// Marked is Select for people: runs that exceed limits of real servers have signs in the first cell, which legend explains; it is
// "" without such runs.
func (t *Table) Marked(columns []int) (out *Table, legend string) {
	t = cmp.Or(t, &Table{})
	out = t.Select(columns)
	var beyond results.Limits
	for r := range t.Rows {
		limits := t.Limits(r)
		out.mark(r, limits)
		beyond = beyond.Or(limits)
	}
	return out, beyond.Legend()
}

// Limits returns the limits of real servers that a row's run exceeds; none if the table lacks the columns.
func (t *Table) Limits(row int) results.Limits {
	peak, drawn := t.Value(row, "dimm_peak_w").Float()
	limit, known := t.Value(row, "dimm_limit_w").Float()
	return results.Limits{Boards: t.Value(row, "beyond_boards") == Of(true), Slot: drawn && known && peak > limit}
}

// mark adds the signs of limits to a row's first cell.
func (t *Table) mark(row int, l results.Limits) {
	if sign := l.Sign(); sign != "" {
		cell := &t.Rows[row][0]
		*cell = Of(cell.text() + sign)
	}
}
