// Package policy is the contract of attention policies: what a policy says of itself, and what is asked of it. A policy counts
// what attention needs: over how many tokens each class of heads attends and on which device, how many bytes keys and
// values take, and how many of them a request moves. It knows neither devices nor time: the devices below package system
// turn counts into time (system/flow/attention.go asks).
//
// A policy is one value, a Policy (policy.go): its name, its section of the configuration, its help, its costs (costs.go) and
// its numerical attention (state.go). A List (list.go) is the policies that a configuration may name. The section [policy] is a
// Spec (spec.go), with a section in it for each policy that has settings; settings that systems read by name are in keys.go.
// What depends on data is counted in a profile (profile.go), which the numerical attention writes and costs read; attend.go
// and weights.go are arithmetic that numerical attention shares.
//
// Read policy.go first, then the shortest policy, attention/policies/dense.go. A program may add a policy of its own:
// docs/reference/policies-and-systems.md.
package policy
