package service

import (
	"math"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// A closed loop runs for several rounds of a request a user. What is measured is without
// the first ones, in which all prompts come at once, and without the last, in which users
// leave.
const (
	rounds  = 6
	warm    = 2
	measure = rounds - 1 // the round that is the first after those measured
)

// loop keeps what a run of a closed loop says of the requests of the measured rounds.
func (out *run) loop(result *system.Result, s *results.Summary) {
	users, steps := out.row.Batch, out.row.Output-1
	for _, r := range result.Requests[warm*users : measure*users] {
		out.ttft += (r.FirstToken - r.Request.Arrival).Seconds()
		out.seconds += (r.Finish - r.FirstToken).Seconds()
	}
	n := float64((measure - warm) * users)
	out.ttft, out.seconds = out.ttft/n, out.seconds/n
	// Each iteration from a request's first token to its last has a token of it.
	out.steps, out.tokens = int64(steps), int64(math.Round(float64(steps)*s.DecodeBatch.Mean))
	out.queued = s.Preemptions > 0
}
