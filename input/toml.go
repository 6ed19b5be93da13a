package input

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxNesting is how deep arrays, tables and dotted keys may nest in a TOML text.
// The decoder takes time and memory that grow with the square of the depth; no key
// of ours is deeper than four.
const maxNesting = 32

// DecodeTOML decodes the text of file into v. Any error is an *Error with the
// line where the text is at fault.
func DecodeTOML(file, text string, v any) (toml.MetaData, error) {
	if line := deepLine(text); line > 0 {
		return toml.MetaData{}, &Error{File: file, Line: line,
			Expected: fmt.Sprintf("arrays, tables and dotted keys nested at most %d deep", maxNesting)}
	}
	meta, err := toml.Decode(text, v)
	if err == nil {
		return meta, nil
	}
	bad := &Error{File: file, Err: err}
	var parse toml.ParseError
	if errors.As(err, &parse) {
		bad.Line, bad.Key = parse.Position.Line, parse.LastKey
		bad.Err = fmt.Errorf("not TOML: %s", strings.TrimSuffix(parse.Message, "."))
	} else if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		bad.Line, _ = strconv.Atoi(m[1]) // the decoder does not know the line of a table
		found, wanted := m[3], m[4]
		if found == "" { // the decoder's other form, of tables
			found, wanted = m[4], "map"
		}
		bad.Key, bad.Expected, bad.Err = m[2], typeWords(wanted)+", not "+typeWords(found), nil
	}
	return meta, bad
}

// wrongType is what the decoder says of a value of another type than the key's.
var wrongType = regexp.MustCompile(`^toml: (?:line (\d+) )?\(last key "(.*)"\): (?:incompatible types: TOML value has type (.*); destination has type|type mismatch for .*: expected table but found) (.*)$`)

// typeWords says a type in words that a user of TOML knows.
func typeWords(name string) string {
	switch {
	case name == "string":
		return "a string"
	case name == "bool" || name == "boolean":
		return "true or false"
	case name == "slice" || strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "int") || strings.HasPrefix(name, "uint"):
		return "a whole number"
	case strings.HasPrefix(name, "float"):
		return "a decimal number"
	case name == "struct" || strings.HasPrefix(name, "map"):
		return "a table"
	}
	return name
}

// deepLine returns the line, from 1, on which a text first nests deeper than
// maxNesting, 0 where it does not. It knows of TOML only what strings and comments
// are: a text that the decoder refuses at an earlier line may get any answer.
func deepLine(text string) int {
	depth, dots := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '#':
			i = end(text, i, "\n") - 1
			continue
		case '"', '\'':
			i = stringEnd(text, i) - 1
			continue
		case '[', '{':
			depth++
			dots = 0
		case ']', '}':
			depth = max(depth-1, 0)
			dots = 0
		case '=', ',', '\n':
			dots = 0
		case '.':
			dots++
		}
		if depth > maxNesting || dots > maxNesting {
			return 1 + strings.Count(text[:i], "\n")
		}
	}
	return 0
}

// stringEnd returns the index behind the string that begins at start.
func stringEnd(text string, start int) int {
	quote := text[start : start+1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(text[start:], long) {
		for i := start + 3; i < len(text); i++ {
			switch {
			case quote == `"` && text[i] == '\\':
				i++
			case strings.HasPrefix(text[i:], long):
				for i += 3; i < len(text) && text[i] == quote[0]; i++ { // quotes that belong to the string
				}
				return i
			}
		}
		return len(text)
	}
	for i := start + 1; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case quote == `"` && text[i] == '\\':
			i++
		case text[i] == quote[0]:
			return i + 1
		}
	}
	return end(text, start, "\n")
}

// end returns the index of the first mark from start on, the text's length without
// one.
func end(text string, start int, mark string) int {
	if i := strings.Index(text[start:], mark); i >= 0 {
		return start + i
	}
	return len(text)
}
