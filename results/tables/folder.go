package tables

import (
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// SummaryFile and ConfigFile are files of a Folder.
const (
	SummaryFile = "summary.json"
	ConfigFile  = "config.toml"
)

// Folder is what every command that computes writes with --out.
type Folder struct {
	Table   *Table // a row a point
	Types   []reflect.Type
	Meta    map[string]string       // of the Parquet file
	Base    *Base                   // where the rows come from
	Summary func(w io.Writer) error // as JSON; as --json prints it, but for what depends on the machine
	Config  func(w io.Writer) error // of the first point, as TOML
	More    []results.File          // what only some commands write
}

// Files returns the files of the folder.
func (f *Folder) Files() []results.File {
	return append(f.More,
		f.Base.InFile(),
		results.File{Name: SummaryFile, Write: f.Summary},
		results.File{Name: ConfigFile, Write: f.Config},
		results.File{Name: ResultsFile, Write: f.Table.WriteCSV},
		results.File{Name: ParquetFile, Write: func(w io.Writer) error { return f.Table.WriteParquet(w, f.Types, f.Meta) }})
}

// ReadFolder reads the table of a folder and where its rows come from. The path may also be that of a CSV file, which comes from
// nowhere: its base is nil, as is that of a folder from a version of l3sim without BaseFile. What is wrong is an *input.Error.
func ReadFolder(path string) (*Table, *Base, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		t, err := readFile(path)
		return t, nil, err
	}
	base, err := ReadBase(path)
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(path, ResultsFile)
	if _, missing := os.Stat(file); missing != nil {
		if _, err := os.Stat(filepath.Join(path, SummaryFile)); err == nil {
			return nil, nil, &input.Error{File: path, Expected: ResultsFile + " beside " + SummaryFile + ", which older versions of l3sim did not write; to repeat the run: l3sim run --config " +
				filepath.Join(path, ConfigFile) + " --out " + path}
		}
	}
	t, err := readFile(file)
	return t, base, err
}
