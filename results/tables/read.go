package tables

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/l3sim/l3sim/input"
)

// readFile reads the table in a file: Parquet, or CSV with a header.
func readFile(path string) (*Table, error) {
	f, err := input.Open(path)
	if err != nil {
		if bad := new(input.Error); errors.As(err, &bad) && errors.Is(err, fs.ErrNotExist) {
			bad.Expected = "a folder of --out or its " + ResultsFile + "; an unfinished sweep has none"
		}
		return nil, err
	}
	defer f.Close()
	if file, is := f.(*os.File); is && filepath.Ext(path) == filepath.Ext(ParquetFile) {
		return checked(&Table{Name: path}, func(t *Table) error { return t.readParquet(file) })
	}
	return readTable(input.Name(path), f)
}

// readTable reads a CSV file with a header.
func readTable(name string, r io.Reader) (*Table, error) {
	return checked(&Table{Name: name}, func(t *Table) error { return t.readCSV(r) })
}

func (t *Table) readCSV(r io.Reader) error {
	c := input.NewCSV(t.Name, r)
	for size := 0; ; {
		record, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		row := make([]Value, len(record))
		for i, cell := range record {
			bare, isText := unguarded(cell, t.Columns == nil)
			if record[i] = bare; isText {
				row[i] = Of(bare)
			} else if t.Columns != nil {
				row[i] = parse(cell)
			}
			size += len(cell)
		}
		if size += memory(1, len(record)); size > maxTable {
			return t.tooLarge(c.Line())
		}
		if t.Columns == nil {
			t.Columns = record
		} else {
			t.Rows = append(t.Rows, row)
		}
	}
}

// checked reads a table, and refuses one without columns, with two of one name, or of another version.
func checked(t *Table, read func(*Table) error) (*Table, error) {
	if err := read(t); err != nil {
		return nil, err
	}
	if t.Columns == nil {
		return nil, &input.Error{File: t.Name, Expected: "a header line"}
	}
	seen := make(map[string]bool, len(t.Columns))
	for i, c := range t.Columns {
		bad := &input.Error{File: t.Name, Line: 1, Key: fmt.Sprintf("column %d", i+1), Value: c}
		switch {
		case c == "energy_token_j":
			bad.Expected = "gpu_energy_per_output_token_j: this table is of l3sim/results/1" + runAgain
			return nil, bad
		case c == "" || seen[c]:
			bad.Value, bad.Expected = fmt.Sprintf("%q", c), "a name that no other column has"
			return nil, bad
		}
		seen[c] = true
	}
	return t, nil
}

const runAgain = ", which another version of l3sim wrote, and " + ParquetSchema + " is read; run its command again"

// maxTable bounds the memory of a table in bytes; the largest sweep, of 100,000 points, takes about half of it.
const maxTable = 1 << 28

// memory returns the bytes of a table without its texts: the headers of slices and values.
func memory(rows, columns int) int { return rows * (48 + 16*columns) }

func (t *Table) tooLarge(line int) error {
	return &input.Error{File: t.Name, Line: line, Expected: fmt.Sprintf("a table that takes at most %d MiB of memory", maxTable>>20)}
}
