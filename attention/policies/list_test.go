package policies

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// TestBuiltin: the policies of this package form a valid list. Its text has every key with a source and the value that New sets; defaults
// are valid.
func TestBuiltin(t *testing.T) {
	l, err := (&policy.List{}).With(builtin...)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if _, err := input.DecodeTOML("", l.Defaults(), &document); err != nil {
		t.Fatal(err)
	}
	places, spec := schema.Scan(l.Defaults()), l.New("dense")
	for _, k := range specSchema(l).Keys {
		if places["policy."+k.Name].Comment == "" {
			t.Errorf("no value or no source of %s", k.Name)
		}
		value := document["policy"].(map[string]any)
		section, last := schema.Split(k.Name)
		if section != "" {
			value = value[section].(map[string]any)
		}
		if want, err := schema.Convert(k.Type, value[last]); err != nil || !want.Equal(k.Get(&spec)) {
			t.Errorf("%s = %v, the text says %v (%v)", k.Name, k.Get(&spec), value[last], err)
		}
	}
	for _, name := range l.Names() {
		s := l.New(name)
		if err := input.Validate(&s); err != nil {
			t.Errorf("%s is not valid as it ships: %v", name, err)
		}
	}
	for _, k := range builtin {
		for _, key := range k.CostKeys {
			if specSchema(l).Key(k.Name+"."+key) == nil {
				t.Errorf("%s has no key %s", k.Name, key)
			}
		}
	}
}

// extra is keys of a policy that a test adds.
type extra struct {
	Kept int `toml:"kept"`
}

// Check has a rule.
func (e extra) Check(c *input.Check) { input.Within(c, "kept", e.Kept, 1, 9) }

// unset is a section whose key cannot be set.
type unset struct {
	kept int `toml:"kept"`
}

func (u unset) Check(*input.Check) { _ = u.kept }

// newExtra returns a policy that a test adds: dense, with a key.
func newExtra(change func(k *policy.Policy)) policy.Policy {
	k := dense
	k.Name, k.Others, k.Dense, k.Keys, k.Defaults = "extra", []string{"extraordinary"}, false, extra{}, "kept = 3 # ours\n"
	change(&k)
	return k
}

// TestWith: a policy that cannot be added to a list is refused with the reason, and the list does not change.
func TestWith(t *testing.T) {
	for want, change := range map[string]func(k *policy.Policy){
		"":                                                       func(*policy.Policy) {},
		`policy "quest": there is a policy`:                      func(k *policy.Policy) { k.Name = "quest" },
		`policy "": expected a name`:                             func(k *policy.Policy) { k.Name = "" },
		`policy "Extra": expected a name`:                        func(k *policy.Policy) { k.Name = "Extra" },
		`policy "e.x": expected a name`:                          func(k *policy.Policy) { k.Name = "e.x" },
		`policy "gates": expected a name`:                        func(k *policy.Policy) { k.Name = "gates" },
		`expected Homes`:                                         func(k *policy.Policy) { k.Homes = 0 },
		`expected Homes, Costs`:                                  func(k *policy.Policy) { k.Costs = nil },
		`Costs and Values`:                                       func(k *policy.Policy) { k.Values = nil },
		`Keys: expected a struct, not *`:                         func(k *policy.Policy) { k.Keys = &extra{} },
		`Keys: field kept of policies.unset has a toml tag`:      func(k *policy.Policy) { k.Keys = unset{} },
		`not policy.StreamSpec`:                                  func(k *policy.Policy) { k.Keys = policy.StreamSpec{} },
		`no value in Defaults for the key extra.kept`:            func(k *policy.Policy) { k.Defaults = "" },
		`extra.kept of Keys: "3": expected a whole`:              func(k *policy.Policy) { k.Defaults = `kept = "3" # ours` },
		`Defaults have keep, which no field`:                     func(k *policy.Policy) { k.Defaults += "keep = 4\n" },
		`defaults of policies: extra.kept = 10: expected 1 to 9`: func(k *policy.Policy) { k.Defaults = "kept = 10 # ours" },
		`defaults of policies:`:                                  func(k *policy.Policy) { k.Defaults = "kept 10" },
	} {
		l, err := Builtin().With(newExtra(change))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if err == nil {
			s := l.New("extra")
			if policy.Section[extra](&s).Kept != 3 || l.Names()[10] != "extra" || len(Builtin().Names()) != 10 || len(l.Sections()) != 9 {
				t.Errorf("%+v", s)
			}
			other := s
			policy.Edit(&other, func(e *extra) { e.Kept = 4 })
			if policy.Section[extra](&s).Kept != 3 || policy.Section[extra](&other).Kept != 4 || policy.Section[DuoSpec](&other) != policy.Section[DuoSpec](&s) {
				t.Errorf("%+v, %+v", s, other)
			}
			s.Name = "ExtraOrdinary"
			if err := input.Validate(&s); err == nil || !strings.HasSuffix(err.Error(), `did you mean "extra"?`) {
				t.Error(err)
			}
		}
	}
}

// TestBareSpec: a Spec that no list has made has no policy, and its error says so.
func TestBareSpec(t *testing.T) {
	bare, tiny := policy.Spec{Name: "quest"}, policy.Shape{Layers: 3, KVHeads: 1, QueryHeads: 1, Dim: 8, ElementBits: 16}
	policy.Edit(&bare, func(q *QuestSpec) { q.SkipLayers = 0 })
	_, err := policy.NewValues(&bare, tiny)
	for _, err := range []error{input.Validate(&bare), bare.Fits(tiny), err} {
		if err == nil || !strings.Contains(err.Error(), `name = "quest": expected`) {
			t.Errorf("a Spec of no list: %v", err)
		}
	}
	if bare.Costs(tiny) != nil || bare.Pages() != nil || bare.Heads() != nil || bare.Dense() || bare.ReadFiles() != nil {
		t.Error("a Spec of no list has a policy")
	}
}

// TestDescriptions: every policy has a description with its own keys, and no two policies share a name.
func TestDescriptions(t *testing.T) {
	for _, d := range Builtin().Descriptions() {
		if d.Attends == "" || d.Stores == "" || d.Moves == "" || d.Source == "" {
			t.Errorf("%+v", d)
		}
		for _, k := range d.Keys {
			if !strings.HasPrefix(k.Name, "policy."+d.Name+".") || k.Source == "" || k.Default == "" {
				t.Errorf("%+v", k)
			}
		}
	}
	if d := Builtin().Descriptions(); d[4].Name != "quest" || d[4].Keys[1] != (policy.Key{Name: "policy.quest.page", Default: "16", Source: "Quest's released scripts"}) {
		t.Errorf("%+v", d[4])
	}
	none, shape := New("qest"), policy.Shape{Layers: 1, KVHeads: 1, QueryHeads: 1, Dim: 8, ElementBits: 16}
	_, err := policy.NewValues(&none, shape)
	for _, err := range []error{err, none.Fits(shape)} {
		if err == nil || !strings.Contains(err.Error(), `did you mean "quest"?`) {
			t.Errorf("%v", err)
		}
	}
	if none.Costs(shape) != nil || none.Dense() {
		t.Error("a name of no policy has costs")
	}
}
