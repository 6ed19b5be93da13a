package traces

import (
	"slices"
	"strings"
	"testing"
)

// TestKnownNames: the error for a file without known columns lists the names of each format, with optional ones in brackets, and says how
// to name others.
func TestKnownNames(t *testing.T) {
	want := []string{
		"azure: ContextTokens, GeneratedTokens, TIMESTAMP", "vidur: num_prefill_tokens, num_decode_tokens, [arrived_at]", "burstgpt: Request tokens, Response tokens, Timestamp",
		"l3sim: input_tokens, output_tokens, [arrival_" + strings.Join(unitNames, ", arrival_") + "]",
		"any other: --columns input=NAME,output=NAME,arrival=NAME,unit=s|ms|us|ns; see docs/reference/traces.md",
	}
	if got := knownNames(csvTables); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for names, format := range map[string]string{"num_prefill_tokens": "vidur", "output_tokens": "l3sim", "GeneratedTokens,x": "azure", "Response tokens": "burstgpt", "x,y": "", "": ""} {
		got := ""
		if table := choose(csvTables, strings.Split(names, ",")); table != nil {
			got = table.format
		}
		if got != format {
			t.Errorf("%s are of %q, want %q", names, got, format)
		}
	}
	for _, unit := range unitNames {
		if table := choose(csvTables, []string{"input_tokens", "output_tokens", "arrival_" + unit}); table == nil || table.arrival != "arrival_"+unit || table.name != clocks[unit].name || !table.required || !table.exact {
			t.Errorf("arrivals in %s: %+v", unit, table)
		}
	}
	if table := choose(csvTables, []string{"input_tokens", "output_tokens"}); table == nil || table.arrival != "" || table.required || table.exact {
		t.Errorf("no arrivals: %+v", table)
	}
}
