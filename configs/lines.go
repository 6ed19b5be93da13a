package configs

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// keyLines returns the line, from 1, where each key and table of a TOML
// document first appears, by full key in the form of toml.Key.String. The
// decoder keeps no positions. The document must be one that the decoder has
// accepted: the scan checks nothing and only knows enough of the grammar not to
// take the inside of a value or comment for a key.
func keyLines(document string) map[string]int {
	// The decoder skips a byte-order mark of UTF-16, which some editors write.
	document = strings.TrimPrefix(strings.TrimPrefix(document, "\xff\xfe"), "\xfe\xff")
	s := &lineScanner{text: document, line: 1, lines: map[string]int{}}
	var table toml.Key
	for {
		s.skipBlank()
		switch {
		case s.pos >= len(s.text):
			return s.lines
		case s.text[s.pos] == '[':
			s.skip("[")
			table = s.key(nil)
			s.skip("]")
		default:
			s.keyValue(table)
		}
	}
}

type lineScanner struct {
	text  string
	pos   int
	line  int
	lines map[string]int
}

// advance moves n bytes on, counting lines.
func (s *lineScanner) advance(n int) {
	end := min(s.pos+n, len(s.text))
	s.line += strings.Count(s.text[s.pos:end], "\n")
	s.pos = end
}

// skip moves over any run of the bytes in set.
func (s *lineScanner) skip(set string) {
	rest := s.text[s.pos:]
	s.advance(len(rest) - len(strings.TrimLeft(rest, set)))
}

// skipBlank moves over white space, line ends and comments. A byte-order mark
// counts as white space.
func (s *lineScanner) skipBlank() {
	for {
		s.skip(" \t\r\n\ufeff")
		if s.pos >= len(s.text) || s.text[s.pos] != '#' {
			return
		}
		s.advanceTo("\n")
	}
}

// advanceTo moves to the first byte of set, or to the end.
func (s *lineScanner) advanceTo(set string) {
	if i := strings.IndexAny(s.text[s.pos:], set); i >= 0 {
		s.advance(i)
		return
	}
	s.advance(len(s.text))
}

// key reads a dotted key, records it and its dotted parents under prefix, and
// returns the full key.
func (s *lineScanner) key(prefix toml.Key) toml.Key {
	full := append(toml.Key(nil), prefix...)
	for {
		s.skip(" \t")
		line := s.line
		full = append(full, s.keyPart())
		if name := full.String(); s.lines[name] == 0 {
			s.lines[name] = line
		}
		s.skip(" \t")
		if s.pos >= len(s.text) || s.text[s.pos] != '.' {
			return full
		}
		s.advance(1)
	}
}

// keyPart reads one part of a dotted key: bare, or quoted. A quoted part is
// read by the decoder, which knows the escapes.
func (s *lineScanner) keyPart() string {
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

// keyValue moves over "key = value", recording the key.
func (s *lineScanner) keyValue(prefix toml.Key) {
	start := s.pos
	full := s.key(prefix)
	s.skip(" \t=")
	s.value(full)
	if s.pos == start {
		s.advance(1) // no key here: not a document that the decoder accepts
	}
}

// value moves over a value, recording the keys of inline tables in it.
func (s *lineScanner) value(key toml.Key) {
	if s.pos >= len(s.text) {
		return
	}
	switch s.text[s.pos] {
	case '"', '\'':
		s.skipString()
	case '[':
		s.list(']', func() { s.value(key) })
	case '{':
		s.list('}', func() { s.keyValue(key) })
	default:
		s.advanceTo(",]}#\n")
	}
}

// list moves over a bracketed, comma-separated list, calling element at the
// start of each.
func (s *lineScanner) list(end byte, element func()) {
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
func (s *lineScanner) skipString() {
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
