package batching

import (
	"github.com/l3sim/l3sim/scheduler"
	"slices"
)

// GrowAll extends the memory of every decoding request to its next context, oldest request first. If a rank is full,
// makeRoom preempts a request and returns it. If the GPUs' spare memory is full, a request there loses its memory.
func (s *State) GrowAll(makeRoom func() int32) {
	var short []int32
	for i := range s.Decoding {
		d := &s.Decoding[i]
		if d.Context(s.Batch.Step)+s.lookAhead() > s.Holds[d.Request].Tokens {
			short = append(short, d.Request)
		}
	}
	slices.Sort(short)
	for _, request := range short {
		room := makeRoom
		if s.Holds[request].Near {
			room = s.makeRoomNear
		}
		for !s.grow(request) {
			if room() == request {
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
	hold, context := &s.Holds[request], s.Decoding[i].Context(s.Batch.Step)+s.lookAhead()
	if hold.Near {
		return s.GPU.Spare.GrowBeside(hold, context, s.GPU.BesideSpare(len(s.Decoding)*s.Speculation.Tokens(), s.Usage.kv()))
	}
	return s.Ledger.Grow(hold, context)
}

// makeRoom preempts the request that arrived last, to be recomputed later (as in vLLM: Kwon et al.,
// SOSP 2023, section 4.5), and returns it. Requests that hold memory and still prefill arrived
// after those that decode.
func (s *State) makeRoom() int32 { return s.makeRoomIn(false) }

// makeRoomNear is makeRoom for the GPUs' spare memory.
func (s *State) makeRoomNear() int32 { return s.makeRoomIn(true) }

// makeRoomIn is makeRoom for one of two memories. Requests that keep memory stay at the head of the queue, so all prompts
// that arrived after the preempted one lose their memory, too.
func (s *State) makeRoomIn(near bool) int32 {
	held := s.Queue.Held()
	for i := len(held) - 1; i >= 0; i-- {
		found := held[i].Hold.Near == near
		if request := s.DropQueued(&held[i]); found {
			return request
		}
	}
	at := -1
	for i := range s.Decoding {
		if r := s.Decoding[i].Request; s.Holds[r].Near == near && (at < 0 || r > s.Decoding[at].Request) {
			at = i
		}
	}
	return s.DropDecoding(at)
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

// DropQueued takes the memory of a request that prefills. Its prompt starts again after the part that a cache still
// has.
func (s *State) DropQueued(w *Waiting) int32 {
	s.freeGPU(w)
	s.keepPrefix(w.Request, &w.Hold, w.finished)
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

// Drop takes the memory of a request that decoded, and returns the request to the queue by its arrival. The tokens that it
// has emitted become part of its prompt.
func (s *State) Drop(d *scheduler.Decoding) {
	s.Dealt = -1
	r := &s.Requests[d.Request]
	tokens := r.Output - int(d.Last-s.Batch.Step+1)
	if s.Speculation.Ahead() > 0 { // steps that are left emit several tokens each
		tokens = s.emittedBefore(d)
	}
	s.keepPrefix(d.Request, &s.Holds[d.Request], r.Input+tokens-1) // the last token has no key and value yet
	s.Release(s.Holds[d.Request])
	s.near.longest = max(s.near.longest, r.Input+tokens)
	// With two memories, one may preempt a request after the other has preempted older ones.
	s.Queue.insert(Waiting{Request: d.Request, Prompt: r.Input + tokens, Emitted: tokens})
	s.Preemptions++
	s.gone = append(s.gone, scheduler.Preemption{Request: d.Request, Tokens: tokens})
	s.Batch.Pauses = slices.DeleteFunc(s.Batch.Pauses, func(p scheduler.Pause) bool { return p.Request == d.Request })
}
