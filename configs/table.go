package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// table is a DRAM standard's table, with the part that a layer uses.
type table struct {
	standard *dram.Standard
	sum      string // SHA-256 of the text, in hexadecimal
}

// tables caches the tables by file and text. Equal tables are one standard, so that measurements on a rank of one hold for all.
var tables sync.Map

var dramKeys = schema.Of[dram.Spec]() // the keys of a part

// tableLayer returns the layer of a part in a table of a DRAM standard: FILE.toml or FILE.toml:PART. It is nil for a file with a section
// [dram].
func tableLayer(name string) (*layer, error) {
	path, part := dram.TablePart(name)
	text, err := input.ReadFile(path)
	if err != nil || part == "" && !dram.IsTable(string(text)) {
		return nil, err
	}
	standard, err := readTable(input.Name(path), string(text))
	if err != nil {
		return nil, err
	}
	spec, err := standard.OnePart(part)
	if err != nil {
		return nil, input.Edit(err, func(bad *input.Error) { bad.File = input.Name(path) })
	}
	sum := sha256.Sum256(text)
	l := &layer{file: input.Name(path), table: &table{standard, hex.EncodeToString(sum[:])}}
	named := schema.Scan(string(text))["standard"].Line
	for _, k := range dramKeys.Keys {
		line, source := standard.Source(spec.Name, k.Name)
		if k.Name == "name" || k.Name == "standard" {
			line = named
		}
		l.set(entry{key: "dram." + k.Name, value: k.Get(spec), file: l.file, line: line, comment: source})
	}
	return l, nil
}

func readTable(file, text string) (*dram.Standard, error) {
	id := [2]string{file, text}
	if known, ok := tables.Load(id); ok {
		return known.(*dram.Standard), nil
	}
	standard, err := dram.ReadStandard(file, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	known, _ := tables.LoadOrStore(id, standard)
	return known.(*dram.Standard), nil
}
