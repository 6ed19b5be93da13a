package figure

import (
	"reflect"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// Definition is a figure as a file describes it, so that it can be drawn again and changed: the
// flags of 'l3sim plot' as keys, all optional.
type Definition struct {
	Title string `toml:"title"`
	Selection
}

var definitionKeys = schema.Of[Definition]().Names()

// ReadDefinition reads a definition file. Its errors are of type *input.Error.
func ReadDefinition(path string) (*Definition, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseDefinition(input.Name(path), string(text))
}

// ParseDefinition is ReadDefinition for a text.
func ParseDefinition(path, text string) (*Definition, error) {
	meta, err := input.DecodeTOML(path, text, &map[string]any{})
	if err != nil {
		return nil, err
	}
	for _, key := range meta.Keys() {
		// The decoder would accept a key in any case.
		if name := key.String(); !slices.Contains(definitionKeys, name) {
			return nil, input.Edit(input.UnknownName(name, name, definitionKeys), func(e *input.Error) {
				e.File, e.Line, e.Value = path, schema.Scan(text)[name].Line, ""
			})
		}
	}
	d := &Definition{}
	if _, err = input.DecodeTOML(path, text, d); err != nil {
		return nil, err
	}
	return d, nil
}

// Under returns the selection with empty parts filled from the definition.
func (d *Definition) Under(over Selection) Selection {
	given, defined := reflect.ValueOf(&over).Elem(), reflect.ValueOf(d.Selection)
	for i := range given.NumField() {
		if f := given.Field(i); f.Len() == 0 { // texts, and one list of them
			f.Set(defined.Field(i))
		}
	}
	return over
}
