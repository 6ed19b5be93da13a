package report

import (
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// TestTitlesByHand: a page's title is what all folders share: system and model, with the trace if there is one; else the folders.
func TestTitlesByHand(t *testing.T) {
	set := func(name, system, model, trace string) *Set {
		return &Set{Name: name, Badges: []Pair{{"system", system}, {"model", model}, {"trace", trace}}}
	}
	for _, c := range []struct {
		sets []*Set
		want string
	}{
		{[]*Set{set("a", "l3", "m", "chat")}, "l3 serving m, trace chat"}, {[]*Set{set("a", "l3", "m", "chat"), set("b", "l3", "m", "long")}, "l3 serving m"},
		{[]*Set{set("a", "l3", "m", "chat"), set("b", "l3", "n", "chat")}, "Results of a, b"}, {[]*Set{set("a", "l3", "m", "chat"), set("b", "gpu-only", "m", "chat")}, "Results of a, b"},
		{[]*Set{{Name: "a"}}, "Results of a"},
	} {
		if got := (&Report{Sets: c.sets}).title(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	for version, want := range map[string]Pair{"executable-0123456789abcdef": {"l3sim", "own build 0123456789ab"}, "0123456789abcdef": {"l3sim", "0123456789ab"}, "v1": {"l3sim", "v1"}} {
		if got := program(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
	for v, want := range map[float64]string{99.96: "100", 12.345: "12.3", 100.4: "100", -99.96: "-100", 0.0012345: "0.00123"} {
		if got := readable("x", v); got != want {
			t.Errorf("%v reads %s, want %s", v, got, want)
		}
	}
	if got := readable("x_bytes", 3<<30); got != "3GiB" {
		t.Errorf("got %s", got)
	}
}

// TestValuesOfByHand: up to five values are listed, more numbers as a range, more texts as a count.
func TestValuesOfByHand(t *testing.T) {
	table := &tables.Table{Columns: []string{"n", "s"}}
	for i := range 5 {
		table.Add(10*(i+1), string(rune('a'+i)))
	}
	if n, s := valuesOf(table, 0), valuesOf(table, 1); n != "10, 20, 30, 40, 50" || s != "a, b, c, d, e" {
		t.Errorf("five values: %s; %s", n, s)
	}
	table.Add(60, "f")
	if n, s := valuesOf(table, 0), valuesOf(table, 1); n != "10 to 60" || s != "6 values" {
		t.Errorf("six values: %s; %s", n, s)
	}
}
