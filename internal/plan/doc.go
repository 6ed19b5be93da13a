// Package plan finds the highest rate of requests that nodes serve within targets of latency, with which knobs of the server, and
// on which hardware.
//
// One judge (judge.go) says whether a node holds a rate: by one run, whose middle requests count, without those that meet a node that
// fills or empties. A run ends with the first request too many that misses its targets. One bisection (climb.go) finds the highest rate of a
// node. The search of knobs (search.go, contest.go) compares points of a grid (knobs.go) by few requests and large steps of the rate, and
// those that are left by all. Which resource or target binds is measured by runs with twice of it (binds.go).
// What a system has and what an operator chooses says package system/kinds (Planning).
//
// Start at Search.Contest, whose Compare and Decide give a row; cmd/l3sim/plan.go prints rows.
package plan
