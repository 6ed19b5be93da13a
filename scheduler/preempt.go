package scheduler

import "slices"

// Preemption is a request that gave up its memory.
type Preemption struct {
	Request int32
	Tokens  int // tokens emitted so far
}

// Preempted returns the decoding requests that lost their memory when Next formed the
// latest batch, in that order. The result is valid until the next call of Next.
func (s *Scheduler) Preempted() []Preemption { return s.gone }

// Preemptions returns how often requests lost their memory, while they decoded or
// before their prompt ended.
func (s *Scheduler) Preemptions() int64 { return s.preemptions }

// WholePrompts returns how many prompts ran whole that the policy would have cut, as the GPUs had no
// room for the keys and values of a cut one, and the tokens of the longest. All that decodes waits
// for such a prompt.
func (s *Scheduler) WholePrompts() (prompts int64, longest int) {
	return s.wholePrompts, s.longestWhole
}

// RecomputedContexts returns the sum of the contexts of output tokens that came from a
// recomputed prompt and not from a decode step.
func (s *Scheduler) RecomputedContexts() int64 { return s.recomputed }

// grow extends the memory of every decoding request to its next context, oldest request
// first. Where a rank is full, the request that arrived last gives up its memory, and is
// computed again later (as in vLLM: Kwon et al., SOSP 2023, section 4.5). Offload may
// swap it out to the host instead.
func (s *Scheduler) grow() {
	var short []int32
	for i := range s.decoding {
		d := &s.decoding[i]
		if d.Context(s.batch.Step) > s.holds[d.Request].Tokens {
			short = append(short, d.Request)
		}
	}
	slices.Sort(short)
	for _, request := range short {
		for !s.growOne(request) {
			if s.place.makeRoom() == request {
				break
			}
		}
	}
}

// growOne extends the memory of a decoding request by whole units. It returns true also
// for a request that no longer decodes.
func (s *Scheduler) growOne(request int32) bool {
	i := slices.IndexFunc(s.decoding, func(d Decoding) bool { return d.Request == request })
	if i < 0 {
		return true
	}
	return s.ledger.Grow(&s.holds[request], s.decoding[i].Context(s.batch.Step))
}

// makeRoom takes the memory of the request that arrived last and returns it.
// Requests that have memory and still prefill arrived after those that decode.
func (s *Scheduler) makeRoom() int32 {
	last := -1
	for i := s.head; i < len(s.queue) && s.queue[i].held; i++ {
		last = i
	}
	if last >= 0 {
		return s.dropQueued(&s.queue[last])
	}
	return s.dropDecoding(s.latest())
}

// latest returns the index of the decoding request that arrived last.
func (s *Scheduler) latest() int {
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
func (s *Scheduler) dropQueued(w *waiting) int32 {
	s.freeGPU(w)
	s.place.release(w.hold)
	w.held, w.finished = false, 0
	s.preemptions++
	return w.request
}

// dropDecoding takes the memory of a decoding request.
func (s *Scheduler) dropDecoding(at int) int32 {
	d := s.decoding[at]
	s.decoding = slices.Delete(s.decoding, at, at+1)
	s.drop(&d)
	return d.Request
}

// drop takes the memory of a request that decoded, and returns the request to the head of
// the queue. The tokens that it has emitted become part of its prompt.
func (s *Scheduler) drop(d *Decoding) {
	s.dealt = -1
	s.place.release(s.holds[d.Request])
	r := &s.requests[d.Request]
	tokens := r.Output - int(d.Last-s.batch.Step+1)
	s.pushFront(waiting{request: d.Request, prompt: r.Input + tokens, emitted: tokens})
	s.preemptions++
	s.gone = append(s.gone, Preemption{Request: d.Request, Tokens: tokens})
	s.batch.Pauses = slices.DeleteFunc(s.batch.Pauses, func(p Pause) bool { return p.Request == d.Request })
}
