// Package capacity finds the highest rate of requests that a node serves within targets of
// latency.
//
// A rate is judged by one run: the middle requests of a trace that comes at that rate, without
// those that meet a node which fills or empties (system.Measured). Rates and nodes see the
// same requests in the same pattern, which is drawn at a rate of 1 and stretched
// (traces.Arrive): what differs between two runs is the rate or the node alone.
//
// Start at Search; cmd/l3sim/capacity.go prints its Answer.
package capacity
