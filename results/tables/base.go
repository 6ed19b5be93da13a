package tables

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// BaseFile is the name of a Base in a Folder.
const BaseFile = "base.json"

const baseSchema = "l3sim/base/1" // version of Base's JSON

// Base is the origin of a folder's rows: the configuration that its points share. With the keys of a point's row it
// gives the command that runs the point again.
type Base struct {
	Schema  string   `json:"schema"`  // baseSchema
	Command string   `json:"command"` // the command of l3sim that wrote the folder: run, sweep, capacity, plan or reproduce
	Version string   `json:"version"`
	File    string   `json:"file"`   // the sweep file, "" without one
	Configs []string `json:"config"` // overlay files, as --config takes them
	Sets    []string `json:"set"`    // settings of all points, as --set takes them
	// Keys is the effective configuration of the first valid point, as text.
	Keys map[string]string `json:"keys"`
}

// InFile returns the base as a file of its folder.
func (b *Base) InFile() results.File {
	named := *b
	named.Schema, named.Configs, named.Sets = baseSchema, append([]string{}, b.Configs...), append([]string{}, b.Sets...)
	return results.File{Name: BaseFile, Write: func(w io.Writer) error { return results.WriteJSON(w, &named) }}
}

// readBase reads the base in a folder. A folder without one, or with another version, is refused.
func readBase(dir string) (*Base, error) {
	b, path := &Base{}, filepath.Join(dir, BaseFile)
	text, err := input.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &input.Error{File: dir, Expected: "a folder that --out named, with " + BaseFile + " and " + ParquetFile +
			"; an unfinished sweep lacks them, and so does what older versions of l3sim wrote: run its command again"}
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, b); err != nil {
		return nil, &input.Error{File: path, Err: err}
	}
	if b.Schema != baseSchema {
		return nil, &input.Error{File: path, Key: "schema", Value: b.Schema, Expected: baseSchema + "; another version of l3sim wrote the folder: run its command again"}
	}
	return b, nil
}
