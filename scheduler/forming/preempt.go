package forming

import (
	"github.com/l3sim/l3sim/scheduler"
	"slices"
)

// GrowAll extends the memory of every decoding request to its next context, oldest request
// first. Where a rank is full, makeRoom takes the memory of a request and returns that request.
func (s *State) GrowAll(makeRoom func() int32) {
	var short []int32
	for i := range s.Decoding {
		d := &s.Decoding[i]
		if d.Context(s.Batch.Step) > s.Holds[d.Request].Tokens {
			short = append(short, d.Request)
		}
	}
	slices.Sort(short)
	for _, request := range short {
		for !s.grow(request) {
			if makeRoom() == request {
				break
			}
		}
	}
}

// grow extends the memory of a decoding request by whole units. It returns true also
// for a request that no longer decodes.
func (s *State) grow(request int32) bool {
	i := slices.IndexFunc(s.Decoding, func(d scheduler.Decoding) bool { return d.Request == request })
	if i < 0 {
		return true
	}
	return s.Ledger.Grow(&s.Holds[request], s.Decoding[i].Context(s.Batch.Step))
}

// makeRoom takes the memory of the request that arrived last, which is computed again
// later (as in vLLM: Kwon et al., SOSP 2023, section 4.5), and returns that request.
// Requests that have memory and still prefill arrived after those that decode.
func (s *State) makeRoom() int32 {
	if held := s.Queue.Held(); len(held) > 0 {
		return s.DropQueued(&held[len(held)-1])
	}
	return s.DropDecoding(s.Latest())
}

// Latest returns the index of the decoding request that arrived last.
func (s *State) Latest() int {
	at := 0
	for i := range s.Decoding {
		if s.Decoding[i].Request > s.Decoding[at].Request {
			at = i
		}
	}
	return at
}

// DropQueued takes the memory of a request that prefills. Its prompt starts again from
// the first token.
func (s *State) DropQueued(w *Waiting) int32 {
	s.freeGPU(w)
	s.Release(w.Hold)
	w.held, w.finished = false, 0
	s.Preemptions++
	return w.Request
}

// DropDecoding takes the memory of a decoding request.
func (s *State) DropDecoding(at int) int32 {
	d := s.Decoding[at]
	s.Decoding = slices.Delete(s.Decoding, at, at+1)
	s.Drop(&d)
	return d.Request
}

// Drop takes the memory of a request that decoded, and returns the request to the head of
// the queue. The tokens that it has emitted become part of its prompt.
func (s *State) Drop(d *scheduler.Decoding) {
	s.Dealt = -1
	s.Release(s.Holds[d.Request])
	r := &s.Requests[d.Request]
	tokens := r.Output - int(d.Last-s.Batch.Step+1)
	s.Queue.pushFront(Waiting{Request: d.Request, Prompt: r.Input + tokens, Emitted: tokens})
	s.Preemptions++
	s.gone = append(s.gone, scheduler.Preemption{Request: d.Request, Tokens: tokens})
	s.Batch.Pauses = slices.DeleteFunc(s.Batch.Pauses, func(p scheduler.Pause) bool { return p.Request == d.Request })
}
