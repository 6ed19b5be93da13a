package input

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxNesting is how deep arrays, tables and dotted keys may nest in a TOML text. The decoder takes
// time and memory that grow with the square of the depth; no key of ours is deeper than four.
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

// wrongType is the decoder's message about a value of another type than the key's.
var wrongType = regexp.MustCompile(`^toml: (?:line (\d+) )?\(last key "(.*)"\): (?:incompatible types: TOML value has type (.*); destination has type|type mismatch for .*: expected table but found) (.*)$`)

// typeWords says a type in words that a user of TOML knows.
func typeWords(name string) string {
	for _, w := range [][2]string{
		{"string", "a string"}, {"bool", "true or false"}, {"slice", "a list"}, {"[]", "a list"}, {"int", "a whole number"}, {"uint", "a whole number"},
		{"float", "a decimal number"}, {"struct", "a table"}, {"map", "a table"},
	} {
		if strings.HasPrefix(name, w[0]) {
			return w[1]
		}
	}
	return name
}

// deepLine returns the line, from 1, on which a text first nests deeper than maxNesting, 0 if
// never.
func deepLine(text string) int {
	depth, dots := 0, 0
	for _, t := range TOMLTokens(text) {
		switch t.Text {
		case "[", "{":
			depth, dots = depth+1, 0
		case "]", "}":
			depth, dots = max(depth-1, 0), 0
		case "=", ",", "\n":
			dots = 0
		case ".":
			dots++
		}
		if depth > maxNesting || dots > maxNesting {
			return t.Line
		}
	}
	return 0
}

// TOMLToken is a part of a TOML text: a string with its quotation marks, a comment, a line end, white space,
// one of []{}=,. or what stands between these.
type TOMLToken struct {
	Text string
	Line int // on which it begins, from 1
}

// TOMLTokens returns the tokens of a text, which together are all of it. A text that is no valid TOML gets tokens, too.
func TOMLTokens(text string) []TOMLToken {
	all, line := make([]TOMLToken, 0, len(text)/4), 1
	for i := 0; i < len(text); {
		t := TOMLToken{text[i:tokenEnd(text, i)], line}
		all = append(all, t)
		i, line = i+len(t.Text), line+strings.Count(t.Text, "\n")
	}
	return all
}

// tokenEnd returns the index after the token that begins at start.
func tokenEnd(text string, start int) int {
	rest := text[start:]
	n := len(rest) - len(strings.TrimLeft(rest, " \t\r"))
	switch c := rest[0]; {
	case n > 0:
	case c == '"' || c == '\'':
		return stringEnd(text, start)
	case c == '#':
		n = strings.IndexByte(rest, '\n')
	case strings.IndexByte("\n[]{}=,.", c) >= 0:
		n = 1
	case strings.HasPrefix(rest, "\ufeff"):
		n = len("\ufeff")
	default:
		n = strings.IndexAny(rest, "[]{}=,.# \t\r\n\"'")
	}
	if n < 0 {
		return len(text)
	}
	return start + n
}

// stringEnd returns the index after the string that begins at start: a multi-line one, with up to two more
// quotation marks at its end, or a single-line one.
func stringEnd(text string, start int) int {
	quote := text[start : start+1]
	long := strings.HasPrefix(text[start:], strings.Repeat(quote, 3))
	mark := quote
	if long {
		mark = strings.Repeat(quote, 3)
	}
	for i := start + len(mark); i < len(text); i++ {
		switch {
		case quote == `"` && text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], mark):
			for i += len(mark); long && i < len(text) && text[i] == quote[0]; i++ { // quotes that belong to the string
			}
			return i
		case text[i] == '\n' && !long:
			return i
		}
	}
	return len(text)
}
