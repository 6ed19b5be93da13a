// Package plan finds the highest rate of requests that nodes serve within targets of latency, with which knobs of the server, and
// on which hardware.
//
// A judge (judge.go) decides whether a node holds a rate by one run, in which the middle requests count: those at the ends meet a node that
// fills or empties. A run ends once too many requests have missed their targets. A bisection (climb.go) finds the highest rate of a node.
// The search of knobs (search.go, contest.go) compares points of a grid (knobs.go) by few requests and large steps of the rate, and the
// remaining points by all requests. Runs with twice of a resource or target show which one binds (binds.go). Package system/kinds (Planning)
// has a system's resources and an operator's choices.
//
// Start at Search.Contest, whose Compare and Decide give a row; cmd/l3sim/plan.go prints rows.
package plan
