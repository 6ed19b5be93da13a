package service

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// TableName is the name of the file that supplies what the CSV files beside it leave out.
const TableName = "service.toml"

// Table supplies what measurements leave out.
type Table struct {
	GPU       map[string]string    `toml:"gpu"` // preset or file by the files' name of a GPU
	Framework map[string]Framework `toml:"framework"`
	File      map[string]FileTable `toml:"file"` // by the file's name without its folder
}

// Framework is how a framework serves.
type Framework struct {
	Set []string `toml:"set"` // settings of the configuration, "section.key=value"
	// WholePrompts says that memory is reserved for all prompts of the batch in one iteration, which
	// then prefills them together.
	WholePrompts bool `toml:"whole_prompts"`
	// Waiting is the number of users of a closed loop beyond the server's slots, so that this many
	// requests wait at any time.
	Waiting int `toml:"waiting"`
}

// FileTable is what the rows of a file share.
type FileTable struct {
	Skip      string            `toml:"skip"` // why the file is not judged, "" if it is
	GPU       string            `toml:"gpu"`
	GPUs      int               `toml:"gpus"`
	Framework string            `toml:"framework"`
	Model     string            `toml:"model"`
	Input     int               `toml:"in_tokens"`
	Output    int               `toml:"out_tokens"`
	Batch     int               `toml:"batch"`
	Columns   map[string]string `toml:"columns"` // the file's name of a column, by the column's own name
}

// fixed returns the table's values, by column.
func (t *FileTable) fixed() map[string]string {
	all := map[string]string{columnGPU: t.GPU, columnFramework: t.Framework, columnModel: t.Model}
	for column, n := range map[string]int{columnGPUs: t.GPUs, columnInput: t.Input, columnOutput: t.Output, columnBatch: t.Batch} {
		if n != 0 {
			all[column] = strconv.Itoa(n)
		}
	}
	for column, value := range all {
		if value == "" {
			delete(all, column)
		}
	}
	return all
}

func parseTable(file, text string) (*Table, error) {
	var document map[string]any
	meta, err := input.DecodeTOML(file, text, &document)
	if err != nil {
		return nil, err
	}
	places := schema.Scan(text)
	for _, key := range meta.Keys() { // in any case, for the decoder
		bad := &input.Error{File: file, Line: places[key.String()].Line, Key: key.String()}
		kinds := tableKeys(key)
		kind, known := kinds[key[len(key)-1]]
		if any, free := kinds["*"]; free {
			kind, known = any, true
		}
		if !known {
			valid := keysOf(kinds)
			bad.Expected, bad.Nearest = "one of "+strings.Join(valid, ", "), input.Nearest(key[len(key)-1], valid)
			return nil, bad
		}
		if meta.Type(key...) != kind {
			bad.Expected = kindNames[kind]
			return nil, bad
		}
	}
	t := &Table{}
	if _, err = input.DecodeTOML(file, text, t); err != nil {
		return nil, err
	}
	for _, name := range keysOf(t.Framework) {
		if n := t.Framework[name].Waiting; n < 0 || n > maxBatch {
			key := toml.Key{"framework", name, "waiting"}.String()
			return nil, &input.Error{File: file, Line: places[key].Line, Key: key, Value: strconv.Itoa(n), Expected: fmt.Sprintf("0 to %d", maxBatch)}
		}
	}
	return t, nil
}

// kindNames are the types of TOML in words.
var kindNames = map[string]string{
	"String": "a text in quotes", "Integer": "a whole number", "Bool": "true or false", "Array": "an array of texts", "Hash": "a table",
}

// tableKeys returns the types of values allowed for a key's last name; "*" is any name.
func tableKeys(key toml.Key) map[string]string {
	switch {
	case len(key) == 1:
		return map[string]string{"gpu": "Hash", "framework": "Hash", "file": "Hash"}
	case len(key) == 2 && key[0] == "gpu":
		return map[string]string{"*": "String"}
	case len(key) == 2:
		return map[string]string{"*": "Hash"}
	case len(key) == 3 && key[0] == "framework":
		return map[string]string{"set": "Array", "whole_prompts": "Bool", "waiting": "Integer"}
	}
	kinds := map[string]string{}
	for _, column := range append(loopColumns, columnLatency) {
		kinds[column] = "String"
	}
	if len(key) == 3 {
		for _, column := range []string{columnGPUs, columnInput, columnOutput, columnBatch} {
			kinds[column] = "Integer"
		}
		for _, column := range []string{columnLatency, columnTTFT, columnTPOT} { // they differ between rows
			delete(kinds, column)
		}
		kinds["skip"], kinds["columns"] = "String", "Hash"
	}
	return kinds
}
