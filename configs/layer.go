package configs

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// layer is a subset of the keys, with their values and the places where they were written.
type layer struct {
	entries []entry
	bands   []keyBand // of [bands]
	preset  bool      // embedded, not the user's
	file    string    // as in the entries; "" if they differ
	derives string    // the key to derive if no layer sets it; "" for none
	whole   []string  // keys that name a table and give every required entry
	table   *table    // the table of the layer's DRAM part; nil for none
	notes   []string  // on how a model's config.json was read

	variants []variant // of a system preset
}

// entry is one key of a layer.
type entry struct {
	key   string
	value reflect.Value // of the field's type
	file  string        // path, "preset NAME", "--set" or a flag
	line  int           // 0 where the source has no lines
	// comment is the source's comment on the key.
	comment string
	fit     bool   // of layoutKey: the value is to be derived
	named   *entry // the entry that names this entry's table; nil if it comes from none
}

// find returns the entry of key, nil where the layer does not set it.
func (l *layer) find(key string) *entry {
	for i := range l.entries {
		if l.entries[i].key == key {
			return &l.entries[i]
		}
	}
	return nil
}

// set adds an entry, or gives an existing key the new value.
func (l *layer) set(e entry) {
	if old := l.find(e.key); old != nil {
		*old = e
		return
	}
	l.entries = append(l.entries, e)
}

func (ld *Loader) read(path string) (*layer, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ld.parse(input.Name(path), string(text))
}

// parse reads the TOML text of file. Every key must be in the schema, and every value must have its key's type. The error is the first one
// in the text.
func (ld *Loader) parse(file, text string) (*layer, error) {
	var document map[string]any
	meta, err := input.DecodeTOML(file, text, &document)
	if err != nil {
		return nil, err
	}
	places, l := schema.Scan(text), &layer{file: file}
	for _, key := range meta.Keys() {
		name := key.String()
		value := lookUp(document, key)
		e := entry{key: name, file: file, line: places[name].Line, comment: places[name].Comment}
		fail := func(err error) error {
			return input.Edit(err, func(bad *input.Error) { bad.File, bad.Line, bad.Key = e.file, e.line, e.key })
		}
		if band, of, err := ld.parseBand(name, value); of {
			if err != nil {
				return nil, fail(err)
			}
			if band != nil {
				l.bands = append(l.bands, *band)
			}
			continue
		}
		leaf := ld.keys.Key(name)
		switch _, isTable := value.(map[string]any); {
		case describesFit(name):
		case ofVariants(name) && strings.HasPrefix(file, presetFile): // read by parseVariants
		case fits(name, value):
			l.set(fitEntry(e))
		case leaf != nil:
			if e.value, err = schema.Convert(leaf.Type, value); err != nil {
				return nil, fail(err)
			}
			l.set(e)
		case !ld.keys.IsSection(name) || !isTable && ld.keys.IsFormer(name):
			return nil, fail(input.Edit(ld.unknown(name), func(bad *input.Error) {
				if !isTable {
					bad.Value = schema.Written(value)
				}
			}))
		case !isTable:
			return nil, fail(&input.Error{Value: schema.Written(value), Expected: "a section [" + name + "]"})
		}
	}
	return ld.include(l)
}

func (ld *Loader) unknown(name string) error {
	return input.Edit(ld.keys.Unknown(name), func(bad *input.Error) {
		for _, b := range bases {
			if b.section+".preset" == name {
				bad.Nearest = b.key // run.model; [model] has no such key
			}
		}
	})
}

// lookUp returns the value of key in a decoded document, or nil if an array of tables intervenes.
func lookUp(document map[string]any, key toml.Key) any {
	var value any = document
	for _, part := range key {
		table, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = table[part]
	}
	return value
}

// Flag is a key set by a flag of the command line other than --set.
type Flag struct {
	Name  string // with dashes, for error messages: "--model"
	Key   string // full key: "run.model"
	Value string // as --set takes it
}

// setLayer returns the layer of "section.key=value" assignments; later ones win.
func (ld *Loader) setLayer(sets []string) (*layer, error) {
	flags := make([]Flag, len(sets))
	for i, set := range sets {
		key, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, &input.Error{File: "--set", Value: fmt.Sprintf("%q", set), Expected: "section.key=value"}
		}
		flags[i] = Flag{"--set", strings.TrimSpace(key), strings.TrimSpace(value)}
	}
	return ld.flagLayer(flags)
}

// flagLayer returns the layer of flags. A flag's text is a TOML value or, for keys that hold a string or a quantity, the bare text.
func (ld *Loader) flagLayer(flags []Flag) (*layer, error) {
	l := &layer{}
	for _, f := range flags {
		k := ld.keys.Key(f.Key)
		if k == nil {
			return nil, input.Edit(ld.unknown(f.Key), func(bad *input.Error) { bad.File, bad.Value = f.Name, f.Value })
		}
		if fits(f.Key, f.Value) {
			l.set(fitEntry(entry{key: f.Key, file: f.Name}))
			continue
		}
		v, err := schema.Parse(k.Type, f.Value)
		if err != nil {
			return nil, input.Edit(err, func(bad *input.Error) { bad.File, bad.Key = f.Name, f.Key })
		}
		l.set(entry{key: f.Key, value: v, file: f.Name})
	}
	return ld.include(l)
}
