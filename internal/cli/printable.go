package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable escapes characters that could control a terminal when names of a user or a file contain them: control characters
// other than tab and line feed, and characters that change the direction of text. They become JSON escapes.
type printable struct{ w io.Writer }

// Write returns how much of p was written; if anything is escaped, all or nothing.
func (s printable) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, commands) {
		return s.w.Write(p)
	}
	if _, err := io.WriteString(s.w, escaped(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// commands says that a character must not be printed.
func commands(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' || unicode.Is(unicode.Bidi_Control, r)
}

// escaped returns a text as printable writes it. Invalid UTF-8 stays: a character may be split over two writes.
func escaped(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if commands(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}
