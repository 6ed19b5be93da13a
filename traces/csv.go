package traces

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// csvColumns is a format with the places of its columns in one file.
type csvColumns struct {
	table
	inputAt, outputAt, arrivalAt, sessionAt int // -1 where the file has no such column
}

// readCSV adds the rows of a CSV file with a header until there are enough.
func (c *collector) readCSV(r io.Reader) error {
	reader := input.NewCSV(c.file, r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	columns, err := findColumns(c.file, reader.Line(), header, c.tables(csvTables))
	if err != nil {
		return err
	}
	if c.format = columns.format; c.format == "" {
		c.format = "csv"
	}
	for !c.enough() {
		record, err := reader.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = c.add(columns.row(c.file, reader.Line(), record))
		} else if reader.OneLine() {
			err = c.skip(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tables returns the formats that a file may have: that of the columns which the user
// named, else known ones.
func (c *collector) tables(known []table) []table {
	if c.options.Columns == (Columns{}) {
		return known
	}
	return []table{c.options.Columns.table()}
}

func findColumns(file string, line int, header []string, formats []table) (*csvColumns, error) {
	names := make([]string, len(header))
	for i, name := range header {
		names[i] = strings.TrimSpace(name)
	}
	place := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(names, name)
	}
	f := choose(formats, names, (*table).lengths)
	if f == nil && len(formats) == 1 {
		f = &formats[0]
	}
	if f == nil {
		return nil, &input.Error{
			File: file, Line: line, Value: strconv.Quote(strings.Join(names, ",")),
			Expected: "a header with the columns of a known format, or their names in --columns", Details: knownNames(csvTables),
		}
	}
	for _, needed := range f.columns() {
		first := place(needed)
		if first < 0 && (needed == f.input || needed == f.output || needed == f.arrival && f.required) {
			return nil, &input.Error{
				File: file, Line: line, Expected: "a column " + needed, Nearest: input.Nearest(needed, names),
			}
		}
		if first >= 0 && slices.Contains(names[first+1:], needed) {
			return nil, &input.Error{File: file, Line: line, Key: needed, Expected: "one column of this name"}
		}
	}
	return &csvColumns{*f, place(f.input), place(f.output), place(f.arrival), place(f.session)}, f.unreadArrivals(file, line, names)
}

func (c *csvColumns) row(file string, line int, record []string) (row, error) {
	cell := func(at int) string {
		if at < 0 {
			return ""
		}
		return strings.TrimSpace(record[at])
	}
	return c.table.row(file, line, &cells{
		input: cell(c.inputAt), output: cell(c.outputAt), arrival: cell(c.arrivalAt), session: cell(c.sessionAt),
		hasArrival: c.arrivalAt >= 0, quoted: true,
	})
}
