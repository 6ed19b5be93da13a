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
	// DrawsFile and DrawsParquet hold the draws of a sweep with --bands, as ResultsFile and ParquetFile its points.
	DrawsFile    = "draws.csv"
	DrawsParquet = "draws.parquet"
)

// Folder is what every command that computes writes with --out.
type Folder struct {
	Table   *Table                  // a row a point
	Meta    map[string]string       // of the Parquet file
	Base    *Base                   // where the rows come from
	Summary func(w io.Writer) error // as JSON; as --json prints it, but for what depends on the machine
	Config  func(w io.Writer) error // of the first point, as TOML
	Draws   *Table                  // a row a draw of a point; nil without draws
	More    []results.File          // what only some commands write
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

// noTables are the ends of files that may be named by mistake, and whose lines are no rows.
var noTables = []string{".toml", ".json", ".jsonl", ".html", ".png", ".svg", ".pdf"}

// ReadFolder reads the table of a folder and where its rows come from. The path may also be that of a CSV or Parquet file, which
// comes from nowhere: its base is nil. What is wrong is an *input.Error.
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
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) { // somebody kept the text alone
		file = filepath.Join(path, ResultsFile)
	}
	t, err := readFile(file)
	return t, base, err
}

// ReadTable is ReadFolder for those who need the table alone.
func ReadTable(path string) (*Table, error) {
	t, _, err := ReadFolder(path)
	return t, err
}

// SourceColumn says which folder or file a row of ReadTables is from.
const SourceColumn = "source"

// ReadTables reads the tables of folders or files as one. Of several, SourceColumn says where a row is from, and so does
// the name of its point; keys that some base sets and in which the folders differ are columns.
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

// addKeys adds a column to all tables for each key that some base sets, that no table has a column of and in which bases differ.
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

// Join returns the rows of all tables, with the columns of all and SourceColumn, which has the tables' names. A point's name
// begins with that of its table, and is that of its table where the table has no other. What a table does not have is empty.
func Join(names []string, all []*Table) *Table {
	joined := &Table{Name: strings.Join(names, " "), Kinds: map[string]Kind{}}
	var head, tail []string // columns up to the keys, and behind them
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
