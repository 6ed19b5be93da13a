package policy

import (
	"github.com/l3sim/l3sim/input"
)

// Policy is a complete policy: help for users, keys, supported places, costs and choices. Each policy is declared in its own file of
// package attention/policies, which lists them. A program that uses this module may add more (List.With).
type Policy struct {
	Name   string   // value of policy.name, and name of its section: small letters, digits, - and _
	Others []string // other common names, in small letters, for messages
	About  About
	Lossy  bool   // results differ from dense attention
	Source string // origin of the policy

	// Homes is the set of places of keys and values that the policy supports. A system accepts the policies that support its own place.
	Homes Homes
	// Dense means that every head attends to all tokens at home and to none elsewhere: nothing is dropped or chosen, attended tokens are
	// contexts, and a profile has no information.
	Dense bool
	// InOrder means that, at home, a head either attends to all tokens or has none. Keys may then have scales that groups of tokens share
	// (model.kv_scales = "channel").
	InOrder bool
	// Indexed means that the model's own indexer chooses: the policy needs a model with an indexer, and supports its latents.
	Indexed bool
	// Drafts means that Costs count the tokens attended to by all tokens that a step verifies (Shape.Verified), the last of which ends a
	// request's context. Other policies run without drafts.
	Drafts bool

	// Keys is a value of the struct with the policy's keys, named by their toml tags, for the section [policy.NAME]. nil: no section.
	Keys input.Checked
	// Defaults is that section in TOML without its header: a line for each key, with the source of the number in a comment.
	Defaults string
	// CostKeys are the keys that affect only costs, not which tokens are chosen. A profile does not depend on them.
	CostKeys []string
	// CheckAt has rules that relate the keys to the place of keys and values. nil: none.
	CheckAt func(keys input.Checked, at Place, c *input.Check)

	Costs  func(u *Use) Costs           // counts of a step
	Values func(u *Use) (Values, error) // choices for the heads of a real model; an *input.Error says what does not match the model
}

// About describes a policy and its costs, in a few words for each aspect.
type About struct {
	Attends string `json:"attends"` // tokens that a decode step attends to
	Stores  string `json:"stores"`  // memory: keys and values, index
	Moves   string `json:"moves"`   // data moved over links in a decode step
}

// Homes is a set of places of keys and values.
type Homes uint8

// The places. A system with another place accepts only policies with AnyHome.
const (
	OnGPUs  Homes      = 1 << iota // GPU memory; GPU kernels attend
	InHBM                          // GPU memory; processing units in it attend
	InDIMMs                        // ranks of DIMMs; processing units at the banks attend
	OnHost                         // host memory; CPUs attend
	Fetched                        // host memory; GPUs fetch chosen rows and attend
	AnyHome = ^Fetched             // all places except Fetched, which needs a policy that chooses
)

// At reports whether keys and values can be at a place.
func (h Homes) At(place Homes) bool { return h == AnyHome && place == 0 || h&place != 0 }

// Place is the location of a system's keys and values.
type Place struct {
	System string // value of run.system
	Where  string // as a sentence says it: "in the DIMMs"
	Apart  bool   // not on the GPUs
}

// Use is a policy with values of its keys, applied to a model.
type Use struct {
	Keys    input.Checked // of the type of Policy.Keys; nil for a policy without keys
	Shape   Shape
	Profile *Profile    // contents of the file policy.profile; nil: none
	gates   [][]float64 // contents of the file policy.gates, by layer and KV head; nil: none
}
