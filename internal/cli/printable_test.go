package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestPrintable: no printed text sends control sequences to a terminal; other text is unchanged.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc é 漢 \U0001F600": "a\tb\nc é 漢 \U0001F600", "\x1b[31mred": `\u001b[31mred`, "a\rb\x00\x7f": `a\u000db\u0000\u007f`,
		"\u009b31m": `\u009b31m`, "x\u202ey\u2066": `x\u202ey\u2066`, "\xff\x9b\xc3": "\xff\x9b\xc3",
	} {
		if got := escaped(text); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var b bytes.Buffer
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		for cut > 0 && !utf8.RuneStart((text + "a")[cut]) {
			cut--
		}
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := (printable{&b}).Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if strings.ContainsFunc(b.String(), commands) || !strings.ContainsFunc(text, commands) && b.String() != text {
			t.Fatalf("%q is written %q", text, b.String())
		}
	})
}
