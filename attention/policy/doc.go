// Package policy is the contract of attention policies: what one says of itself, and what is asked of it. A policy counts
// what attention needs: over how many tokens each class of heads attends and on which device, how many bytes the keys
// and values take, and how many a request moves. It knows neither devices nor time; package system turns counts into time
// with the models of its devices.
//
// A policy is one value, a Policy (policy.go): its name, keys, help, costs and values. costs.go is the interface of costs,
// state.go that of values. A List (list.go) has the policies that a configuration may name, whose section [policy] is a
// Spec (spec.go), with a section in it for each policy that has keys; keys that systems read by name are in keys.go. A
// program may add a policy of its own: List.With, and docs/extend.md. Counts that depend on data are a profile
// (profile.go), which values write and costs read; attend.go and weights.go are arithmetic that values share.
//
// Read policy.go first, then the shortest policy, dense.go of package policies; package system asks policies in its attention.go.
package policy
