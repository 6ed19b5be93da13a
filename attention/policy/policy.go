package policy

import (
	"github.com/l3sim/l3sim/input"
)

// Policy is one policy, whole: what users read of it, its keys, where it runs, what it costs and what it chooses. Each
// policy of this package declares one in its own file, and builtin lists them. A caller of this module may write more
// (List.With).
type Policy struct {
	Name   string   // value of policy.name, and of its section: small letters, digits, - and _
	Others []string // what else people call it, in small letters, for messages
	About  About
	Lossy  bool   // results differ from dense attention
	Source string // where the policy is from

	// Homes is where the policy can have keys and values. A system takes the policies that can have them where its own are.
	Homes Homes
	// Dense says that every head attends to all tokens at home, and to nothing elsewhere: attended tokens are contexts,
	// nothing is dropped or chosen, and a profile would say nothing.
	Dense bool
	// InOrder says that a head attends at home to all tokens or has none there: the keys there may have scales that
	// groups of tokens share (model.kv_scales = "channel").
	InOrder bool
	// Indexed says that the model's own indexer chooses: the policy needs a model that has one, and takes its latents.
	Indexed bool
	// Drafts says that Costs count what all tokens attend to that a step verifies (Shape.Verified), of which the context of a request
	// ends with the last. Other policies run without drafts.
	Drafts bool

	// Keys is a value of the struct with the policy's keys, by their toml tags: the section [policy.NAME]. nil: no section.
	Keys input.Checked
	// Defaults is that section in TOML without its header: a line for each key, and in a comment where the number is from.
	Defaults string
	// CostKeys are those of the keys that bear on costs alone, not on which tokens are chosen. A profile does not depend on them.
	CostKeys []string
	// CheckAt has rules of what must fit together with the place of keys and values. nil: none.
	CheckAt func(keys input.Checked, at Place, c *input.Check)

	Costs  func(u *Use) Costs           // what a step takes, in counts
	Values func(u *Use) (Values, error) // which tokens heads of a real model attend to; an *input.Error says what does not fit the model
}

// About says what a policy does and costs, in a few words each.
type About struct {
	Attends string `json:"attends"` // to what a decode step attends
	Stores  string `json:"stores"`  // keys and values, index
	Moves   string `json:"moves"`   // over links in a decode step
}

// Homes is a set of places of keys and values.
type Homes uint8

// The places. A system whose own is none of them takes policies of AnyHome alone.
const (
	OnGPUs  Homes      = 1 << iota // the GPUs' memory, and their kernels attend
	InHBM                          // the GPUs' memory, with processing units in it that attend
	InDIMMs                        // ranks of DIMMs, with a processing unit beside each bank
	OnHost                         // the host's memory, and its CPUs attend
	Fetched                        // the host's memory, and the GPUs attend over chosen rows, which they fetch
	AnyHome = ^Fetched             // but where only policies run that choose
)

// At says that keys and values can be at a place.
func (h Homes) At(place Homes) bool { return h == AnyHome && place == 0 || h&place != 0 }

// Place is where a system has keys and values.
type Place struct {
	System string // value of run.system
	Where  string // as a sentence says it: "in the DIMMs"
	Apart  bool   // not on the GPUs
}

// Use is a policy with the values of its keys, for a model.
type Use struct {
	Keys    input.Checked // of the type of Policy.Keys; nil for a policy without keys
	Shape   Shape
	Profile *Profile    // what the file policy.profile holds; nil: none
	gates   [][]float64 // what the file policy.gates holds, by layer and KV head; nil: none
}
