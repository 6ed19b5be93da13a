package input

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// CSV reads a file of comma-separated values (RFC 4180, any line ends). A record has at most MaxLine bytes.
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

// Line returns the line on which the last record begins.
func (c *CSV) Line() int {
	line, _ := c.FieldPos(0)
	return line
}

// OneLine reports whether the record of the last error is a single line, so that the next Read continues on the line after it.
// Otherwise a stray quotation mark may have swallowed many lines.
func (c *CSV) OneLine() bool { return c.oneLine }
