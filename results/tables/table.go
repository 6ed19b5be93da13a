package tables

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// The columns of a sweep's results that are neither keys nor metrics. In the
// file's order: PointColumn, the configuration keys that vary, StatusColumn,
// ErrorColumn, ConfigColumn, the metrics.
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

// Table is a table of typed cells. What a column is, its name says: Describe.
type Table struct {
	Name    string // the file it was read from, for errors
	Columns []string
	Rows    [][]Value // each as long as Columns
}

// Add adds a row; Of says what its cells hold.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, list.Map(cells, Of)) }

// Value returns a cell by its column's full name, an empty one where there is no such column.
func (t *Table) Value(row int, column string) Value {
	if c := slices.Index(t.Columns, column); c >= 0 {
		return t.Rows[row][c]
	}
	return Value{}
}

// Float returns a cell by its column's full name as a number, false where it is none.
func (t *Table) Float(row int, column string) (float64, bool) { return t.Value(row, column).Float() }

// Varies says that a column has several values.
func (t *Table) Varies(column int) bool {
	return slices.ContainsFunc(t.Rows, func(row []Value) bool { return row[column] != t.Rows[0][column] })
}

// only returns the table with some of its rows.
func (t *Table) only(keep func(row int) bool) *Table {
	out := &Table{Name: t.Name, Columns: t.Columns}
	for r := range t.Rows {
		if keep(r) {
			out.Rows = append(out.Rows, t.Rows[r])
		}
	}
	return out
}

// ReadTable is ReadFolder for those who need the table alone.
func ReadTable(path string) (*Table, error) {
	t, _, err := ReadFolder(path)
	return t, err
}

// readFile reads a CSV file with a header.
func readFile(path string) (*Table, error) {
	f, err := input.Open(path)
	if err != nil {
		if bad := new(input.Error); errors.As(err, &bad) && errors.Is(err, fs.ErrNotExist) {
			bad.Expected = "a folder of --out or its " + ResultsFile + "; an unfinished sweep has none"
		}
		return nil, err
	}
	defer f.Close()
	if filepath.Ext(path) == filepath.Ext(ParquetFile) {
		return nil, &input.Error{File: path, Expected: "the " + ResultsFile + " beside it, which has the same rows"}
	}
	return readTable(input.Name(path), f)
}

// readTable reads a CSV file with a header. A table that would take more memory than maxTable is an error.
func readTable(name string, r io.Reader) (*Table, error) {
	c := input.NewCSV(name, r)
	t := &Table{Name: name}
	for size := 0; ; {
		record, err := c.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		size += rowOverhead
		row := make([]Value, len(record))
		for i, cell := range record {
			size += cellOverhead + len(cell)
			record[i] = unguarded(cell)
			if t.Columns != nil {
				row[i] = parse(record[i])
			}
		}
		if size > maxTable {
			return nil, &input.Error{File: name, Line: c.Line(), Expected: fmt.Sprintf("a table that takes at most %d MiB of memory", maxTable>>20)}
		}
		if t.Columns == nil {
			t.Columns = record
		} else {
			t.Rows = append(t.Rows, row)
		}
	}
	if t.Columns == nil {
		return nil, &input.Error{File: name, Expected: "a header line"}
	}
	seen := make(map[string]bool, len(t.Columns))
	for i, c := range t.Columns {
		if c == "" || seen[c] {
			return nil, &input.Error{File: name, Line: 1, Key: fmt.Sprintf("column %d", i+1), Value: fmt.Sprintf("%q", c),
				Expected: "a name that no other column has"}
		}
		seen[c] = true
	}
	if i := slices.Index(t.Columns, "energy_token_j"); i >= 0 {
		return nil, &input.Error{File: name, Line: 1, Key: fmt.Sprintf("column %d", i+1), Value: "energy_token_j", Expected: "gpu_energy_per_output_token_j: this table is of " +
			"l3sim/results/1, which another version of l3sim wrote, and " + ParquetSchema + " is read; run its sweep again"}
	}
	return t, nil
}

// maxTable bounds the memory of a table in bytes; the results of the largest sweep,
// 100,000 points, take about half of it. The overheads are those of a slice's and a
// string's header and of small allocations.
const (
	maxTable     = 1 << 28
	rowOverhead  = 48
	cellOverhead = 16
)

