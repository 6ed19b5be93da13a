package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable passes text on without the characters by which names of a user's, or of a file's, could command a terminal: control
// characters but tab and line feed, and those that turn the direction of text. They are written as JSON escapes them.
type printable struct{ w io.Writer }

// Write returns how much of p was written: where it has to be escaped all of it or nothing.
func (s printable) Write(p []byte) (int, error) {
	if !bytes.ContainsFunc(p, commands) {
		return s.w.Write(p)
	}
	if _, err := io.WriteString(s.w, escaped(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// commands says that a character is none to print.
func commands(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' || unicode.Is(unicode.Bidi_Control, r)
}

// escaped returns a text as printable writes it. Bytes that are no UTF-8 stay: a character may lie in two writes.
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
