package input

import (
	"encoding/csv"
	"errors"
	"io"
)

// CSV reads a file of comma-separated values (RFC 4180, line ends of any kind)
// whose records have at most MaxLine bytes each.
type CSV struct {
	*csv.Reader
	file    string
	bounded *boundedReader
}

// NewCSV returns a reader of r; file names it in errors.
func NewCSV(file string, r io.Reader) *CSV {
	bounded := &boundedReader{r: r, line: 1}
	return &CSV{csv.NewReader(bounded), file, bounded}
}

// Read returns the next record. The error is io.EOF at the end, else an *Error.
func (c *CSV) Read() ([]string, error) {
	c.bounded.held = 0
	record, err := c.Reader.Read()
	if err == nil || err == io.EOF {
		return record, err
	}
	return nil, Edit(FileError(c.file, err), func(bad *Error) {
		var parse *csv.ParseError
		switch {
		case errors.As(err, &parse):
			bad.Line, bad.Err = parse.Line, parse.Err
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
