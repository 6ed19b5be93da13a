package policy

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// Spec is the section [policy] of a configuration: which policy runs, and a section for each policy that has keys, [policy.quest]
// and so on. Only the section of the policy that runs counts.
type Spec struct {
	Name string `toml:"name"` // what attention attends to, see 'l3sim config policies'
	// Gates is a file with a line of numbers for each layer, one for each KV head, from 0 to 1, with brackets as
	// in JSON or without; DuoAttention's full_attention_heads.tsv is one: the heads with the lowest ones stream. "": the last heads of each layer, spread evenly over layers.
	Gates   string `toml:"gates"`
	Profile string `toml:"profile"` // file of counts that depend on data, as 'l3lab eval --profile' writes it; "": none

	// Sections has the keys of each policy that has some, in the order of the list. Section returns one and Edit changes
	// one; nobody changes them in place, since copies of a Spec share them.
	Sections []any

	list *List // which made the section, and whose policies Name may be; nil: of no policy
	// What Gates and Profile hold, nil before ReadFiles and where they name none.
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

// policy returns the policy that runs, nil for a name of none.
func (s *Spec) policy() *Policy { return s.List().policy(s.Name) }

// Dense says that the policy that runs is dense attention: see Policy.Dense.
func (s *Spec) Dense() bool {
	p := s.policy()
	return p != nil && p.Dense
}

// Indexed says that the policy that runs needs a model with an indexer: see Policy.Indexed.
func (s *Spec) Indexed() bool {
	p := s.policy()
	return p != nil && p.Indexed
}

// Drafts says that the policy that runs counts the tokens that a step verifies: see Policy.Drafts.
func (s *Spec) Drafts() bool {
	p := s.policy()
	return p != nil && p.Drafts
}

// Section returns the keys of the policy whose keys are of type T.
func Section[T input.Checked](s *Spec) (keys T) {
	for i := range s.List().sections {
		if own, ok := s.section(i).(T); ok {
			return own
		}
	}
	return keys
}

// Edit changes the keys of the policy whose keys are of type T, in this Spec alone.
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

// keys returns those of the policy that runs, nil where it has none.
func (s *Spec) keys() input.Checked {
	if i := slices.Index(s.List().sections, s.Name); i >= 0 {
		return s.section(i)
	}
	return nil
}

func (s *Spec) section(i int) input.Checked { return s.of(s.List()).Sections[i].(input.Checked) }

// of returns the section with keys of all policies of a list: a Spec that the list has not made has its defaults.
func (s *Spec) of(l *List) *Spec {
	if len(s.Sections) == len(l.sections) {
		return s
	}
	own := *s
	own.Sections = l.defaults.Sections
	return &own
}

// Pages returns the keys of the policy's choice of pages, nil for a policy that chooses none. They are a copy.
func (s *Spec) Pages() *PagesSpec {
	if k, ok := s.keys().(choosesPages); ok {
		return k.PageKeys()
	}
	return nil
}

// Heads returns the keys of a policy some of whose heads stream, nil for other policies. They are a copy.
func (s *Spec) Heads() *HeadsSpec {
	if k, ok := s.keys().(splitsHeads); ok {
		return k.HeadKeys()
	}
	return nil
}

// GPUWindow returns the key of the window that the GPUs hold, and its tokens. It is policy.name and 0 for a policy without one.
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

// CheckAt has the rules of what must fit together where a system has keys and values.
func (s *Spec) CheckAt(at Place, c *input.Check) {
	if p := s.policy(); p != nil && p.CheckAt != nil {
		c.In("policy."+s.Name, rules(func(c *input.Check) { p.CheckAt(s.keys(), at, c) }))
	}
}

// rules is input.Checked by its one method.
type rules func(c *input.Check)

func (r rules) Check(c *input.Check) { r(c) }

// use returns the policy that runs for a model that its files fit.
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

// Costs returns the cost side of a valid section for a model that its files fit (Fits), nil for a name of no policy.
func (s *Spec) Costs(shape Shape) Costs {
	p := s.policy()
	if p == nil {
		return nil
	}
	return p.Costs(s.use(shape))
}

// NewValues returns the value side of a section's policy for a model. What of the section does not fit the model is an
// *input.Error.
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
