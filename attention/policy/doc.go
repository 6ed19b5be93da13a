// Package policy is the contract of attention policies: what a policy declares, and what systems ask of it. A policy counts what attention
// needs: the tokens to which each class of heads attends and on which device, the bytes of keys and values, and the bytes that a request
// moves. It is independent of devices and time: the packages below system turn counts into time (system/flow/attention.go asks for them).
//
// A policy is one value, a Policy (policy.go): its name, its section of the configuration, its help, its costs (costs.go) and its numerical
// attention (state.go). A List (list.go) has the policies that a configuration may name. The section [policy] is a Spec (spec.go), with a
// section for each policy that has settings; settings that systems read by name are in keys.go. Counts that depend on data are in a profile
// (profile.go), which the numerical attention writes and costs read. attend.go and weights.go have arithmetic shared by numerical
// attention.
//
// Read policy.go first, then the shortest policy, attention/policies/dense.go. A program may add its own policy:
// docs/reference/policies-and-systems.md.
package policy
