package input

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// ruled breaks a rule about two keys.
type ruled struct{ low, high int }

func (r *ruled) Check(c *Check) {
	c.That(r.low <= r.high, "low", r.low, "at most %s = %d, or %s", Key("high"), r.high, Key("none"))
}

// TestRulesOfTwoKeys: an error names the wrong key, then the keys that it is compared with, in the order of the message. Nil is an
// error.
func TestRulesOfTwoKeys(t *testing.T) {
	var bad *Error
	if err := Validate(&ruled{3, 2}); !errors.As(err, &bad) || bad.Key != "low" || bad.Value != "3" || bad.Expected != "at most high = 2, or none" || !slices.Equal(bad.OtherKeys, []string{"high", "none"}) {
		t.Errorf("got %+v", bad)
	}
	for _, low := range []int{1, 2} {
		if err := Validate(&ruled{low, 2}); err != nil {
			t.Errorf("low = %d: %v", low, err)
		}
	}
	if err := Validate((*ruled)(nil)); err == nil || err.Error() != "*input.ruled = nil: expected a value" {
		t.Errorf("a nil pointer: %v", err)
	}
	if err := Validate(nil); err == nil || !strings.HasSuffix(err.Error(), "= nil: expected a value") {
		t.Errorf("nothing: %v", err)
	}
}

// TestBegunBy: of names with the same beginning the shortest counts, of equally long ones the first in the alphabet; marks alone match
// nothing.
func TestBegunBy(t *testing.T) {
	for _, c := range []struct {
		name  string
		valid []string
		want  string
	}{
		{"rtx", []string{"rtx-bb", "rtx-b", "rtx-a"}, "rtx-a"}, {"rtx4090", []string{"rtx-4090-vllm", "rtx-4090-long"}, "rtx-4090-long"}, {"RTX", []string{"rtx"}, "rtx"}, {"rtx", []string{"rtxa"}, ""},
		{"---", []string{"-a", "b"}, ""}, {"rt", []string{"rt-x"}, ""}, {"rtx-40", []string{"rtx"}, ""},
	} {
		if got := begunBy(c.name, c.valid); got != c.want {
			t.Errorf("%q of %v begins %q, want %q", c.name, c.valid, got, c.want)
		}
	}
}

// TestDeepLine: closed brackets do not nest what follows, unmatched closing ones do not count, and dots count within a key.
func TestDeepLine(t *testing.T) {
	open, dots := strings.Repeat("[", maxNesting), strings.Repeat("a.", maxNesting)
	for text, want := range map[string]int{
		open: 0, open + "[": 1, "\n" + open + "]\n[": 0, "\n" + open + "]\n[[": 3, "]]]\n" + open: 0, "]]]\n" + open + "[": 2, "[[]" + open: 1, "[]" + open: 0,
		dots + "a": 0, dots + "a.b": 1, dots + "a=" + dots + "a": 0, dots + "a," + dots + "a\n" + dots + "a": 0, "\n\n" + dots + "{." + dots + "a": 3, dots + "{" + dots + "a": 0,
	} {
		if got := deepLine(text); got != want {
			t.Errorf("%d bytes, %.12q: line %d, want %d", len(text), text, got, want)
		}
	}
}

// TestFiniteInPieces: Python's NaN and Infinity become null however the bytes are split; strings do not change, and other words are not
// JSON.
func TestFiniteInPieces(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":NaN,"b":-Infinity,"c":Infinity,"d":-1}`: `{"a":null,"b":null,"c":null,"d":-1}`, `["NaN","a\"Infinity",NaN]`: `["NaN","a\"Infinity",null]`, "-": "-", "--1": "--1", "Na": "null?", "Infinite": "null?e",
		"\"open\nNaN": "\"open\nnull", `"\\",NaN`: `"\\",null`,
	} {
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(text), "by byte": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text))} {
			got, err := io.ReadAll(iotest.OneByteReader(&finite{r: from}))
			if err != nil || string(got) != want {
				t.Errorf("%s, %s: %s, %v, want %s", text, name, got, err, want)
			}
		}
	}
}
