package schema

import (
	"maps"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestScan(t *testing.T) {
	document := `# a = 1
preset = "x" # b = 2
run.seed = 1
run . "trace" = 'it''s' # quoted part

[ dram ] # a section
tCK = """
tCL = 3 \""" tRP = 4
""""
"tRCD" = '''
x = 1'''
list = [ # not = 1
  1, "two = 2]", { in = 3 },
  [4], # five = 5
]
inline = { a = 1, b = { c = "}" }, "d e" = 2 }
when = 1979-05-27 07:32:00Z

[[array]]
k = 1
[[array]]
k = 2
[a."b.c".d]
`
	document = strings.ReplaceAll(document, "'it''s'", `'it"s'`)
	want := map[string]int{
		"dram.list[0]": 13, "dram.list[0].in": 13, "array[0]": 19, "array[0].k": 20, "array[1]": 21, "array[1].k": 22,
		"preset": 2, "run": 3, "run.seed": 3, "run.trace": 4, "dram": 6, "dram.tCK": 7, "dram.tRCD": 10, "dram.list": 12,
		"dram.list.in": 13, "dram.inline": 16, "dram.inline.a": 16, "dram.inline.b": 16, "dram.inline.b.c": 16,
		`dram.inline."d e"`: 16, "dram.when": 17, "array": 19, "array.k": 20, "a": 23, `a."b.c"`: 23, `a."b.c".d`: 23,
	}
	var decoded map[string]any
	if _, err := toml.Decode(document, &decoded); err != nil {
		t.Fatalf("the document is not TOML: %v", err)
	}
	got := map[string]int{}
	for key, place := range Scan(document) {
		got[key] = place.Line
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestComments: a key's comment follows its value, or precedes it in its paragraph.
func TestComments(t *testing.T) {
	got := Scan(`# The file.

[dram] # the section
tRP = 22   # speed bin; row switches
# Stages that differ.
# "" is the preset's.
a = "#"
b = ["x", # one
  "y"] # both

c = { d = 1 } # inline
e = 2
[[list]]
k = 1 # first
[[list]]
k = 2 # second
`)
	for key, want := range map[string]string{
		"dram.tRP": "speed bin; row switches", "dram.a": `Stages that differ. "" is the preset's.`, "dram.b": "both",
		"dram.c": "inline", "dram.e": "", "list[0].k": "first", "list[1].k": "second", "list.k": "first",
	} {
		if got[key].Comment != want {
			t.Errorf("%s: got %q, want %q", key, got[key].Comment, want)
		}
	}
}

// TestScanArrays: tables of arrays are numbered, those of an array in one anew.
func TestScanArrays(t *testing.T) {
	got := Scan("[[a]]\n[[a.b]]\nk = 1\n[[a.b]]\nk = 2\n[[a]]\n[[a.b]]\nk = 3\n[a.c]\nk = 4\n[d] # [[a]]\nlist = [{x = 1}, {x = 2},\n  {x = 3}]\n[e]")
	for key, want := range map[string]int{
		"a": 1, "a[0]": 1, "a[0].b[0].k": 3, "a[0].b[1]": 4, "a[0].b[1].k": 5, "a[1]": 6, "a[1].b[0].k": 8, "a[1].b[1]": 0, "a[1].c.k": 10,
		"a.b.k": 3, "d.list[1].x": 12, "d.list[2].x": 13, "e": 14, "a[2]": 0,
	} {
		if got[key].Line != want {
			t.Errorf("%s: line %d, want %d", key, got[key].Line, want)
		}
	}
}

// FuzzScan: in every document that the decoder accepts, each key that it
// reports has a line, and a bare key stands on it.
func FuzzScan(f *testing.F) {
	f.Add("a = 1\n[b]\nc.d = {e = '''\n''', f = [{g = 1}]}\n")
	f.Add("a = \"\"\"\\\"\"\"\"\nb = 2\r\n'c' = 1e3\n\"\\u00e9\".x = 1")
	f.Add("\xff\xfea = 1")
	f.Add("\xef\xbb\xbfa = 1")
	f.Add("[[x]]\n[x.y]\nz = [\n1,\n[{a=1},{a=2}]]\n[[x]]\n")
	f.Fuzz(func(t *testing.T, document string) {
		var decoded map[string]any
		meta, err := toml.Decode(document, &decoded)
		lines := Scan(document) // must end, whatever the text
		if err != nil {
			return
		}
		text := strings.Split(document, "\n")
		for _, key := range meta.Keys() {
			line := lines[key.String()].Line
			if line < 1 || line > len(text) {
				t.Errorf("%s: line %d in %q", key, line, document)
				continue
			}
			last := key[len(key)-1]
			if bare := strings.Trim(toml.Key{last}.String(), `"`) == last; bare && !strings.Contains(text[line-1], "\\") &&
				!strings.Contains(text[line-1], last) {
				t.Errorf("%s is not on line %d of %q", key, line, document)
			}
		}
	})
}
