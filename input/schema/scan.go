package schema

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
)

// Place is the line of a key in a TOML text, and the comment there.
type Place struct {
	Line int // from 1
	// Comment is the comment after the value, or else the comment lines above it in the same paragraph, without #.
	Comment string
}

// Scan returns where each key and table of a TOML document first appears, by full key in the form of toml.Key.String. The i-th
// table of an array, from 0, and its keys are also listed as "array[i]". Scan exists because the decoder keeps no positions. The
// decoder must have accepted the document: Scan checks nothing, and knows only enough grammar to skip values and comments.
func Scan(document string) map[string]Place {
	// The decoder skips a byte-order mark of UTF-16, which some editors write.
	document = strings.TrimPrefix(strings.TrimPrefix(document, "\xff\xfe"), "\xfe\xff")
	s := &scanner{tokens: input.TOMLTokens(document), places: map[string]Place{}, elements: map[string]int{}}
	var table name
	for s.skipBlank(); !s.ended(); s.skipBlank() {
		if s.at() != "[" {
			s.keyValue(table)
			continue
		}
		s.pos++
		array := s.at() == "["
		if array {
			s.pos++
		}
		table = s.key(name{}, array)
		s.skipTo("\n")
		s.above = ""
	}
	return s.places
}

// scanner walks over the tokens of a TOML text and remembers section and comments.
type scanner struct {
	tokens []input.TOMLToken
	pos    int
	above  string // comment lines of this paragraph
	places map[string]Place
	// elements counts the tables so far of each array, by indexed name.
	elements map[string]int
}

func (s *scanner) ended() bool { return s.pos >= len(s.tokens) }

// at returns the text of the next token, "" at the end.
func (s *scanner) at() string {
	if s.ended() {
		return ""
	}
	return s.tokens[s.pos].Text
}

// skipBlank moves past white space, line ends and comments. It remembers the comments until an empty line.
func (s *scanner) skipBlank() {
	for lines := 0; !s.ended(); s.pos++ {
		switch text := s.at(); {
		case text == "\n":
			if lines++; lines > 1 {
				s.above = ""
			}
		case text[0] == '#':
			lines, s.above = 0, strings.TrimSpace(s.above+" "+comment(text))
		case !isSpace(text):
			return
		}
	}
}

// skipSpace moves past white space on the line.
func (s *scanner) skipSpace() {
	if isSpace(s.at()) {
		s.pos++
	}
}

// isSpace reports whether a token is white space, which includes a byte-order mark.
func isSpace(token string) bool { return token != "" && strings.Trim(token, " \t\r\ufeff") == "" }

func comment(token string) string { return strings.TrimSpace(strings.TrimLeft(token, "# ")) }

// skipTo moves to the first token that begins with one of some bytes, or to the end.
func (s *scanner) skipTo(set string) {
	for !s.ended() && !strings.Contains(set, s.at()[:1]) {
		s.pos++
	}
}

// name is a full key, without and with the table's number after each array in it.
type name struct{ plain, indexed string }

// key reads a dotted key, records it and its dotted parents under prefix, and returns the full key. array reports that the key
// begins a table of an array.
func (s *scanner) key(full name, array bool) name {
	for {
		s.skipSpace()
		if s.ended() {
			return full
		}
		line, part := s.tokens[s.pos].Line, toml.Key{keyPart(s.at())}.String()
		full = name{strings.TrimPrefix(full.plain+"."+part, "."), strings.TrimPrefix(full.indexed+"."+part, ".")}
		s.pos++
		s.skipSpace()
		more := s.at() == "."
		if array && !more {
			s.elements[full.indexed]++
		}
		full = s.inElement(full)
		s.record(full, line)
		if !more {
			return full
		}
		s.pos++
	}
}

// inElement adds the number of the current table to the name of an array; other names are unchanged.
func (s *scanner) inElement(of name) name {
	if n := s.elements[of.indexed]; n > 0 {
		of.indexed += fmt.Sprintf("[%d]", n-1)
	}
	return of
}

// record notes where a key first appears, under both its names.
func (s *scanner) record(key name, line int) {
	for _, name := range []string{key.plain, key.indexed} {
		if s.places[name].Line == 0 {
			s.places[name] = Place{Line: line}
		}
	}
}

// keyPart returns the text of one part of a dotted key. The decoder reads quoted parts, since it knows the escapes.
func keyPart(token string) string {
	var part struct{ V string }
	if token[0] != '"' && token[0] != '\'' {
		return token
	}
	if _, err := toml.Decode("V = "+token, &part); err != nil {
		return token
	}
	return part.V
}

// keyValue moves past "key = value" and records the key with its comment.
func (s *scanner) keyValue(prefix name) {
	full := s.key(prefix, false)
	if s.at() == "=" {
		s.pos++
	}
	s.skipSpace()
	s.value(full)
	said := s.above
	if s.skipSpace(); strings.HasPrefix(s.at(), "#") {
		said = comment(s.at())
		s.pos++
	}
	for _, name := range []string{full.plain, full.indexed} {
		if p := s.places[name]; p.Comment == "" {
			p.Comment = said
			s.places[name] = p
		}
	}
}

// value moves past a value and records the keys of inline tables in it.
func (s *scanner) value(key name) {
	switch text := s.at(); {
	case text == "[":
		s.list("]", func() {
			element := key
			if s.at() == "{" {
				s.elements[key.indexed]++
				element = s.inElement(key)
				s.record(element, s.tokens[s.pos].Line)
			}
			s.value(element)
		})
	case text == "{":
		s.list("}", func() { s.keyValue(key) })
	case text != "" && strings.Contains(`"'`, text[:1]):
		s.pos++
	default:
		s.skipTo(",]}#\n")
	}
}

// list moves past a bracketed, comma-separated list and calls element at the start of each.
func (s *scanner) list(end string, element func()) {
	s.pos++
	for s.skipBlank(); !s.ended(); s.skipBlank() {
		start := s.pos
		switch s.at() {
		case end:
			s.pos++
			return
		case ",":
		default:
			element()
		}
		if s.pos == start {
			s.pos++
		}
	}
}
