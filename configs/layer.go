package configs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
)

// layer is a subset of the keys with their values and where each was written.
type layer struct {
	entries []entry
	preset  bool // embedded, not the user's
}

// entry is one key of a layer.
type entry struct {
	key   string
	value reflect.Value // of the field's type
	file  string        // path, "preset NAME", "--set" or a flag
	line  int           // 0 where the source has no lines
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

// set adds an entry; a key that is there already gets the new value.
func (l *layer) set(e entry) {
	if old := l.find(e.key); old != nil {
		*old = e
		return
	}
	l.entries = append(l.entries, e)
}

// readLayer reads an overlay file.
func readLayer(path string) (*layer, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseLayer(input.Name(path), string(text))
}

// parseLayer reads the TOML text of file, with every key in the schema and every
// value of its key's type. The error is the first in the order of the text.
func parseLayer(file, text string) (*layer, error) {
	var document map[string]any
	meta, err := toml.Decode(text, &document)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	s, lines, l := configSchema(), keyLines(text), &layer{}
	for _, key := range meta.Keys() {
		name := key.String()
		value := lookUp(document, key)
		e := entry{key: name, file: file, line: lines[name]}
		fail := func(bad *input.InputError) error {
			bad.File, bad.Line, bad.Key = e.file, e.line, e.key
			return bad
		}
		field, leaf := s.fields[name]
		switch _, isTable := value.(map[string]any); {
		case leaf:
			v, bad := convert(field.typ, value)
			if bad != nil {
				return nil, fail(bad)
			}
			e.value = v
			l.set(e)
		case !s.tables[name]:
			bad := s.unknownKey(name)
			if !isTable {
				bad.Value = formatValue(value)
			}
			return nil, fail(bad)
		case !isTable:
			return nil, fail(&input.InputError{Value: formatValue(value), Expected: "a section [" + name + "]"})
		}
	}
	return l, nil
}

// lookUp returns the value of key in a decoded document, nil where an array of
// tables lies in between.
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

// syntaxError gives an error of the TOML decoder its place.
func syntaxError(file string, err error) error {
	bad := &input.InputError{File: file, Err: err}
	var parse toml.ParseError
	if errors.As(err, &parse) {
		bad.Line, bad.Key = parse.Position.Line, parse.LastKey
		bad.Err = fmt.Errorf("not TOML: %s", strings.TrimSuffix(parse.Message, "."))
	}
	return bad
}

// Flag is a key set by a flag of the command line other than --set.
type Flag struct {
	Name  string // with dashes, for error messages: "--model"
	Key   string // full key: "run.model"
	Value string // as --set takes it
}

// setLayer returns the layer of "section.key=value" assignments; a later one
// wins.
func setLayer(sets []string) (*layer, error) {
	l := &layer{}
	for _, set := range sets {
		key, value, ok := strings.Cut(set, "=")
		if !ok {
			return nil, &input.InputError{File: "--set", Value: fmt.Sprintf("%q", set), Expected: "section.key=value"}
		}
		if err := l.assign("--set", strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// flagLayer returns the layer of a command's own flags.
func flagLayer(flags []Flag) (*layer, error) {
	l := &layer{}
	for _, f := range flags {
		if err := l.assign(f.Name, f.Key, f.Value); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// assign sets key to the value that text stands for: a TOML value, or, where
// the key holds a string or a quantity, the bare text.
func (l *layer) assign(file, key, text string) error {
	s := configSchema()
	field, ok := s.fields[key]
	if !ok {
		bad := s.unknownKey(key)
		if s.tables[key] {
			bad = &input.InputError{Key: key, Expected: "a key of the section, as in " + key + ".key=value"}
		}
		bad.File, bad.Value = file, text
		return bad
	}
	var value any = text
	var document map[string]any
	if _, err := toml.Decode("value = "+text, &document); err == nil && len(document) == 1 {
		value = document["value"]
	}
	if _, quoted := value.(string); !quoted && isText(field.typ) {
		value = text
	}
	v, bad := convert(field.typ, value)
	if bad != nil {
		bad.File, bad.Key = file, key
		return bad
	}
	l.set(entry{key: key, value: v, file: file})
	return nil
}

// isText says that values of type t are written as strings in TOML.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(textUnmarshaler)
}
