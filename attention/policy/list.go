package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// List is the policies that a configuration may name. It is immutable: With returns a new list.
type List struct {
	policies []Policy
	sections []string       // policies with keys, in the order of Spec.Sections
	schema   *schema.Schema // of a Spec
	defaults Spec
	text     string // [policy] with all sections
}

// empty returns the list without policies, for a Spec that no list has made.
var empty = sync.OnceValue(func() *List {
	l, _ := (&List{}).With() // cannot fail
	return l
})

// general are the keys of [policy] itself.
const general = `[policy]
name = "dense" # every system's own; attends to everything
gates = ""     # a file is the model's own
profile = ""   # none
`

// letters are the characters of a policy's name, which is a bare key of TOML.
const letters = "abcdefghijklmnopqrstuvwxyz0123456789_-"

// With returns the list extended by more policies. It returns an error for a policy whose name is taken, whose keys have no default or a
// default that breaks their rules, or that has no costs or values.
func (l *List) With(more ...Policy) (*List, error) {
	all := &List{policies: slices.Concat(l.policies, more), text: general}
	all.defaults = Spec{Name: "dense", list: all}
	for i := range all.policies {
		p := &all.policies[i]
		sameKeys := func(k any) bool { return reflect.TypeOf(k) == reflect.TypeOf(p.Keys) }
		switch {
		case p.Name == "" || strings.Trim(p.Name, letters) != "" || slices.Contains([]string{"name", "gates", "profile"}, p.Name):
			return nil, fmt.Errorf("policy %q: expected a name of small letters, digits, - and _ that is no key of [policy]", p.Name)
		case all.policy(p.Name) != p:
			return nil, fmt.Errorf("policy %q: there is a policy of this name", p.Name)
		case p.Costs == nil || p.Values == nil || p.Homes == 0:
			return nil, fmt.Errorf("policy %q: expected Homes, Costs and Values", p.Name)
		case p.Keys == nil:
			continue
		case slices.ContainsFunc(all.defaults.Sections, sameKeys):
			return nil, fmt.Errorf("policy %q: expected Keys to be a struct of a type of its own, not %T", p.Name, p.Keys)
		}
		if err := schema.Fault(reflect.TypeOf(p.Keys)); err != nil {
			return nil, fmt.Errorf("policy %q: Keys: %w", p.Name, err)
		}
		all.sections = append(all.sections, p.Name)
		all.defaults.Sections = append(all.defaults.Sections, p.Keys)
		all.text += "\n[policy." + p.Name + "]\n" + p.Defaults
	}
	all.schema = schema.With[Spec](all.within("")...)
	return all, all.readDefaults()
}

// readDefaults reads the text of the defaults, which must have every key.
func (l *List) readDefaults() error {
	var document struct{ Policy map[string]any }
	if _, err := input.DecodeTOML("defaults of policies", l.text, &document); err != nil {
		return err
	}
	for _, name := range l.sections {
		table, _ := document.Policy[name].(map[string]any)
		for key := range table {
			if l.schema.Key(name+"."+key) == nil {
				return fmt.Errorf("policy %q: Defaults have %s, which no field of Keys has as its toml tag", name, key)
			}
		}
		for _, k := range l.schema.Section(name) {
			value, err := schema.Convert(k.Type, table[strings.TrimPrefix(k.Name, name+".")])
			if err != nil {
				return fmt.Errorf("policy %q: no value in Defaults for the key %s of Keys: %w", name, k.Name, err)
			}
			k.Set(&l.defaults, value)
		}
	}
	for i := range l.policies {
		s := l.New(l.policies[i].Name)
		if err := input.Validate(&s); err != nil {
			return fmt.Errorf("defaults of policies: %w", err)
		}
	}
	return nil
}

// within describes the policies' sections, nested in a section whose name ends with a dot.
func (l *List) within(section string) (all []schema.Section) {
	for _, name := range l.sections {
		all = append(all, schema.Section{Name: section + name, Type: reflect.TypeOf(l.policy(name).Keys)})
	}
	return all
}

// Sections describes the policies' sections in a configuration, in the order of Spec.Sections.
func (l *List) Sections() []schema.Section { return l.within("policy.") }

// Defaults returns the section [policy] with all nested sections in TOML, with the source of each value.
func (l *List) Defaults() string { return l.text }

// Default returns the section with all defaults.
func (l *List) Default() Spec { return l.defaults }

// New returns the section with a policy's name and all defaults.
func (l *List) New(name string) Spec {
	s := l.defaults
	s.Name = name
	return s
}

// Names returns the names of all policies.
func (l *List) Names() []string { return l.names(func(*Policy) bool { return true }) }

// At returns the policies that support keys and values at a place; 0 is a place that supports only dense attention.
func (l *List) At(place Homes) []string {
	return l.names(func(p *Policy) bool { return p.Homes.At(place) })
}

// Own returns the first policy that uses a model's own indexer, "" for none: see Policy.Indexed.
func (l *List) Own() string {
	for _, name := range l.names(func(p *Policy) bool { return p.Indexed }) {
		return name
	}
	return ""
}

// Drafting returns the policies that count several tokens of a step: see Policy.Drafts.
func (l *List) Drafting() []string { return l.names(func(p *Policy) bool { return p.Drafts }) }

// InOrder returns the policies that keep tokens in order: see Policy.InOrder.
func (l *List) InOrder() []string { return l.names(func(p *Policy) bool { return p.InOrder }) }

func (l *List) names(so func(p *Policy) bool) (names []string) {
	for i := range l.policies {
		if so(&l.policies[i]) {
			names = append(names, l.policies[i].Name)
		}
	}
	return names
}

// policy returns the policy of a name, or nil.
func (l *List) policy(name string) *Policy {
	return l.find(func(p Policy) bool { return p.Name == name })
}

// find returns the first policy with a property, or nil.
func (l *List) find(so func(p Policy) bool) *Policy {
	if i := slices.IndexFunc(l.policies, so); i >= 0 {
		return &l.policies[i]
	}
	return nil
}

// Description describes a policy and its costs in a few words.
type Description struct {
	Name string `json:"name"`
	About
	Lossy  bool   `json:"lossy"` // results differ from dense attention
	Source string `json:"source"`
	Keys   []Key  `json:"keys"` // of the section [policy.NAME]
}

// Key is a key of a policy and its default.
type Key struct {
	Name    string `json:"name"`    // full name: policy.quest.page
	Default string `json:"default"` // in TOML
	Source  string `json:"source"`  // of the default
}

// Descriptions returns all policies, in the order of Names.
func (l *List) Descriptions() []Description {
	all, places := make([]Description, len(l.policies)), schema.Scan(l.text)
	for i := range l.policies {
		p := &l.policies[i]
		all[i] = Description{Name: p.Name, About: p.About, Lossy: p.Lossy, Source: p.Source}
		for _, k := range l.schema.Section(p.Name) {
			name := "policy." + k.Name
			all[i].Keys = append(all[i].Keys, Key{Name: name, Default: written(k.Get(&l.defaults)), Source: places[name].Comment})
		}
	}
	return all
}
