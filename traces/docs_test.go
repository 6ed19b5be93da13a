package traces

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestDocs reads the examples of docs/traces.md, each followed by what is read from
// it, and looks for every format, column, built-in trace and limit in its text.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	examples := regexp.MustCompile("(?s)```(csv|jsonl)\n(.*?)```\n\n```text\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	var read []*csvFormat // that an example has
	mooncake := false
	for _, e := range examples {
		trace, err := Read("docs/traces.md", strings.NewReader(e[2]), 0)
		if err != nil {
			t.Errorf("%v in\n%s", err, e[2])
			continue
		}
		var want []Request
		for line := range strings.Lines(e[3]) {
			r, seconds := Request{ID: len(want)}, 0.0
			if _, err := fmt.Sscan(line, &seconds, &r.Input, &r.Output); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			r.Arrival = units.Duration(math.Round(seconds * float64(units.Second)))
			want = append(want, r)
		}
		if !slices.Equal(trace.Requests, want) {
			t.Errorf("got %+v, want %+v of\n%s", trace.Requests, want, e[2])
		}
		mooncake = mooncake || e[1] == "jsonl"
		for i := range csvFormats {
			if header, _, _ := strings.Cut(e[2], "\n"); strings.Contains(header, csvFormats[i].input) {
				read = append(read, &csvFormats[i])
			}
		}
	}
	if n := strings.Count(text, "```csv") + strings.Count(text, "```jsonl"); n != len(examples) {
		t.Errorf("%d examples, of which %d say what is read", n, len(examples))
	}
	for i := range csvFormats {
		f := &csvFormats[i]
		if !slices.Contains(read, f) {
			t.Errorf("no example with %s", f.input)
		}
		for _, column := range []string{f.input, f.output, f.arrival} {
			if !strings.Contains(text, "| `"+column+"` |") {
				t.Errorf("no row for the column %s", column)
			}
		}
	}
	if !mooncake {
		t.Error("no example of JSON lines")
	}
	for _, name := range BuiltinNames() {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("no %s", name)
		}
	}
	for _, limit := range []string{
		"1 to " + thousands(maxTokens) + " each", thousands(maxWhole) + "; of a larger one", "at most " + thousands(maxRequests),
		fmt.Sprintf("| %d MiB |", input.MaxLine>>20), fmt.Sprintf("| %.0f days |", math.Floor(maxSeconds/86400)),
	} {
		if !strings.Contains(text, limit) {
			t.Errorf("the limits lack %q", limit)
		}
	}
}

// thousands writes n with commas.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
