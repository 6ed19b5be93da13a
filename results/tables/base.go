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

const baseSchema = "l3sim/base/1" // names the form of Base's JSON

// Base is where the rows of a folder come from: the configuration that its points share. With the keys of a point's
// row it makes the command that runs the point again.
type Base struct {
	Schema  string   `json:"schema"`  // baseSchema
	Command string   `json:"command"` // of l3sim that wrote the folder: run, sweep, capacity or reproduce; "" of older versions is sweep
	Version string   `json:"version"`
	File    string   `json:"file"`   // of the sweep, "" where there is none
	Configs []string `json:"config"` // overlay files, as --config takes them
	Sets    []string `json:"set"`    // settings of all points, as --set takes them
	// Keys is the effective configuration of the first valid point, as text.
	Keys map[string]string `json:"keys"`
}

// InFile returns the base as a file of its folder.
func (b *Base) InFile() results.File {
	named := *b
	named.Schema = baseSchema
	for _, list := range []*[]string{&named.Configs, &named.Sets} {
		if *list == nil {
			*list = []string{}
		}
	}
	return results.File{Name: BaseFile, Write: func(w io.Writer) error { return results.WriteJSON(w, &named) }}
}

// ReadBase reads the description in a folder. Where there is none, as of what an older version
// wrote, it returns nil.
func ReadBase(dir string) (*Base, error) {
	b := &Base{}
	if found, err := readJSON(filepath.Join(dir, BaseFile), b, &b.Schema, baseSchema); !found {
		return nil, err
	}
	return b, nil
}

// readJSON reads a file into v. schema points into v and must be expected then. found is false
// without a file, which is no error, and with every error.
func readJSON(path string, v any, schema *string, expected string) (found bool, err error) {
	text, err := input.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, &input.Error{File: path, Err: err}
	}
	if *schema != expected {
		return false, &input.Error{File: path, Key: "schema", Value: *schema, Expected: expected}
	}
	return true, nil
}
