package scheduler

import "math/rand/v2"

// Speculation is speculative decoding: a decode step of a request verifies several tokens at once, the known one and the drafts that
// a draft model proposes after it. The step emits the drafts up to the first that is rejected, and one token more. The zero value is
// decoding without drafts.
type Speculation struct {
	Verified   int     // tokens that a step verifies; 0 and 1: no drafts
	Acceptance float64 // chance that a draft is accepted if all before it were
	Seed       uint64
}

// streamAcceptance separates these draws from other random numbers of the same seed.
const streamAcceptance = 0x5bec

// Ahead returns the drafts of a step: tokens beyond the known one.
func (s Speculation) Ahead() int { return max(s.Verified-1, 0) }

// Tokens returns how many tokens a step of a request verifies, at least 1.
func (s Speculation) Tokens() int { return 1 + s.Ahead() }

// Mean returns the mean number of tokens that a step emits: (1 − aᵏ)/(1 − a) for k tokens and
// acceptance a.
func (s Speculation) Mean() float64 {
	mean, all := 1.0, 1.0
	for range s.Ahead() {
		all *= s.Acceptance
		mean += float64(all)
	}
	return mean
}

// Emits returns how many tokens a step of a request emits, at most left; emitted is the number emitted before. The draws depend only
// on the request's ID, emitted and the seed: not on the iteration, the replica or other requests.
func (s Speculation) Emits(id, emitted, left int) int {
	most := min(1+s.Ahead(), left)
	if most <= 1 {
		return most
	}
	var draws rand.PCG
	draws.Seed(s.Seed^streamAcceptance<<32, uint64(id)<<32|uint64(emitted))
	n := 1
	for n < most && float64(draws.Uint64()>>11)/(1<<53) < s.Acceptance {
		n++
	}
	return n
}

// Steps returns how many decode steps a request takes to emit left tokens, with emitted tokens emitted
// before.
func (s Speculation) Steps(id, emitted, left int) (steps int) {
	if s.Ahead() == 0 {
		return left
	}
	for left > 0 {
		n := s.Emits(id, emitted, left)
		emitted, left, steps = emitted+n, left-n, steps+1
	}
	return steps
}
