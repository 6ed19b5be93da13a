package input

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/agext/levenshtein"
)

func TestErrorMessage(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{File: "a.toml", Line: 3, Key: "dram.tRCD", Value: "0", Expected: "at least 1"},
			"a.toml:3: dram.tRCD = 0: expected at least 1"},
		{&Error{File: "a.toml", Line: 3, Key: "dram.trcd", Expected: "a known key", Nearest: "dram.tRCD"},
			`a.toml:3: dram.trcd: expected a known key; did you mean "dram.tRCD"?`},
		{&Error{File: "x.csv", Err: fs.ErrNotExist}, "x.csv: file does not exist"},
		{&Error{Line: 3, Value: "x", Expected: "a number"}, "line 3: x: expected a number"},
		{UnknownName("--model", "gpt175b", []string{"opt-66b", "gpt-175b"}),
			`--model = "gpt175b": expected one of gpt-175b, opt-66b; did you mean "gpt-175b"?`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	var none *Error
	if none.Error() != (&Error{}).Error() || none.Unwrap() != nil {
		t.Errorf("no error says %q", none.Error())
	}
}

// TestErrorMessageIsReadable: of a user's long text, the message shows both ends, says how much is left out, and is valid text.
func TestErrorMessageIsReadable(t *testing.T) {
	huge := strings.Repeat("ä", 1_000_000) + "z"
	inner := &Error{Key: "inner", Value: huge, Expected: "less"}
	for _, e := range []Error{
		{File: "a.csv", Line: 3, Key: "k", Value: strconv.Quote(huge), Expected: "a number"},
		{File: "a.csv", Line: 3, Key: huge, Value: "v", Expected: "a number"},
		{File: huge, Line: 3, Key: "k", Value: "v", Expected: "a number"},
		{File: "a.csv", Line: 3, Key: "k", Err: fmt.Errorf("%q is none", huge), Expected: "a number"},
		{File: "a.csv", Line: 3, Key: "k", Err: fmt.Errorf("inside: %w", inner), Expected: "a number"},
		{File: "a.csv", Line: 3, Key: "k", Expected: "a number, not " + huge},
		*UnknownName("k:3", huge, []string{"a number"}).(*Error),
	} {
		message := e.Error()
		if len(message) > 6000 || !utf8.ValidString(message) || !strings.Contains(message, ":3") ||
			!strings.Contains(message, "expected") || !strings.Contains(message, "a number") || !strings.Contains(message, "äz") && e.Nearest == "" {
			t.Errorf("%d bytes: %.300s", len(message), message)
		}
	}
	limits := [4]int{200, 200, 500, 5000}
	for longer := -1; longer < len(limits); longer++ {
		n := limits
		if longer >= 0 {
			n[longer]++
		}
		e := &Error{Key: strings.Repeat("k", n[0]), Value: strings.Repeat("v", n[1]), Err: errors.New(strings.Repeat("y", n[2])), Expected: strings.Repeat("z", n[3])}
		if whole := len(e.Error()) == 200+200+500+5000+len(" = : ; expected "); whole != (longer < 0) || strings.Count(e.Error(), "... (") > 1 {
			t.Errorf("parts of %d bytes make %d", n, len(e.Error()))
		}
	}
	if e := (&Error{Err: &Error{Expected: strings.Repeat("z", 4000)}}).Error(); len(e) < 4000 {
		t.Errorf("our own cause is cut: %d bytes", len(e))
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{{"abcd", 4, "abcd"}, {"abcde", 4, "abc... (1 bytes) ...e"}, {"ääää", 4, "ä... (6 bytes) ..."}} {
		if got := Shorten(c.text, c.limit); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestUnwrap(t *testing.T) {
	if !errors.Is(Errorf("open: %w", fs.ErrNotExist), fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
}

func TestNearest(t *testing.T) {
	valid := []string{"openr1", "dolphin", "openthoughts", "longbench"}
	for name, want := range map[string]string{
		"openr2": "openr1", "Dolphin": "dolphin", "longbnech": "longbench", "zzz": "", "open-thoughts": "openthoughts",
	} {
		if got := Nearest(name, valid); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestNearestBegins: a valid name that begins with the given one, ignoring case and marks, is nearer than one with fewer letters to change.
func TestNearestBegins(t *testing.T) {
	valid := []string{"rtx-4090-vllm-0.19", "rtx-4090-vllm", "memory_shar_x", "rtx-a6000", "h200-sxm", "memory_share", "policy.page"}
	for name, want := range map[string]string{
		"rtx-4090": "rtx-4090-vllm", "RTX_4090": "rtx-4090-vllm", "rtx4090": "rtx-4090-vllm", "h200": "h200-sxm", "memory": "memory_share", "policy": "policy.page", "rtx-4090vllm": "rtx-4090-vllm", "h2": "", "---": "", "memory_shar": "memory_share",
	} {
		if got := Nearest(name, valid); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestNearestLeavesOutTheFar: names that Nearest skips, since they are too long or too short, would not be near.
func TestNearestLeavesOutTheFar(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abäAB")), 1, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		name, valid := word.Draw(t, "name"), rapid.SliceOfN(word, 1, 4).Draw(t, "valid")
		near := func(v string) int {
			d := levenshtein.Distance(strings.ToLower(name), strings.ToLower(v), nil)
			if 2*d > max(len(name), len(v)) {
				return -1
			}
			return d
		}
		got, best := Nearest(name, valid), -1
		for _, v := range valid {
			if d := near(v); d >= 0 && (best < 0 || d < best) {
				best = d
			}
		}
		if found := slices.Contains(valid, got) && near(got) == best; best >= 0 && !found || best < 0 && got != "" {
			t.Fatalf("%q among %q: got %q, the nearest is %d away", name, valid, got, best)
		}
	})
}

// TestAlike: if no name is near, a name that contains the given one, or is contained in it, is alike.
func TestAlike(t *testing.T) {
	valid := []string{"tbt_p50_ms", "tbt_max_ms", "page", "budget", "ms"}
	for name, want := range map[string]string{
		"tbt": "tbt_max_ms", "page_size": "page", "the_budget_of_it": "budget", "bugdet": "budget", "zzz": "", "pa": "page", "m": "ms", "in_ms_of": "",
	} {
		if got := Alike(name, valid); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
