package input

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

func TestDecodeTOML(t *testing.T) {
	var document map[string]any
	if meta, err := DecodeTOML("a.toml", "a.b = [1, 2]\n", &document); err != nil || len(meta.Keys()) != 1 {
		t.Errorf("%v, %v", meta.Keys(), err)
	}
	_, err := DecodeTOML("a.toml", "a = 1\nb = \n", &document)
	if bad := new(Error); !errors.As(err, &bad) || bad.File != "a.toml" || bad.Line != 2 || !strings.Contains(err.Error(), "not TOML: ") {
		t.Errorf("got %v", err)
	}
}

// TestDecodeTOMLOfAnotherType: the error about a value of the wrong type has the line, the key and TOML's names of types.
func TestDecodeTOMLOfAnotherType(t *testing.T) {
	for text, want := range map[string]string{
		"\na = 'x'": "a.toml:2: a: expected a whole number, not a string", "a = 1.5": "a.toml:1: a: expected a whole number, not a decimal number",
		"s = [1]": "a.toml:1: s: expected a string, not a list", "s = true": "a.toml:1: s: expected a string, not true or false",
		"l = 3": "a.toml:1: l: expected a list, not a whole number", "[l.x]": "a.toml: l: expected a list, not a table",
		"t = 'x'": "a.toml:1: t: expected a table, not a string", "f = 'x'": "a.toml:1: f: expected a decimal number, not a string",
		"b = 0": "a.toml:1: b: expected true or false, not a whole number",
	} {
		var document struct {
			A int
			S string
			L []string
			T struct{ X int }
			F float64
			B bool
		}
		if _, err := DecodeTOML("a.toml", text, &document); !errors.As(err, new(*Error)) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestDecodeTOMLBoundsNesting: nesting beyond the limit is refused where it begins, in every syntax, and quickly at any depth.
func TestDecodeTOMLBoundsNesting(t *testing.T) {
	deep.Heavy(t)
	for _, n := range []int{maxNesting, maxNesting + 1, 100_000} {
		dotted := strings.Repeat("a.", n) + "a"
		for what, text := range map[string]string{
			"arrays":              "x = 0.5\ny = " + strings.Repeat("[", n) + strings.Repeat("]", n),
			"inline tables":       "x = '['\ny = " + strings.Repeat("{a=", n) + "1" + strings.Repeat("}", n),
			"a dotted key":        "x = [1.5, 2.5]\n" + dotted + " = 1",
			"a table's name":      "x = [1.5,\n2.5]\n[" + dotted + "]",
			"behind a comment":    "# ' \" \"\"\"\n" + dotted + " = 1",
			"behind strings":      "x = [\"\\\"\", '\\', \"\"\"\\\"\"\"\"\"\", ''''''',\n" + strings.Repeat("[", n-1) + strings.Repeat("]", n),
			"in an inline table":  "\nx = {" + dotted + " = 1}",
			"on the first line":   "y = " + strings.Repeat("[", n) + strings.Repeat("]", n),
			"behind an array":     "x = [1]\ny = " + strings.Repeat("[", n) + strings.Repeat("]", n),
			"behind a number":     "x = 1.5 # c\n" + dotted + " = 1",
			"behind a backslash":  "x = '''\\'''\ny = " + strings.Repeat("[", n) + strings.Repeat("]", n),
			"behind a quote":      "x = \"\"\"a\\\"\"\"b\"\"\"\ny = " + strings.Repeat("[", n) + strings.Repeat("]", n),
			"behind quoted parts": "\n\"b.c\".'d.e'." + strings.Repeat("a.", n-2) + "a = 1",
		} {
			var document map[string]any
			_, err := DecodeTOML("a.toml", text, &document)
			if n <= maxNesting {
				if err != nil {
					t.Errorf("%s, %d deep: %v", what, n, err)
				}
				continue
			}
			line := strings.Count(text, "\n") + 1
			if want := fmt.Sprintf("a.toml:%d: expected arrays, tables and dotted keys nested at most 32 deep", line); err == nil || err.Error() != want {
				t.Errorf("%s, %d deep: got %v, want %s", what, n, err, want)
			}
		}
	}
	// Brackets and dots that nest nothing.
	var document map[string]any
	flat := "x = '" + strings.Repeat("[", 100) + "'\ny = \"\"\"\n" + strings.Repeat("{.", 100) + "\"\"\" # " + strings.Repeat("[", 100) +
		"\nz = [" + strings.Repeat("[1.5], ", 100) + "]\n" + strings.Repeat("[[t]]\na.b = 1.5 # [\n", 100) + "end = \"\"\"\"\"\""
	if _, err := DecodeTOML("a.toml", flat, &document); err != nil {
		t.Error(err)
	}
}
