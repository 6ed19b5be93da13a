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

// TestDocs reads the examples of docs/reference/traces.md, compares them with the result that follows each, and looks for every format,
// column, built-in trace and limit in the text.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	examples := regexp.MustCompile("(?s)```(?:csv|jsonl|json)(?: --columns ([^\n]*))?\n(.*?)```\n\n```text\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	read := map[string]bool{"parquet": true} // formats with an example, or without text
	for _, e := range examples {
		var options Options
		if e[1] != "" {
			if options.Columns, err = ParseColumns(e[1]); err != nil {
				t.Error(err)
			}
		}
		trace, err := options.Read("docs/reference/traces.md", strings.NewReader(e[2]))
		if err != nil {
			t.Errorf("%v in\n%s", err, e[2])
			continue
		}
		want := strings.Split(strings.TrimSpace(e[3]), "\n")
		for i, r := range trace.Requests {
			var expected Request
			seconds := 0.0
			if _, err := fmt.Sscan(want[min(i, len(want)-1)], &seconds, &expected.Input, &expected.Output); err != nil {
				t.Fatalf("%v in %q", err, e[3])
			}
			expected.Arrival = units.Duration(math.Round(seconds * float64(units.Second)))
			if r.Arrival != expected.Arrival || r.Input != expected.Input || r.Output != expected.Output || len(want) != len(trace.Requests) {
				t.Errorf("got %+v, want %+v of\n%s", r, expected, e[2])
			}
		}
		read[trace.Format] = true
	}
	if n := strings.Count(text, "```csv") + strings.Count(text, "```json"); n != len(examples) {
		t.Errorf("%d examples, of which %d say what is read", n, len(examples))
	}
	names := FormatNames()
	for _, f := range slices.Concat(csvTables, jsonTables, guideTables, []table{vllmTable, wekaTable, spanTable}) {
		names = append(names, f.format)
	}
	for _, name := range names {
		if !read[name] || !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("no example or no row of %s", name)
		}
	}
	for _, f := range slices.Concat(csvTables, jsonTables, guideTables, []table{vllmTable, wekaTable, spanTable}) {
		for _, column := range append(f.columns(), hashField) {
			if !strings.Contains(text, "| `"+column+"` |") && !strings.Contains(text, "`"+column+"`, ") && !strings.Contains(text, ", `"+column+"` |") {
				t.Errorf("no row for the column %s", column)
			}
		}
	}
	for _, name := range slices.Concat(BuiltinNames(), []string{callsField, durationField, sessionField}) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("no %s", name)
		}
	}
	for _, limit := range []string{
		"1 to " + thousands(maxTokens) + " each", thousands(maxWhole) + "; of a larger one", "at most " + thousands(MaxRequests),
		fmt.Sprintf("| %d MiB |", input.MaxLine>>20), fmt.Sprintf("| %d days |", maxSeconds/86400),
		fmt.Sprintf("| %d MiB |", maxParquet>>20), fmt.Sprintf("| %d MiB |", zstdWindow>>20),
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
