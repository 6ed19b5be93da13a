package schema

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Place is the line of a key in a TOML text, and the comment there.
type Place struct {
	Line int // from 1
	// Comment is that behind the value, or else the lines above it in the same
	// paragraph, without #.
	Comment string
}

// Scan returns where each key and table of a TOML document first appears, by full key
// in the form of toml.Key.String. The i-th table of an array, from 0, and its keys are
// there by "array[i]", too. The decoder keeps no positions. The document must be one
// that the decoder has accepted: the scan checks nothing and only knows enough of the
// grammar not to take the inside of a value or comment for a key.
func Scan(document string) map[string]Place {
	// The decoder skips a byte-order mark of UTF-16, which some editors write.
	document = strings.TrimPrefix(strings.TrimPrefix(document, "\xff\xfe"), "\xfe\xff")
	s := &scanner{text: document, line: 1, places: map[string]Place{}, elements: map[string]int{}}
	var table toml.Key
	for {
		s.skipBlank()
		switch {
		case s.pos >= len(s.text):
			return s.places
		case s.text[s.pos] == '[':
			array := strings.HasPrefix(s.text[s.pos:], "[[")
			s.skip("[")
			table = s.key(nil, array)
			s.skip("]")
			s.advanceTo("\n")
			s.above = ""
		default:
			s.keyValue(table)
		}
	}
}

// scanner walks a TOML text and knows its line, section and comments. It does not check the syntax.
type scanner struct {
	text   string
	pos    int
	line   int
	above  string // comment lines of this paragraph
	places map[string]Place
	// elements are the numbers of the tables so far of arrays.
	elements map[string]int
}

// advance moves n bytes on, counting lines.
func (s *scanner) advance(n int) {
	end := min(s.pos+n, len(s.text))
	s.line += strings.Count(s.text[s.pos:end], "\n")
	s.pos = end
}

// skip moves over any run of the bytes in set.
func (s *scanner) skip(set string) {
	rest := s.text[s.pos:]
	s.advance(len(rest) - len(strings.TrimLeft(rest, set)))
}

// skipBlank moves over white space, line ends and comments. A byte-order mark
// counts as white space.
func (s *scanner) skipBlank() {
	for {
		before := s.line
		s.skip(" \t\r\n\ufeff")
		if s.line > before+1 {
			s.above = "" // an empty line
		}
		if s.pos >= len(s.text) || s.text[s.pos] != '#' {
			return
		}
		s.above = strings.TrimSpace(s.above + " " + s.comment())
	}
}

// comment moves over a comment and returns it.
func (s *scanner) comment() string {
	start := s.pos
	s.advanceTo("\n")
	return strings.TrimSpace(strings.TrimLeft(s.text[start:s.pos], "# "))
}

// advanceTo moves to the first byte of set, or to the end.
func (s *scanner) advanceTo(set string) {
	if i := strings.IndexAny(s.text[s.pos:], set); i >= 0 {
		s.advance(i)
		return
	}
	s.advance(len(s.text))
}

// key reads a dotted key, records it and its dotted parents under prefix, and returns
// the full key. Array says that it begins a table of an array.
func (s *scanner) key(prefix toml.Key, array bool) toml.Key {
	full := append(toml.Key(nil), prefix...)
	for {
		s.skip(" \t")
		line := s.line
		full = append(full, s.keyPart())
		s.skip(" \t")
		more := s.pos < len(s.text) && s.text[s.pos] == '.'
		if array && !more {
			s.element(full)
		}
		s.record(full, line)
		if !more {
			return full
		}
		s.advance(1)
	}
}

// element begins another table of an array; arrays in it begin anew.
func (s *scanner) element(array toml.Key) {
	name := array.String()
	s.elements[name]++
	for other := range s.elements {
		if strings.HasPrefix(other, name+".") {
			delete(s.elements, other)
		}
	}
}

// record notes where a key appears first, by both its names.
func (s *scanner) record(key toml.Key, line int) {
	names := []string{key.String()}
	if indexed := s.indexed(key); indexed != names[0] {
		names = append(names, indexed)
	}
	for _, name := range names {
		if s.places[name].Line == 0 {
			s.places[name] = Place{Line: line}
		}
	}
}

// indexed returns a key with the number of the table behind each array in it.
func (s *scanner) indexed(key toml.Key) string {
	if len(s.elements) == 0 {
		return key.String()
	}
	name := ""
	for i := range key {
		name = strings.TrimPrefix(name+"."+key[i:i+1].String(), ".")
		if n := s.elements[key[:i+1].String()]; n > 0 {
			name += fmt.Sprintf("[%d]", n-1)
		}
	}
	return name
}

// keyPart reads one part of a dotted key: bare, or quoted. A quoted part is
// read by the decoder, which knows the escapes.
func (s *scanner) keyPart() string {
	start := s.pos
	if s.pos < len(s.text) && (s.text[s.pos] == '"' || s.text[s.pos] == '\'') {
		s.skipString()
		var part struct{ V string }
		if _, err := toml.Decode("V = "+s.text[start:s.pos], &part); err == nil {
			return part.V
		}
		return s.text[start:s.pos]
	}
	s.advanceTo(". \t=]\r\n")
	return s.text[start:s.pos]
}

// keyValue moves over "key = value", recording the key with its comment.
func (s *scanner) keyValue(prefix toml.Key) {
	start := s.pos
	full := s.key(prefix, false)
	s.skip(" \t=")
	s.value(full)
	if s.pos == start {
		s.advance(1) // no key here: not a document that the decoder accepts
	}
	comment := s.above
	if s.skip(" \t"); s.pos < len(s.text) && s.text[s.pos] == '#' {
		comment = s.comment()
	}
	for _, name := range []string{full.String(), s.indexed(full)} {
		if p := s.places[name]; p.Comment == "" {
			p.Comment = comment
			s.places[name] = p
		}
	}
}

// value moves over a value, recording the keys of inline tables in it.
func (s *scanner) value(key toml.Key) {
	if s.pos >= len(s.text) {
		return
	}
	switch s.text[s.pos] {
	case '"', '\'':
		s.skipString()
	case '[':
		s.list(']', func() {
			if s.text[s.pos] == '{' {
				s.element(key)
				s.record(key, s.line)
			}
			s.value(key)
		})
	case '{':
		s.list('}', func() { s.keyValue(key) })
	default:
		s.advanceTo(",]}#\n")
	}
}

// list moves over a bracketed, comma-separated list, calling element at the
// start of each.
func (s *scanner) list(end byte, element func()) {
	s.advance(1)
	for {
		s.skipBlank()
		switch {
		case s.pos >= len(s.text):
			return
		case s.text[s.pos] == end:
			s.advance(1)
			return
		case s.text[s.pos] == ',':
			s.advance(1)
		default:
			start := s.pos
			element()
			if s.pos == start {
				s.advance(1)
			}
		}
	}
}

// skipString moves over a string in any of TOML's four forms.
func (s *scanner) skipString() {
	quote := s.text[s.pos]
	delimiter := string(quote)
	if long := strings.Repeat(delimiter, 3); strings.HasPrefix(s.text[s.pos:], long) {
		delimiter = long
	}
	s.advance(len(delimiter))
	for s.pos < len(s.text) {
		switch {
		case quote == '"' && s.text[s.pos] == '\\':
			s.advance(2)
		case strings.HasPrefix(s.text[s.pos:], delimiter):
			s.advance(len(delimiter))
			if len(delimiter) == 3 {
				s.skip(string(quote)) // up to two quotes may precede the delimiter
			}
			return
		default:
			s.advance(1)
		}
	}
}
