// Package plan finds how a node serves a model best within targets of latency: which values of the server's knobs, and on which
// hardware.
//
// The inner step is the search of package capacity, for the highest rate that a configuration holds. Most values of knobs are worse
// than the best so far, and one run at the best's rate shows it: only a value that holds that rate is searched for its own (Tune).
// Which resource or target binds is measured, too, by runs with more of it (Binds).
//
// Start at Search.Row; cmd/l3sim/plan.go prints its rows.
package plan
