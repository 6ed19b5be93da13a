package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// TestOwnDefaults: every row of the table is a key with a value of its type; every policy's
// defaults are legal, leave none of its keys unset, and set no other's.
func TestOwnDefaults(t *testing.T) {
	keys := schema.Of[Spec]()
	for _, o := range table {
		k := keys.Key(o.key)
		if k == nil || !reflect.TypeOf(o.value).ConvertibleTo(k.Type) || o.source == "" {
			t.Fatalf("%+v", o)
		}
		for _, name := range strings.Fields(o.policies) {
			if !slices.Contains(Names(), name) {
				t.Errorf("%s: no policy %s", o.key, name)
			}
		}
	}
	for _, k := range keys.Keys[1:] {
		if len(policiesWith(k.Name)) == 0 {
			t.Errorf("no policy has %s", k.Name)
		}
	}
	for _, name := range Names() {
		s := New(name)
		if err := input.Validate(&s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		own, unset := s.Own(), New(name)
		for _, k := range keys.Keys[1:] {
			changed, legal := !k.Get(own).Equal(k.Get(&unset)), k.Name == "gates" || k.Name == "profile" || k.Name == "keep_all" || k.Name == "host_overhead"
			if changed != (hasKey(name, k.Name) && !legal) {
				t.Errorf("%s: %s is %v", name, k.Name, k.Get(own))
			}
		}
		if again := own.Own(); *again != *own {
			t.Errorf("%s: %+v is not %+v", name, again, own)
		}
	}
}

// sortedNames returns the policies as error messages list them.
func sortedNames() string { return strings.Join(slices.Sorted(slices.Values(Names())), ", ") }

// TestSpecErrors: mistakes are named with what would do.
func TestSpecErrors(t *testing.T) {
	for _, c := range []struct{ name, sets, want string }{
		{"quest", "budget=64", ""},
		{"quest", "budget=15", "budget = 15: expected at least policy.page = 16: a page is attended to whole"},
		{"lserve", "budget=63", "budget = 63: expected at least policy.page = 64"},
		{"lserve", "logical_page=24", "logical_page = 24: expected a divisor of policy.page = 64"},
		{"qest", "", `name = "qest": expected one of ` + sortedNames() + `; did you mean "quest"?`},
		{"streaming", "sink=0", ""},
		{"streaming", "window=0", "window = 0: expected at least 1: a token attends to itself"},
		{"window", "window=0", ""},
		{"hgca", "window=100", "block = 128: expected at most policy.window = 100"},
		{"h2o", "heavy=0.5 recent=0.6", "recent = 0.6: expected at most 1 together with policy.heavy = 0.5"},
		{"h2o", "heavy=1.5", "heavy = 1.5: expected 0 to 1, or -1 for the policy's own"},
		{"quest", "reuse=4", `reuse = 4: expected to be left out with policy.name = "quest", whose keys are name, budget, page, skip_layers, select_device, top_k_latency, ` +
			`select_group, select_precision, summary_device, layout, profile; it is a key of lserve`},
		{"csattention", "select_group=max", `it is a key of quest, lserve; did you mean "select_share"?`},
		{"dense", "budget=4096", "budget = 4096: expected to be left out"},
		{"duo", "keep_all=false", "keep_all = false: expected to be left out"},
		{"dense", "host_overhead=7ms", `host_overhead = "7ms": expected to be left out`},
		{"lserve", "newest=keep", `newest = "keep": expected one of append, replace`},
		{"lserve", "reuse=0", "reuse = 0: expected 1 to 65536, or -1 for the policy's own"},
		{"csattention", "table_share=1.01", "table_share = 1.01: expected 0 to 1"},
	} {
		s := New(c.name)
		for _, set := range strings.Fields(c.sets) {
			key, text, _ := strings.Cut(set, "=")
			if err := schema.Of[Spec]().Set(&s, key, text); err != nil {
				t.Fatal(err)
			}
		}
		err := input.Validate(&s)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s:\ngot  %v\nwant %s", c.name, c.sets, err, c.want)
		}
	}
}
