package policy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// TestDefaults: the text has every key of the section with a source, and is valid for every policy.
func TestDefaults(t *testing.T) {
	var all struct{ Policy Spec }
	if _, err := input.DecodeTOML("", Defaults, &all); err != nil || !reflect.DeepEqual(all.Policy, New("dense")) {
		t.Fatal(err)
	}
	places := schema.Scan(Defaults)
	for _, k := range schema.Of[Spec]().Keys {
		if places["policy."+k.Name].Comment == "" {
			t.Errorf("no value or no source of %s", k.Name)
		}
	}
	for _, name := range Names() {
		s := New(name)
		if err := input.Validate(&s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDescriptions: every policy is described, with its own keys, and no name stands for another policy.
func TestDescriptions(t *testing.T) {
	for _, d := range Descriptions() {
		if d.Attends == "" || d.Stores == "" || d.Moves == "" || d.Source == "" {
			t.Errorf("%+v", d)
		}
		for _, k := range d.Keys {
			if !strings.HasPrefix(k.Name, "policy."+d.Name+".") || k.Source == "" || k.Default == "" {
				t.Errorf("%+v", k)
			}
		}
	}
	if d := Descriptions(); d[4].Name != "quest" || d[4].Keys[1] != (Key{"policy.quest.page", "16", "Quest's released scripts"}) {
		t.Errorf("%+v", d[4])
	}
	none, shape := New("qest"), Shape{Layers: 1, KVHeads: 1, QueryHeads: 1, Dim: 8, ElementBits: 16}
	_, err := NewValues(&none, shape)
	for _, err := range []error{err, none.Fits(shape)} {
		if err == nil || !strings.Contains(err.Error(), `did you mean "quest"?`) {
			t.Errorf("%v", err)
		}
	}
	if none.Costs(shape) != nil {
		t.Error("a name of no policy has costs")
	}
}
