// Package policy counts what attention needs: over how many tokens each class of heads
// attends and on which device, how many bytes the keys and values take, and how many a
// request moves. It knows neither devices nor time; package system turns counts into time
// with the models of its devices.
//
// A configuration's section [policy] is Spec (spec.go); keys.go has the keys of each policy
// with their defaults. Counts of tokens and pages (pages.go, streaming.go, heads.go, h2o.go, hgca.go,
// csattention.go) are pure functions that costs and values share. Counts that depend on data
// are a profile (profile.go), which values write and costs read. policy.go is the interface of
// costs, state.go that of values; each policy has its own file. Read attention.go of package
// system next, which calls the policy.
package policy
