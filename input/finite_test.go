package input

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestFiniteJSON: NaN and Infinity become null, strings do not change, and nothing else becomes JSON.
func TestFiniteJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity], "c": -1.5}`: `{"a": null, "b": [null, null], "c": -1.5}`,
		`"NaN \" Infinity"`: `"NaN \" Infinity"`,
		"{\"a\n":            "{\"a\n", "-": "-", "": "", "NaN": "null", "-Infinity": "null",
		"\"x\n[NaN]": "\"x\n[null]", // the next line begins anew
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(FiniteJSON(r)); err != nil || string(got) != want {
				t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
			}
		}
	}
	for _, text := range []string{"Nan", "Inf", "[Infinite]", "-NaN", "--Infinity", "NaNa", "I", `{"a": N}`, `{"a": Infinit}`, "1-Infinity"} {
		if got, err := io.ReadAll(FiniteJSON(strings.NewReader(text))); err != nil || json.Valid(got) {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
}

// FuzzFiniteJSON: JSON stays as it is.
func FuzzFiniteJSON(f *testing.F) {
	f.Add(`{"a": [1, -2e3, "NaN\\"], "b": null, "c": true}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := io.ReadAll(FiniteJSON(strings.NewReader(text)))
		if err != nil || json.Valid([]byte(text)) && string(got) != text {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}
