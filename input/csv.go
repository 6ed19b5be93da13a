package input

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// CSV reads a file of comma-separated values (RFC 4180, line ends of any kind)
// whose records have at most MaxLine bytes each.
type CSV struct {
	*csv.Reader
	file    string
	bounded *boundedReader
	oneLine bool // see OneLine
}

// NewCSV returns a reader of r; file names it in errors.
func NewCSV(file string, r io.Reader) *CSV {
	bounded := &boundedReader{r: r, line: 1}
	return &CSV{Reader: csv.NewReader(bounded), file: file, bounded: bounded}
}

// Read returns the next record. The error is io.EOF at the end, else an *Error.
func (c *CSV) Read() ([]string, error) {
	c.bounded.held = 0
	record, err := c.Reader.Read()
	if err == nil || err == io.EOF {
		return record, err
	}
	c.oneLine = false
	return nil, Edit(FileError(c.file, err), func(bad *Error) {
		var parse *csv.ParseError
		switch {
		case errors.As(err, &parse):
			if bad.Line, bad.Err = parse.Line, parse.Err; parse.Err == csv.ErrFieldCount {
				bad.Err = fmt.Errorf("%w: %d, not %d", parse.Err, len(record), c.FieldsPerRecord)
			}
			c.oneLine = parse.StartLine == parse.Line && !slices.ContainsFunc(record, func(field string) bool { return strings.Contains(field, "\n") })
		case errors.Is(err, ErrLongLine):
			bad.Line = c.bounded.line
		}
	})
}

// Line returns the line on which the record that was read last begins.
func (c *CSV) Line() int {
	line, _ := c.FieldPos(0)
	return line
}

// OneLine says that the record of the last error stands on one line of its own: the next
// Read goes on behind it. Else a quotation mark may have swallowed many.
func (c *CSV) OneLine() bool { return c.oneLine }
