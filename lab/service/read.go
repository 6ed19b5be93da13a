package service

import (
	"bytes"
	"embed"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
)

//go:embed data
var data embed.FS

// Measured is the content of files.
type Measured struct {
	Rows    []Row // in the order of the files' names and lines
	Skipped []Skipped
	Table   *Table
}

// Skipped is a file that was not read, and why.
type Skipped struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Builtin returns the built-in measurements.
func Builtin() (*Measured, error) {
	known, err := builtinTable()
	if err != nil {
		return nil, err
	}
	paths, err := fs.Glob(data, "data/*.csv")
	if err != nil {
		return nil, err
	}
	return read(paths, known, data.ReadFile)
}

func builtinTable() (*Table, error) {
	text, err := data.ReadFile("data/" + TableName)
	if err != nil {
		return nil, err
	}
	return parseTable(TableName, string(text))
}

// Read reads a CSV file, or all CSV files of a folder. The file TableName beside them, and the
// built-in one, supply what they leave out. Errors in the files are of type *input.Error.
func Read(path string) (*Measured, error) {
	known, err := builtinTable()
	if err != nil {
		return nil, err
	}
	paths, folder := []string{path}, filepath.Dir(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		folder = path
		if paths, err = csvfile.Files(path); err != nil {
			return nil, err
		}
	}
	own := filepath.Join(folder, TableName)
	if text, err := input.ReadFile(own); path != input.Stdin && !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return nil, err
		}
		t, err := parseTable(own, string(text))
		if err != nil {
			return nil, err
		}
		known = known.under(t)
	}
	return read(paths, known, input.ReadFile)
}

// under returns own, completed by the keys of t.
func (t *Table) under(own *Table) *Table {
	merged := &Table{GPU: maps.Clone(t.GPU), Framework: maps.Clone(t.Framework), File: maps.Clone(t.File)}
	maps.Copy(merged.GPU, own.GPU)
	maps.Copy(merged.Framework, own.Framework)
	maps.Copy(merged.File, own.File)
	return merged
}

// read reads files, whose text open returns.
func read(paths []string, known *Table, open func(string) ([]byte, error)) (*Measured, error) {
	m := &Measured{Table: known}
	slices.Sort(paths)
	for _, path := range paths {
		about := known.File[filepath.Base(path)]
		if about.Skip != "" {
			m.Skipped = append(m.Skipped, Skipped{filepath.Base(path), about.Skip})
			continue
		}
		text, err := open(path)
		if err != nil {
			return nil, err
		}
		rows, err := parse(input.Name(strings.TrimPrefix(path, "data/")), bytes.NewReader(text), &about)
		if err != nil {
			return nil, err
		}
		m.Rows = append(m.Rows, rows...)
	}
	if len(m.Rows) == 0 {
		return nil, &input.Error{File: paths[0], Expected: "static batches or closed loops, not " + m.Skipped[0].Reason}
	}
	return m, nil
}