// Column returns the index of the column that name stands for: its full name, or what is left of a
// full name without the section of its key and without its unit, where only one column fits
// (ranksets for node.ranksets). Flag says who asks, for the error.
func (t *Table) Column(flag, name string) (int, error) {
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

// nearest returns the column whose name, whole or short, is nearest.
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

// NameForms returns how people may write a column: in full, without the section of its key, and both without its unit.
func NameForms(column string) []string {
	last := column[strings.LastIndexByte(column, '.')+1:]
	full, _ := SplitUnit(column)
	short, _ := SplitUnit(last)
	return []string{column, last, full, short}
}

// IsConfig says for each column whether it describes the configuration rather
// than a result: those that stand between PointColumn and StatusColumn. A table
// without these columns has no key columns.
func (t *Table) IsConfig() []bool {
	is := make([]bool, len(t.Columns))
	point, status := slices.Index(t.Columns, PointColumn), slices.Index(t.Columns, StatusColumn)
	for i := range is {
		is[i] = point >= 0 && i > point && i < status
	}
	return is
}

// Number returns a cell as a number, false where it is not a number.
func (t *Table) Number(row, column int) (float64, bool) {
	return t.Rows[row][column].Float()
}

// Select returns a table of the given columns.
func (t *Table) Select(columns []int) *Table {
	out := &Table{Name: t.Name}
	for _, c := range columns {
		out.Columns = append(out.Columns, t.Columns[c])
	}
	for _, row := range t.Rows {
		out.Rows = append(out.Rows, list.Map(columns, func(c int) Value { return row[c] }))
	}
	return out
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
		if value = t.Rows[rows[0]][column]; value.String() == wanted {
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

// WriteCSV writes the table with its header. A cell that a spreadsheet would take for a formula gets an apostrophe in front,
// which ReadTable takes off again.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(list.Map(t.Columns, func(name string) string { return guarded(Value{name}) })); err != nil {
		return err
	}
	cells := make([]string, len(t.Columns))
	for _, row := range t.Rows {
		for i, v := range row {
			cells[i] = guarded(v)
		}
		if err := c.Write(cells); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// beginsFormula says that a text begins as what spreadsheets compute (OWASP, "CSV Injection"), behind any apostrophes.
func beginsFormula(text string) bool {
	text = strings.TrimLeft(text, "'")
	return len(text) > 1 && strings.ContainsRune("=+-@\t\r", rune(text[0]))
}

// guarded returns a cell as a file has it: a text that begins as a formula has an apostrophe in front. One that has
// apostrophes gets another, so that none of its own are taken off.
func guarded(v Value) string {
	if text, is := v.v.(string); is && beginsFormula(text) {
		return "'" + text
	}
	return v.String()
}

func unguarded(text string) string {
	if bare, quoted := strings.CutPrefix(text, "'"); quoted && beginsFormula(text) {
		return bare
	}
	return text
}

// WriteText writes the table in aligned columns, numbers to the right.
func (t *Table) WriteText(w io.Writer) error {
	return t.writeAligned(w, "", "  ", "")
}

// WriteMarkdown writes the table as GitHub's Markdown.
func (t *Table) WriteMarkdown(w io.Writer) error {
	return t.writeAligned(w, "| ", " | ", " |")
}

// writeAligned writes rows between the given marks; a table with a left mark
// gets Markdown's rule under its header.
func (t *Table) writeAligned(w io.Writer, left, between, right string) error {
	markdown := left != ""
	width, number := make([]int, len(t.Columns)), make([]bool, len(t.Columns))
	cells := [][]string{slices.Clone(t.Columns)}
	for _, row := range t.Rows {
		cells = append(cells, list.Map(row, Value.String))
	}
	for i := range t.Columns {
		number[i] = numeric(cells[1:], i)
	}
	for r, row := range cells {
		for i, cell := range row {
			if markdown {
				cell = strings.ReplaceAll(cell, "|", `\|`)
			}
			cells[r][i] = cell
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		text := left
		for i, cell := range cells {
			if i > 0 {
				text += between
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if number[i] {
				text += pad + cell
			} else {
				text += cell + pad
			}
		}
		b.WriteString(strings.TrimRight(text+right, " ") + "\n")
	}
	for r := range cells {
		line(cells[r])
		if r == 0 && markdown {
			rule := make([]string, len(width))
			for i, n := range width {
				rule[i] = strings.Repeat("-", n)
				if number[i] {
					rule[i] = rule[i][1:] + ":"
				}
			}
			line(rule)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// numeric says that a column's texts look like numbers, with what may stand around them.
func numeric(rows [][]string, column int) bool {
	any := false
	for _, row := range rows {
		first, _, _ := strings.Cut(strings.TrimSpace(row[column]), " ")
		if first == "" || first == "-" || first == "~" {
			continue
		}
		if !looksNumeric.MatchString(first) {
			return false
		}
		any = true
	}
	return any
}

var looksNumeric = regexp.MustCompile(`^[-+]*(\d[\d,]*\.?|[\d,]*\.\d)\d*([eE][-+]?\d+)?%?$`)

const tableSchema = "l3sim/table/1" // names the form of a table's JSON

// WriteJSON writes the table as one JSON object: the names of the columns, and the
// rows as arrays. A cell is a number where all cells of its column are numbers or
// empty, else a string; an empty cell of a column of numbers is null.
func (t *Table) WriteJSON(w io.Writer) error {
	number := make([]bool, len(t.Columns))
	for i := range t.Columns {
		number[i] = !slices.ContainsFunc(t.Rows, func(row []Value) bool { return !row[i].Empty() && !isJSONNumber(row[i]) })
	}
	out := struct {
		Schema  string   `json:"schema"`
		Columns []string `json:"columns"`
		Rows    [][]any  `json:"rows"`
	}{tableSchema, t.Columns, make([][]any, len(t.Rows))}
	for r, row := range t.Rows {
		cells := make([]any, len(row))
		for i, cell := range row {
			switch {
			case !number[i]:
				cells[i] = cell.String()
			case !cell.Empty():
				cells[i] = json.Number(cell.String())
			}
		}
		out.Rows[r] = cells
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func isJSONNumber(v Value) bool {
	_, number := v.Float()
	return number && json.Valid([]byte(v.String()))
}
