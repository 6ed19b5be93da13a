// Package policy counts what attention needs: over how many tokens each class of heads
// attends and on which device, how many bytes the keys and values take, and how many a
// request moves. It knows neither devices nor time; package system turns counts into time
// with the models of its devices.
//
// policy.go has the interface; each policy has its own file. dense.go is the only one so
// far: every head attends over everything. h2o.go, hgca.go and csattention.go have what
// those policies keep, evict and store, in tokens and bytes. No key selects a policy yet. Read attention.go
// of package system next, which calls the policy.
package policy
