package tables

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/l3sim/l3sim/input/list"
)

// WriteCSV writes the table with its header. A text that a spreadsheet would take for a formula, or a reader for a number or a
// truth value, gets a leading apostrophe, which readers remove.
func (t *Table) WriteCSV(w io.Writer) error {
	if err := t.given(); err != nil {
		return err
	}
	c := csv.NewWriter(w)
	if err := c.Write(list.Map(t.Columns, func(name string) string { return guarded(name, true) })); err != nil {
		return err
	}
	cells := make([]string, len(t.Columns))
	for _, row := range t.Rows {
		for i, v := range row {
			cells[i] = v.String()
			if text, is := v.v.(string); is {
				cells[i] = guarded(text, false)
			}
		}
		if err := c.Write(cells); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// needsGuard says that a text, after any apostrophes, begins like a formula (OWASP, "CSV Injection") or, except in a header, reads
// as another type. A text with apostrophes of its own gets one more, so that readers remove none of its own.
func needsGuard(text string, header bool) bool {
	text = strings.TrimLeft(text, "'")
	_, isText := parse(text).v.(string)
	return text != "" && !isText && !header || len(text) > 1 && strings.ContainsRune("=+-@\t\r", rune(text[0]))
}

func guarded(text string, header bool) string {
	if needsGuard(text, header) {
		return "'" + text
	}
	return text
}

func unguarded(text string, header bool) (bare string, was bool) {
	if bare, quoted := strings.CutPrefix(text, "'"); quoted && needsGuard(bare, header) {
		return bare, true
	}
	return text, false
}

// WriteText writes the table for people, in aligned columns: real numbers with six digits, numbers
// aligned right.
func (t *Table) WriteText(w io.Writer) error { return t.writeAligned(w, "", "  ", "") }

// WriteMarkdown writes the table as GitHub's Markdown, with numbers as in WriteText.
func (t *Table) WriteMarkdown(w io.Writer) error { return t.writeAligned(w, "| ", " | ", " |") }

// longestAligned bounds the characters of a Markdown row with padded cells: editors wrap longer rows anyway.
const longestAligned = 198

// writeAligned writes rows between the given marks. With a left mark, Markdown's rule follows the header.
func (t *Table) writeAligned(w io.Writer, left, between, right string) error {
	if err := t.given(); err != nil {
		return err
	}
	markdown := left != ""
	width := make([]int, len(t.Columns))
	cells, number := t.texts()
	for i := range t.Columns {
		for _, row := range cells {
			if markdown {
				row[i] = strings.ReplaceAll(row[i], "|", `\|`)
			}
			width[i] = max(width[i], utf8.RuneCountInString(row[i]), 3)
		}
	}
	if total := 0; markdown {
		for _, n := range width {
			total += n + len(between)
		}
		if total > longestAligned {
			width = make([]int, len(width))
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		text := left
		for i, cell := range cells {
			if i > 0 {
				text += between
			}
			pad := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(cell)))
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
		if r > 0 || !markdown {
			continue
		}
		rule := list.Map(width, func(n int) string { return strings.Repeat("-", max(n, 3)) })
		for i := range rule {
			if number[i] {
				rule[i] = rule[i][1:] + ":"
			}
		}
		line(rule)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// texts returns the header and the cells for people, and which columns are numeric.
func (t *Table) texts() (cells [][]string, number []bool) {
	cells, number = [][]string{slices.Clone(t.Columns)}, make([]bool, len(t.Columns))
	for _, row := range t.Rows {
		cells = append(cells, list.Map(row, Value.text))
	}
	for i := range t.Columns {
		number[i] = !slices.ContainsFunc(cells[1:], func(row []string) bool { return !numeric.MatchString(row[i]) }) &&
			slices.ContainsFunc(t.Rows, func(row []Value) bool { return !row[i].Empty() })
	}
	return cells, number
}

// text returns a cell for people: real numbers with six digits.
func (v Value) text() string {
	text := v.String()
	if real, is := v.v.(float64); is && len(text) > len("12.34567") {
		return strconv.FormatFloat(real, 'f', max(0, 5-int(math.Floor(math.Log10(math.Abs(real))))), 64)
	}
	return text
}

// numeric is a cell that is aligned right: nothing, a dash, or a number with a possible suffix.
var numeric = regexp.MustCompile(`^(-?|[-+]*(\d[\d,]*\.?|[\d,]*\.\d)\d*([eE][-+]?\d+)?%?( .*)?)$`)

const tableSchema = "l3sim/table/1" // version of a table's JSON

// WriteJSON writes the table as one JSON object: the names of the columns, and the rows as arrays.
func (t *Table) WriteJSON(w io.Writer) error {
	if err := t.given(); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Schema  string    `json:"schema"`
		Columns []string  `json:"columns"`
		Rows    [][]Value `json:"rows"`
	}{tableSchema, t.Columns, append([][]Value{}, t.Rows...)})
}
