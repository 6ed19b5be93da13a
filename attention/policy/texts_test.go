package policy

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// TestGateLines: each number of a line is read; text that is no number gives an error with its
// line.
func TestGateLines(t *testing.T) {
	for text, want := range map[string]string{
		"0.5 1 0\n": "", "0.5 1 x": `g:1: x: expected a gate, a number from 0 to 1`, "x 1 0": `g:1: x: expected a gate, a number from 0 to 1`, "0 1\n\n0 1.1": `g:3: 1.1: expected a gate, a number from 0 to 1`,
		"[-0.1, 1]": `g:1: -0.1: expected a gate, a number from 0 to 1`, "NaN": `g:1: NaN: expected a gate, a number from 0 to 1`,
	} {
		g, err := parseGates("g", text)
		if (err == nil) != (want == "") || err != nil && strings.Replace(err.Error(), "value ", "", 1) != want {
			t.Errorf("%q: %v, %v, want %s", text, g, err, want)
		}
	}
	g, err := parseGates("g", "[0.5, 1,\t0]\n\n0.25 0.75 0.125\n")
	if err != nil || len(g.layers) != 2 || g.layers[0][2] != 0 || g.layers[1][2] != 0.125 || g.layers[1][0] != 0.25 || g.lines[1] != 3 {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestFilesByKey: an error about a file names the key that names the file, with the file as its
// value.
func TestFilesByKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := readFile("policy.gates", path, "a line of numbers for each layer", parseGates)
	if err == nil || !strings.HasPrefix(err.Error(), "policy.gates = "+strconv.Quote(path)+": ") {
		t.Errorf("no file: %v", err)
	}
	if !strings.HasSuffix(err.Error(), "; expected a line of numbers for each layer") {
		t.Errorf("no file: %v", err)
	}
	// If the file can be read, the error also says what was expected.
	path = filepath.Join(t.TempDir(), "gates")
	if err := os.WriteFile(path, []byte("0.5 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile("policy.gates", path, "a line of numbers for each layer", parseGates); err == nil || !strings.HasSuffix(err.Error(), ":1: 2: expected a gate, a number from 0 to 1") {
		t.Errorf("a wrong gate: %v", err)
	}
	if f, err := readFile("policy.gates", "", "", parseGates); f != nil || err != nil {
		t.Errorf("no key: %v, %v", f, err)
	}
	if err := unread("policy.profile", "p"); err.Error() != `policy.profile = "p": expected a file that was read: Spec.ReadFiles, or a loaded configuration` {
		t.Error(err)
	}
}

// TestOwnIsTheFirst: of the policies that use a model's indexer the first counts, whatever its place in the
// list.
func TestOwnIsTheFirst(t *testing.T) {
	for _, c := range []struct {
		indexed []bool
		want    string
	}{{[]bool{false, false}, ""}, {[]bool{true, false}, "a"}, {[]bool{false, true}, "b"}, {[]bool{true, true}, "a"}} {
		l := &List{policies: []Policy{{Name: "a", Indexed: c.indexed[0]}, {Name: "b", Indexed: c.indexed[1]}}}
		if got := l.Own(); got != c.want {
			t.Errorf("%v: %q", c.indexed, got)
		}
	}
}

// TestAllTokens: either tokens for each head times heads, or a number for each head.
func TestAllTokens(t *testing.T) {
	for _, c := range []struct {
		class Class
		want  int64
	}{{Class{Tokens: []int{5, 7}, Heads: 3}, 36}, {Class{PerHead: []int{5, 7, 1}, Heads: 3}, 13}, {Class{Tokens: []int{100, 100}, PerHead: []int{5, 7, 1}, Heads: 3}, 13}, {Class{Heads: 3}, 0}} {
		if got := c.class.All(); got != c.want {
			t.Errorf("%+v: %d tokens, want %d", c.class, got, c.want)
		}
	}
}

// TestPromptsByHand: two KV heads attend for each of ten tokens, in pieces or among tokens that an indexer chooses.
func TestPromptsByHand(t *testing.T) {
	const few = " tokens of heads, expected at least 10 of each of 2 KV heads"
	for _, c := range []struct {
		p    Prompt
		want string
	}{
		{Prompt{Chosen: llm.Chosen{Tokens: 10}}, ""}, {Prompt{Chosen: llm.Chosen{Tokens: 9}}, "pieces have 18" + few}, {Prompt{}, "pieces have 0" + few},
		{Prompt{Pieces: []Piece{{Heads: 2, Count: 5, Tokens: 2}}}, ""}, {Prompt{Pieces: []Piece{{Heads: 1, Count: 5, Tokens: 2}, {Heads: 1, Count: 3, Tokens: 3}}}, "pieces have 19" + few},
		{Prompt{Pieces: []Piece{{Heads: 2, Count: 1, Tokens: 1}}, Chosen: llm.Chosen{Tokens: 9}}, ""},
		{Prompt{Pieces: []Piece{{Heads: 2, Count: 5, Tokens: 2, Behind: 17}}}, ""},
	} {
		got := ""
		if err := verifyPrompt(&c.p, 10, 7, 2); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.p, got, c.want)
		}
	}
	for _, x := range []Piece{{Heads: -1}, {Count: -1}, {Tokens: -1}, {Behind: -1}, {Behind: 18}} {
		if err := verifyPrompt(&Prompt{Pieces: []Piece{x}, Chosen: llm.Chosen{Tokens: 10}}, 10, 7, 2); err == nil || !strings.HasPrefix(err.Error(), "piece 0 is {") {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// TestKeysOfPages: both ends of each range of keys that choose pages, and their neighbours; for names, each valid one and an invalid one.
func TestKeysOfPages(t *testing.T) {
	good := PagesSpec{Budget: 1 << 16, Page: 16, SelectDevice: "rank", SelectGroup: "sum", SelectPrecision: "fp32", SummaryDevice: "gpu", Layout: "row"}
	for _, c := range []struct {
		key     string
		set     func(s *PagesSpec, v string)
		in, out string
	}{
		{"budget", func(s *PagesSpec, v string) { s.Budget, s.Page = count(v), 1 }, "1 16777216", "0 16777217"}, {"page", func(s *PagesSpec, v string) { s.Page = count(v) }, "1 65536", "0 65537"},
		{"top_k_latency", func(s *PagesSpec, v string) { s.TopKLatency = count(v) }, "0 4096", "-1 4097"},
		{"select_device", func(s *PagesSpec, v string) { s.SelectDevice = v }, "gpu bank rank", "host"}, {"select_group", func(s *PagesSpec, v string) { s.SelectGroup = v }, "sum softmax-sum max per-head", "mean"},
		{"select_precision", func(s *PagesSpec, v string) { s.SelectPrecision = v }, "fp32 fp16", "fp8"}, {"summary_device", func(s *PagesSpec, v string) { s.SummaryDevice = v }, "gpu rank", "bank"},
		{"layout", func(s *PagesSpec, v string) { s.Layout = v }, "row quad", "column"},
		{"budget", func(s *PagesSpec, v string) { s.Budget = count(v) }, "16", "15"}, {"summary_device", func(s *PagesSpec, v string) { s.SelectDevice, s.SummaryDevice = "gpu", v }, "gpu", "rank"},
	} {
		for i, v := range strings.Fields(c.in + " " + c.out) {
			s, bad := good, i >= len(strings.Fields(c.in))
			c.set(&s, v)
			if errs := input.Faults(s); (len(errs) > 0) != bad || bad && (len(errs) != 1 || errs[0].Key != c.key) {
				t.Errorf("%s = %s: %v", c.key, v, errs)
			}
		}
	}
}

func count(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// TestUnknownPolicy: the error about an unknown name lists the valid ones.
func TestUnknownPolicy(t *testing.T) {
	l := toys(t)
	s := l.New("none")
	_, err := NewValues(&s, Shape{Layers: 1, KVHeads: 1, QueryHeads: 1, Dim: 8, ElementBits: 16})
	if err == nil {
		t.Fatal("values of no policy")
	}
	for _, name := range l.Names() {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
