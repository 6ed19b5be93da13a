package policy

import (
	"slices"
	"testing"
)

// TestDescriptions: every policy is described once, in order, with its own keys, each of which
// has a source.
func TestDescriptions(t *testing.T) {
	var names []string
	for _, d := range Descriptions() {
		names = append(names, d.Name)
		if d.Attends == "" || d.Stores == "" || d.Moves == "" || d.Source == "" {
			t.Errorf("%+v", d)
		}
		var keys []string
		for _, k := range d.Keys {
			keys = append(keys, k.Name)
			if k.Source == "" {
				t.Errorf("%s: no source of %s", d.Name, k.Name)
			}
		}
		if want := keysOf(d.Name)[1:]; !slices.Equal(keys, want) {
			t.Errorf("%s: keys %v, want %v", d.Name, keys, want)
		}
	}
	if !slices.Equal(names, Names()) {
		t.Errorf("%v, want %v", names, Names())
	}
	for _, absent := range Absent() {
		if slices.Contains(names, absent[0]) || absent[1] == "" {
			t.Errorf("%v", absent)
		}
	}
}
