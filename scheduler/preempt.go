package scheduler

import "slices"

// growAll extends the memory of every decoding request to its next context, oldest request
// first. Where a rank is full, makeRoom takes the memory of a request and returns that request.
func (s *State) growAll(makeRoom func() int32) {
	var short []int32
	for i := range s.decoding {
		d := &s.decoding[i]
		if d.Context(s.batch.Step) > s.holds[d.Request].Tokens {
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
	i := slices.IndexFunc(s.decoding, func(d Decoding) bool { return d.Request == request })
	if i < 0 {
		return true
	}
	return s.Ledger.Grow(&s.holds[request], s.decoding[i].Context(s.batch.Step))
}

// makeRoom takes the memory of the request that arrived last, which is computed again
// later (as in vLLM: Kwon et al., SOSP 2023, section 4.5), and returns that request.
// Requests that have memory and still prefill arrived after those that decode.
func (s *State) makeRoom() int32 {
	if held := s.queue.held(); len(held) > 0 {
		return s.dropQueued(&held[len(held)-1])
	}
	return s.dropDecoding(s.latest())
}

// latest returns the index of the decoding request that arrived last.
func (s *State) latest() int {
	at := 0
	for i := range s.decoding {
		if s.decoding[i].Request > s.decoding[at].Request {
			at = i
		}
	}
	return at
}

// dropQueued takes the memory of a request that prefills. Its prompt starts again from
// the first token.
func (s *State) dropQueued(w *waiting) int32 {
	s.freeGPU(w)
	s.release(w.hold)
	w.held, w.finished = false, 0
	s.Preemptions++
	return w.request
}

// dropDecoding takes the memory of a decoding request.
func (s *State) dropDecoding(at int) int32 {
	d := s.decoding[at]
	s.decoding = slices.Delete(s.decoding, at, at+1)
	s.drop(&d)
	return d.Request
}

// drop takes the memory of a request that decoded, and returns the request to the head of
// the queue. The tokens that it has emitted become part of its prompt.
func (s *State) drop(d *Decoding) {
	s.dealt = -1
	s.release(s.holds[d.Request])
	r := &s.requests[d.Request]
	tokens := r.Output - int(d.Last-s.batch.Step+1)
	s.queue.pushFront(waiting{request: d.Request, prompt: r.Input + tokens, emitted: tokens})
	s.Preemptions++
	s.gone = append(s.gone, Preemption{Request: d.Request, Tokens: tokens})
	s.batch.Pauses = slices.DeleteFunc(s.batch.Pauses, func(p Pause) bool { return p.Request == d.Request })
}
