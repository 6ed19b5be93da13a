// Package policy says what attention amounts to, in counts: how many tokens each class of
// heads attends over and on which device, which keys and values are kept, and what a
// request moves. It knows neither devices nor time; package system turns counts into time
// with the models of its devices.
//
// policy.go is the seam, and one file each a policy. dense.go is the only one so far:
// every head attends over everything. Read package system's attention.go next, which asks.
package policy
