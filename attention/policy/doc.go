// Package policy counts what attention needs: over how many tokens each class of heads
// attends and on which device, how many bytes the keys and values take, and how many a
// request moves. It knows neither devices nor time; packages system/gpus, system/ranks and
// system/hosts turn counts into time.
//
// A policy is one value, a Policy (policy.go): its name, keys, help, costs and values. Each has a file that begins with it
// (dense.go is the shortest), and builtin.go lists them. A program may add its own: Example, and docs/extend.md. A
// configuration's section [policy] is Spec (spec.go), with a section in it for each policy that has keys; keys that systems
// read by name are in keys.go.
//
// costs.go is the interface of costs, state.go that of values. Both share counts of tokens and pages, which are pure
// functions (pages.go, streaming.go, hgca.go). Counts that depend on data are a profile (profile.go), which
// values write and costs read. Read attention.go of package system/flow next, which calls the policy.
package policy
