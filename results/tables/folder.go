package tables

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// SummaryFile and ConfigFile are files of a Folder.
const (
	SummaryFile = "summary.json"
	ConfigFile  = "config.toml"
	// DrawsFile (CSV) and DrawsParquet hold the draws of a sweep with --bands.
	DrawsFile    = "draws.csv"
	DrawsParquet = "draws.parquet"
)

// Folder is the output with --out of every command that computes.
type Folder struct {
	Table   *Table                  // a row for each point
	Meta    map[string]string       // of the Parquet file
	Base    *Base                   // the origin of the rows
	Summary func(w io.Writer) error // JSON as --json prints it, without what depends on the machine
	Config  func(w io.Writer) error // of the first point, as TOML
	Draws   *Table                  // a row for each draw of a point; nil without draws
	More    []results.File          // files of some commands alone
}

// Files returns the files of the folder.
func (f *Folder) Files() []results.File {
	if f.Draws != nil {
		f.More = append(f.More, results.File{Name: DrawsFile, Write: f.Draws.WriteCSV},
			results.File{Name: DrawsParquet, Write: func(w io.Writer) error { return f.Draws.WriteParquet(w, f.Meta) }})
	}
	return append(f.More,
		f.Base.InFile(),
		results.File{Name: SummaryFile, Write: f.Summary},
		results.File{Name: ConfigFile, Write: f.Config},
		results.File{Name: ResultsFile, Write: f.Table.WriteCSV},
		results.File{Name: ParquetFile, Write: func(w io.Writer) error { return f.Table.WriteParquet(w, f.Meta) }})
}

// noTables are endings of files that are no tables and might be named by mistake.
var noTables = []string{".toml", ".json", ".jsonl", ".html", ".png", ".svg", ".pdf"}

// ReadFolder reads the table of a folder and the origin of its rows. The path may also be a CSV or Parquet file, whose base is
// nil. Errors are of type *input.Error.
func ReadFolder(path string) (*Table, *Base, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		if ext := strings.ToLower(filepath.Ext(path)); err == nil && slices.Contains(noTables, ext) {
			return nil, nil, &input.Error{File: input.Name(path), Expected: "a folder of --out or a table, .csv or .parquet; not a file that ends with " + ext}
		}
		t, err := readFile(path)
		return t, nil, err
	}
	base, err := readBase(path)
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(path, ParquetFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) { // only the text was kept
		file = filepath.Join(path, ResultsFile)
	}
	t, err := readFile(file)
	return t, base, err
}

// ReadTable is ReadFolder without the base.
func ReadTable(path string) (*Table, error) {
	t, _, err := ReadFolder(path)
	return t, err
}

// SourceColumn holds the folder or file of a row of ReadTables.
const SourceColumn = "source"

// ReadTables reads the tables of folders or files as one. With several, SourceColumn and the names of points give a
// row's origin, and keys that some base sets and in which the folders differ become columns.
func ReadTables(paths []string) (*Table, error) {
	all, bases, names := make([]*Table, len(paths)), make([]*Base, len(paths)), make([]string, len(paths))
	for i, path := range paths {
		var err error
		if all[i], bases[i], err = ReadFolder(path); err != nil {
			return nil, err
		}
		if names[i] = filepath.Base(filepath.Clean(path)); slices.Contains(names[:i], names[i]) || filepath.Ext(path) != "" {
			names[i] = filepath.Clean(path)
		}
	}
	if len(paths) == 1 {
		return all[0], nil
	}
	if !slices.Contains(bases, nil) {
		addKeys(all, bases)
	}
	return Join(names, all), nil
}

// addKeys adds a column to all tables for each key that some base sets, in which bases differ and that no table has as a column.
func addKeys(all []*Table, bases []*Base) {
	keys := map[string]bool{}
	for _, b := range bases {
		for _, set := range b.Sets {
			key, _, _ := strings.Cut(set, "=")
			keys[strings.TrimSpace(key)] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		differs := slices.ContainsFunc(bases, func(b *Base) bool { return b.Keys[key] != bases[0].Keys[key] })
		has := slices.ContainsFunc(all, func(t *Table) bool {
			return slices.ContainsFunc(t.Columns, func(c string) bool { name, _ := SplitUnit(c); return c == key || name == key })
		})
		for i, t := range all {
			if point := slices.Index(t.Columns, PointColumn); differs && !has && point >= 0 {
				t.insert(point+1, key, parse(bases[i].Keys[key]))
			}
		}
	}
}

// insert adds a column with one value.
func (t *Table) insert(at int, column string, value Value) {
	t.Columns = slices.Insert(slices.Clone(t.Columns), at, column)
	for r, row := range t.Rows {
		t.Rows[r] = slices.Insert(slices.Clone(row), at, value)
	}
}

// Join returns the rows of all tables, with all columns and SourceColumn, which holds the tables' names. The name of a table
// prefixes the names of its points, or replaces them if the table has no others. Cells that a table lacks are empty.
func Join(names []string, all []*Table) *Table {
	joined := &Table{Name: strings.Join(names, " "), Kinds: map[string]Kind{}}
	var head, tail []string // columns up to the keys, and after them
	for i, t := range all {
		point := slices.Index(t.Columns, PointColumn)
		if point >= 0 {
			points := t.Group(t.All(), point)
			for _, rows := range points {
				called := names[i] + ": " + t.Rows[rows[0]][point].String()
				if len(points) == 1 {
					called = names[i]
				}
				for _, r := range rows {
					t.Rows[r][point] = Of(called)
				}
			}
		}
		maps.Copy(joined.Kinds, t.Kinds)
		t.insert(point+1, SourceColumn, Of(names[i]))
		isKey := t.IsConfig()
		for c, name := range t.Columns {
			to := &tail
			if isKey[c] || name == PointColumn || name == SourceColumn {
				to = &head
			}
			if !slices.Contains(head, name) && !slices.Contains(tail, name) {
				*to = append(*to, name)
			}
		}
	}
	joined.Columns = append(head, tail...)
	for _, t := range all {
		for _, row := range t.Rows {
			cells := make([]Value, len(joined.Columns))
			for c, name := range t.Columns {
				cells[slices.Index(joined.Columns, name)] = row[c]
			}
			joined.Rows = append(joined.Rows, cells)
		}
	}
	return joined
}
