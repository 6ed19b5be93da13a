package policies

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// sortedNames returns the policies as error messages list them.
func sortedNames() string { return strings.Join(slices.Sorted(slices.Values(Builtin().Names())), ", ") }

// TestSpecErrors: errors name the mistake and what is accepted.
func TestSpecErrors(t *testing.T) {
	for _, c := range []struct{ name, sets, want string }{
		{"quest", "quest.budget=64", ""},
		{"quest", "quest.budget=15", "quest.budget = 15: expected at least page = 16: a page is attended to whole"},
		{"quest", "lserve.budget=63", "lserve.budget = 63: expected at least page = 64"},
		{"lserve", "lserve.logical_page=24", "lserve.logical_page = 24: expected a divisor of page = 64"},
		{"StreamingLLM", "", `name = "StreamingLLM": expected one of ` + sortedNames() + `; did you mean "streaming"?`},
		{"qest", "", `name = "qest": expected one of ` + sortedNames() + `; did you mean "quest"?`},
		{"streaming", "streaming.sink=0", ""},
		{"streaming", "streaming.window=0", "streaming.window = 0: expected 1 to 16777216: a token attends to itself"},
		{"window", "window.window=0", ""},
		{"window", "window.window=-1", "window.window = -1: expected 0 to 16777216"},
		{"window", "window.sink=-1", "window.sink = -1: expected 0 to 16777216"},
		{"window", "window.block=0", "window.block = 0: expected 1 to 16777216"},
		{"hgca", "hgca.window=100", "hgca.block = 128: expected at most window = 100"},
		{"h2o", "h2o.heavy=0.5 h2o.recent=0.6", "h2o.recent = 0.6: expected at most 1 together with heavy = 0.5"},
		{"h2o", "h2o.heavy=1.5", "h2o.heavy = 1.5: expected 0 to 1"},
		{"quest", "quest.summary_device=rank", "quest.summary_device = \"rank\": expected \"gpu\" with select_device"},
		{"dense", "profile=p.toml", `profile = "p.toml": expected to be left out with policy.name = "dense"`},
		{"quest", "gates=g.tsv", `gates = "g.tsv": expected to be left out with policy.name = "quest": some heads stream with lserve and duo`},
		{"lserve", "lserve.newest=keep", `lserve.newest = "keep": expected one of append, replace`},
		{"lserve", "lserve.reuse=-1", "lserve.reuse = -1: expected 1 to 65536"},
		{"csattention", "csattention.table_share=1.01", "csattention.table_share = 1.01: expected 0 to 1"},
	} {
		s := New(c.name)
		for _, set := range strings.Fields(c.sets) {
			key, text, _ := strings.Cut(set, "=")
			if err := specSchema(Builtin()).Set(&s, key, text); err != nil {
				t.Fatal(err)
			}
		}
		err := input.Validate(&s)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s:\ngot  %v\nwant %s", c.name, c.sets, err, c.want)
		}
	}
}
