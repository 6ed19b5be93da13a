package batching

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/scheduler"
)

// Decoding requests advance by one token a step (scheduler.Decoding.Context). A request whose step emits more is moved on after the
// step, and requests are dealt to the sub-batches again by their new contexts.

// lookAhead returns how many tokens beyond its context a decoding request has memory for: the drafts of its step. If an iteration is
// formed while the one before runs, how many drafts that one accepts is still unknown; it may accept all.
func (s *State) lookAhead() int {
	if s.Ahead {
		return 2 * s.Speculation.Ahead()
	}
	return s.Speculation.Ahead()
}

// emittedBefore returns the tokens that a request has emitted before the present step.
func (s *State) emittedBefore(d *scheduler.Decoding) int {
	return d.Context(s.Batch.Step) - s.Requests[d.Request].Input
}

// drafted returns the drafts of a request that the present step accepts.
func (s *State) drafted(d *scheduler.Decoding) int {
	r, emitted := &s.Requests[d.Request], s.emittedBefore(d)
	return s.Speculation.Emits(r.ID, emitted, r.Output-emitted) - 1
}

// speculate sets the drafts that the batch will accept.
func (s *State) speculate() {
	if s.Speculation.Ahead() == 0 {
		return
	}
	s.Batch.Drafted = 0
	for i := range s.Batch.Sub {
		sub := &s.Batch.Sub[i]
		for _, decoding := range [...][]scheduler.Decoding{sub.Decode, sub.Near, sub.Host} {
			for k := range decoding {
				d := &decoding[k]
				d.Accepted = int32(s.drafted(d))
				s.Batch.Drafted += int(d.Accepted)
			}
		}
	}
}

// draftedOf returns the drafts of some requests of the batch that its step accepts.
func (s *State) draftedOf(decoding []scheduler.Decoding) (drafts int) {
	if s.Speculation.Ahead() == 0 {
		return 0
	}
	for i := range decoding {
		drafts += s.drafted(&decoding[i])
	}
	return drafts
}

// advance moves the requests that continue to decode by their accepted drafts.
func (s *State) advance() {
	if s.Speculation.Ahead() == 0 || s.Batch.Decoding() == 0 {
		return
	}
	for i := range s.Decoding {
		s.Decoding[i].Base += int64(s.drafted(&s.Decoding[i]))
	}
	for i := range s.Batch.Sub {
		for k := range s.Batch.Sub[i].Host {
			d := &s.Batch.Sub[i].Host[k]
			if d.Last > s.Batch.Step {
				s.Host.Decoding[s.Host.Find(d.Request)].Base += int64(s.drafted(d))
			}
		}
	}
	slices.SortStableFunc(s.Decoding, func(a, b scheduler.Decoding) int { return cmp.Compare(b.Base, a.Base) })
	s.Dealt = -1
}
