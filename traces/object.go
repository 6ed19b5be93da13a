package traces

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

type object []field // the fields of a JSON object; values are slices of its text

// field is a field of an object.
type field struct {
	name  string
	value []byte
}

// parseObject reads a text that is one object. A duplicate field is an error, since its value would be ambiguous.
func parseObject(text []byte) (object, error) {
	if !json.Valid(text) {
		err := json.Unmarshal(text, new(json.RawMessage))
		if syntax := new(json.SyntaxError); errors.As(err, &syntax) && int(syntax.Offset) >= len(text) {
			if whole, comma := bytes.CutSuffix(text, []byte(",")); comma && json.Valid(whole) {
				return nil, errors.New("a comma behind the object (sed 's/,$//' FILE leaves them out)")
			}
			err = errors.New("the line ends within the object (jq -c . FILE writes one on each line)")
		}
		return nil, err
	}
	at := skipSpace(text, 0)
	if text[at] != '{' {
		return nil, errors.New("no JSON object")
	}
	o := make(object, 0, 8)
	for at++; ; {
		at = skipSpace(text, at)
		if text[at] == '}' {
			return o, nil
		}
		if text[at] == ',' {
			at = skipSpace(text, at+1)
		}
		end := valueEnd(text, at)
		name := string(text[at+1 : end-1])
		if strings.Contains(name, `\`) {
			if err := json.Unmarshal(text[at:end], &name); err != nil {
				return nil, err
			}
		}
		at = skipSpace(text, skipSpace(text, end)+1) // after the colon
		end = valueEnd(text, at)
		if _, twice := o.find(name); twice {
			return nil, errors.New("two fields " + strconv.Quote(name))
		}
		o = append(o, field{name, text[at:end]})
		at = end
	}
}

// skipSpace returns the index of the first byte, from at on, that is not JSON white space.
func skipSpace(text []byte, at int) int {
	for text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n' {
		at++
	}
	return at
}

// valueEnd returns the index after the value that begins at at. The text must be valid JSON.
func valueEnd(text []byte, at int) int {
	depth := 0
	for ; ; at++ {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 && (at+1 == len(text) || isDelimiter(text[at+1]) || isDelimiter(text[at])) {
			return at + 1
		}
	}
}

// isDelimiter reports whether a byte ends a number, a boolean or null.
func isDelimiter(b byte) bool {
	switch b {
	case ' ', '\t', '\r', '\n', ',', ':', ']', '}', '"':
		return true
	}
	return false
}

// find returns the text of a field's value.
func (o object) find(name string) ([]byte, bool) {
	for i := range o {
		if o[i].name == name {
			return o[i].value, true
		}
	}
	return nil, false
}

// value is find for a field that is not null. A nested field is named a.b.
func (o object) value(name string) ([]byte, bool) {
	if name == "" {
		return nil, false
	}
	value, ok := o.find(name)
	if outer, inner, nested := strings.Cut(name, "."); !ok && nested {
		if value, ok = o.find(outer); ok {
			within, err := parseObject(value)
			if err != nil {
				return nil, false
			}
			return within.value(inner)
		}
	}
	return value, ok && string(value) != "null"
}

// text returns the text of a number or a string, or the JSON text of any other value, which no parser accepts as a number. It returns "" if
// the object lacks the field.
func (o object) text(name string) (string, bool) {
	value, ok := o.value(name)
	if !ok {
		return "", false
	}
	if text := ""; value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text, true
	}
	return string(value), true
}
