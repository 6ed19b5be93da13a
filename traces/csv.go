package traces

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// csvColumns is a CSV format with the places of its columns in one file.
type csvColumns struct {
	csvFormat
	arrivalAt, inputAt, outputAt int // arrivalAt is -1 where the file has no arrivals
}

// readCSV adds the rows of a CSV file with a header until it has enough.
func readCSV(file string, r io.Reader, to *rows) error {
	reader := input.NewCSV(file, r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	columns, err := findColumns(file, reader.Line(), header)
	if err != nil {
		return err
	}
	for !to.enough() {
		record, err := reader.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := columns.row(file, reader.Line(), record)
		if err != nil {
			return err
		}
		if err := to.add(r); err != nil {
			return err
		}
	}
	return nil
}

// findColumns returns the format of the file whose first line is header.
func findColumns(file string, line int, header []string) (*csvColumns, error) {
	names := make([]string, len(header))
	for i, name := range header {
		names[i] = strings.TrimSpace(name)
	}
	for _, f := range csvFormats {
		c := &csvColumns{f, slices.Index(names, f.arrival), slices.Index(names, f.input), slices.Index(names, f.output)}
		if c.inputAt < 0 && c.outputAt < 0 {
			continue
		}
		for _, needed := range []string{f.input, f.output, f.arrival} {
			first := slices.Index(names, needed)
			if first < 0 && (needed != f.arrival || f.required) {
				return nil, &input.Error{
					File: file, Line: line, Expected: "a column " + needed, Nearest: input.Nearest(needed, names),
				}
			}
			if first >= 0 && slices.Contains(names[first+1:], needed) {
				return nil, &input.Error{File: file, Line: line, Key: needed, Expected: "one column of this name"}
			}
		}
		return c, nil
	}
	return nil, &input.Error{
		File: file, Line: line, Value: strconv.Quote(strings.Join(names, ",")),
		Expected: "a header with the columns " + formatNames() + ", or JSON lines with " + mooncakeFields,
	}
}

// row reads one record.
func (c *csvColumns) row(file string, line int, record []string) (row, error) {
	r := row{line: line}
	var err error
	if r.input, err = c.tokens(file, line, c.input, record[c.inputAt]); err != nil {
		return row{}, err
	}
	if r.output, err = c.tokens(file, line, c.output, record[c.outputAt]); err != nil {
		return row{}, err
	}
	if c.arrivalAt >= 0 {
		text := strings.TrimSpace(record[c.arrivalAt])
		var ok bool
		if r.arrival, ok = c.parse(text); !ok {
			return row{}, &input.Error{
				File: file, Line: line, Key: c.arrival, Value: strconv.Quote(text), Expected: c.expected,
			}
		}
	}
	return r, nil
}

// tokens reads a number of tokens.
func (c *csvColumns) tokens(file string, line int, column, text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		n = 0 // reported as out of range, with the text
	}
	return tokens(file, line, column, n, strconv.Quote(text))
}
