package policy

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// Spec is the section [policy] of a configuration: the name of the policy, and a section for each policy with keys, such as [policy.quest].
// Only the section of the named policy has an effect.
type Spec struct {
	Name string `toml:"name"` // sparse attention policy, see 'l3sim config policies'
	// Gates names a file with a line for each layer and a number from 0 to 1 for each KV head, with or without JSON brackets, such as
	// DuoAttention's full_attention_heads.tsv. The heads with the lowest numbers stream. "": the last heads of each layer do, spread evenly
	// over layers.
	Gates   string `toml:"gates"`
	Profile string `toml:"profile"` // file of counts that depend on data, as 'l3lab eval --profile' writes it; "": none

	// Sections has the keys of each policy with keys, in the order of the list. Section returns one and Edit changes one; do not change
	// them in place, since copies of a Spec share them.
	Sections []any

	list *List // the list that made the section and that Name refers to; nil: a list without policies
	// Contents of Gates and Profile, nil before ReadFiles and if they name no file.
	gates   *file[*gates]
	profile *file[*Profile]
}

// MaxTokens bounds counts of tokens.
const MaxTokens = 1 << 24

// List returns the policies that the section may name.
func (s *Spec) List() *List {
	if s.list == nil {
		return empty()
	}
	return s.list
}

// policy returns the named policy, or nil.
func (s *Spec) policy() *Policy { return s.List().policy(s.Name) }

// Dense reports whether the policy is dense attention: see Policy.Dense.
func (s *Spec) Dense() bool {
	p := s.policy()
	return p != nil && p.Dense
}

// Indexed reports whether the policy needs a model with an indexer: see Policy.Indexed.
func (s *Spec) Indexed() bool {
	p := s.policy()
	return p != nil && p.Indexed
}

// Drafts reports whether the policy counts the tokens that a step verifies: see Policy.Drafts.
func (s *Spec) Drafts() bool {
	p := s.policy()
	return p != nil && p.Drafts
}

// Section returns a policy's keys, which have type T.
func Section[T input.Checked](s *Spec) (keys T) {
	for i := range s.List().sections {
		if own, ok := s.section(i).(T); ok {
			return own
		}
	}
	return keys
}

// Edit changes a policy's keys, which have type T, in this Spec only.
func Edit[T input.Checked](s *Spec, change func(keys *T)) {
	all := make([]any, len(s.List().sections))
	for i := range all {
		all[i] = s.section(i)
		if own, ok := all[i].(T); ok {
			change(&own)
			all[i] = own
		}
	}
	s.Sections = all
}

// keys returns the keys of the named policy, nil if it has none.
func (s *Spec) keys() input.Checked {
	if i := slices.Index(s.List().sections, s.Name); i >= 0 {
		return s.section(i)
	}
	return nil
}

func (s *Spec) section(i int) input.Checked { return s.of(s.List()).Sections[i].(input.Checked) }

// of returns the section with keys of all policies of a list; if the list has not made the Spec, the keys have their defaults.
func (s *Spec) of(l *List) *Spec {
	if len(s.Sections) == len(l.sections) {
		return s
	}
	own := *s
	own.Sections = l.defaults.Sections
	return &own
}

// Pages returns a copy of the keys by which the policy chooses pages, nil for a policy that chooses none.
func (s *Spec) Pages() *PagesSpec {
	if k, ok := s.keys().(choosesPages); ok {
		return k.PageKeys()
	}
	return nil
}

// Heads returns a copy of the keys of a policy with streaming heads, nil for other policies.
func (s *Spec) Heads() *HeadsSpec {
	if k, ok := s.keys().(splitsHeads); ok {
		return k.HeadKeys()
	}
	return nil
}

// GPUWindow returns the key of the window that the GPUs hold, and its tokens; policy.name and 0 for a policy without one.
func (s *Spec) GPUWindow() (key string, tokens int) {
	if k, ok := s.keys().(hasWindow); ok {
		return "policy." + s.Name + ".window", k.GPUTokens()
	}
	return "policy.name", 0
}

// Check has the rules of the section [policy].
func (s *Spec) Check(c *input.Check) {
	l := s.List()
	meant := l.find(func(p Policy) bool { return slices.Contains(p.Others, strings.ToLower(s.Name)) })
	if meant != nil && s.policy() == nil {
		c.Fails("name", &input.Error{Value: schema.Written(s.Name), Expected: "one of " + strings.Join(slices.Sorted(slices.Values(l.Names())), ", "), Nearest: meant.Name})
	} else {
		input.OneOf(c, "name", s.Name, l.Names()...)
	}
	c.That(s.Gates == "" || s.Heads() != nil, "gates", s.Gates, "to be left out with %s = %q: some heads stream with %s", input.Key("policy.name"), s.Name, strings.Join(l.names((*Policy).splits), " and "))
	c.That(s.Profile == "" || !s.Dense(), "profile", s.Profile, "to be left out with %s = %q, which attends to everything", input.Key("policy.name"), s.Name)
	for i, name := range l.sections {
		c.In(name, s.section(i))
	}
}

// CheckAt has the rules that depend on where a system has keys and values.
func (s *Spec) CheckAt(at Place, c *input.Check) {
	if p := s.policy(); p != nil && p.CheckAt != nil {
		c.In("policy."+s.Name, rules(func(c *input.Check) { p.CheckAt(s.keys(), at, c) }))
	}
}

// rules implements input.Checked with a function.
type rules func(c *input.Check)

func (r rules) Check(c *input.Check) { r(c) }

// use returns the policy for a model that its files match.
func (s *Spec) use(shape Shape) *Use {
	u := &Use{Keys: s.keys(), Shape: shape}
	if s.profile != nil {
		u.Profile = s.profile.holds
	}
	if s.gates != nil {
		u.gates = s.gates.holds.layers
	}
	return u
}

// Costs returns the costs of a valid section for a model that its files match (Fits), nil for an unknown policy.
func (s *Spec) Costs(shape Shape) Costs {
	p := s.policy()
	if p == nil {
		return nil
	}
	return p.Costs(s.use(shape))
}

// NewValues returns the choices of a section's policy for a model. A mismatch of section and model is an *input.Error.
func NewValues(s *Spec, shape Shape) (Values, error) {
	p := s.policy()
	if p == nil {
		return nil, input.UnknownName("policy.name", s.Name, s.List().Names())
	}
	if err := s.gatesFit(shape); err != nil {
		return nil, err
	}
	return p.Values(s.use(shape))
}
