package scheduler

import (
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/traces"
)

// refusal is the reason why the head of the queue may not start.
type refusal struct {
	cause refusalCause
	step  int64 // the step of the refusal
}

// refusalCause is why a request was not admitted: it says after which event to ask again.
type refusalCause int

const (
	noMemory refusalCause = iota // its tokens do not fit
	noGrowth                     // its tokens fit now, but not after the expected growth of requests
	noSeat                       // MaxNumSeqs requests run
)

// admit reserves memory for the queue's head.
func (s *Scheduler) admit(w *waiting) bool {
	if s.seated(s.running()) {
		return s.refuse(noSeat)
	}
	return s.reserve(s.ledger, w, s.foresee(w), s.keep(s.ledger))
}

// reserve takes memory of l for the queue's head, and leaves keep units of every rank free.
func (s *Scheduler) reserve(l *Ledger, w *waiting, f *forecast, keep int64) bool {
	length := s.reserved(w)
	window := s.window(&s.requests[w.request])
	if !s.hasWindow(w, window, 0) {
		return s.refuse(noMemory)
	}
	if !s.hasWindow(w, window, s.batch.tokens()) {
		return false // the next iteration may have fewer tokens
	}
	h := s.history(w)
	if w.hold, w.held = l.reserve(length, &h, keep, f, s.comm.Balance, s.rng); w.held {
		s.blocked = false
		w.prefix = w.hold.Shared
		w.finished = w.prefix
		w.hold.Window = window
		s.windows += window
		return true
	}
	if f != nil && len(l.room(length, &h, keep, nil)) > 0 {
		return s.refuse(noGrowth)
	}
	return s.refuse(noMemory)
}

// reserved returns the length that admission reserves for w.
func (s *Scheduler) reserved(w *waiting) Length {
	r := Length{w.prompt, w.prompt}
	switch final := KVTokens(&s.requests[w.request]); s.memory.Admission {
	case AdmitCurrent:
	case AdmitMax:
		r.Tokens = max(s.memory.MaxTokens, final)
	default:
		r.Tokens = final
	}
	return r
}

// history returns what is known of a prompt's tokens, without the last one, which must be computed. It is empty where the GPUs
// need the cached prefix in their memory and it might not fit.
func (s *Scheduler) history(w *waiting) history {
	if s.gpu.fetches() {
		step := w.prompt
		if s.spec.Chunking {
			step = min(step, s.spec.ChunkMultiple)
		}
		if !s.gpu.fits(step, w.prompt) {
			return history{}
		}
	}
	return historyOf(&s.requests[w.request], w.prompt-1)
}

// window returns the tokens of a request that stay on the GPUs at most.
func (s *Scheduler) window(r *traces.Request) int {
	more, final := int(math.Ceil(float64(s.gpu.PromptShare*float64(r.Input)))), s.finalTokens(r)
	return min(s.gpu.Window+more, final) + int(math.Ceil(float64(s.gpu.Share*float64(final))))
}

// hasWindow says whether the GPUs have room for the window of w, beside those of others, cut
// prompts, and the activations of a step of w's prompt and of batched other tokens.
func (s *Scheduler) hasWindow(w *waiting, window, batched int) bool {
	return window == 0 || s.gpu.fits(batched+min(w.prompt, s.spec.ChunkMultiple), s.kvOnGPU+s.windows+window)
}

// refuse makes the head of the queue wait until memory is freed.
func (s *Scheduler) refuse(cause refusalCause) bool {
	s.blocked, s.refusal = true, refusal{cause, s.batch.Step}
	return false
}

// seated says whether all seats are taken: MaxNumSeqs is reached by running requests,
// which decode or will decode after their prompt.
func (s *Scheduler) seated(running int) bool {
	return s.batching.MaxNumSeqs > 0 && running >= s.batching.MaxNumSeqs
}

// running returns the number of requests that decode, swap in or prefill.
func (s *Scheduler) running() int {
	return len(s.decoding) + len(s.moving) + s.onHost + s.prefilling(false) + s.prefilling(true)
}

// prefilling returns the number of requests with a prompt to prefill that have memory, of
// the host or else of the GPUs.
func (s *Scheduler) prefilling(host bool) int {
	n := 0
	s.eachPrefilling(host, func(*waiting) { n++ })
	return n
}

// eachPrefilling visits the requests whose prompts are under way, in one of the two memories.
func (s *Scheduler) eachPrefilling(host bool, do func(*waiting)) {
	for i := range s.chunked {
		if w := &s.chunked[i]; w.hold.Host == host {
			do(w)
		}
	}
	for i := s.head; i < len(s.queue) && s.queue[i].held; i++ {
		if w := &s.queue[i]; w.hold.Host == host {
			do(w)
		}
	}
}

// checkRefusal returns an error where the reason why the head of the queue was refused a
// memory is not true. keep units of every rank stay free. Refusals for growth are checked
// only in the iteration that made them: requests grow on after it.
func (s *Scheduler) checkRefusal(l *Ledger, w *waiting, keep int64, why refusal, running int, foresee func(*waiting) *forecast) error {
	switch why.cause {
	case noSeat:
		if !s.seated(running) {
			return fmt.Errorf("request %d waits, and only %d run", w.request, running)
		}
		return nil
	case noGrowth:
		if why.step != s.batch.Step {
			return nil
		}
	}
	length := s.reserved(w)
	if !s.hasWindow(w, s.window(&s.requests[w.request]), 0) {
		return nil
	}
	var f *forecast
	if why.cause == noGrowth {
		f = foresee(w)
	}
	h := s.history(w)
	for _, offset := range l.room(length, &h, keep, f) {
		return fmt.Errorf("request %d waits, and offset %d has room for its %d tokens", w.request, offset, length.Tokens)
	}
	return nil
}

// keep returns the units of every rank that an admission leaves free, so that the
// requests in memory can grow. A request in an empty memory may take all of it.
func (s *Scheduler) keep(l *Ledger) int64 {
	if s.memory.Admission != AdmitCurrent || l.Used() == 0 {
		return 0
	}
	return int64(s.memory.Watermark * float64(l.capacity))
}

// foresee forecasts the memory that w and the requests in the GPUs' memory, or in the only
// memory, will need. It is nil where only present lengths count.
func (s *Scheduler) foresee(w *waiting) *forecast {
	if s.forecast == nil {
		return nil
	}
	step := s.batch.Step
	if s.policy == PolicyPrefillFirst { // prompts run before the next step
		step++
	}
	s.forecast.clear()
	for i := range s.decoding {
		s.foreseeDecoding(&s.decoding[i], step)
	}
	for i := range s.moving {
		s.foreseeDecoding(&s.moving[i].Decoding, s.moving[i].settled)
	}
	s.foreseePrompts(s.ledger, w, false)
	return s.forecast
}

// foreseeDecoding adds a decoding request with its context at a step.
func (s *Scheduler) foreseeDecoding(d *Decoding, step int64) {
	input := s.requests[d.Request].Input
	s.forecast.addHolder(&s.holds[d.Request], input, d.Context(step)-input)
}

// foreseePrompts adds the requests that prefill, and w last, as the one to be admitted.
func (s *Scheduler) foreseePrompts(l *Ledger, w *waiting, host bool) {
	s.eachPrefilling(host, func(w *waiting) { s.forecast.addHolder(&w.hold, w.prompt-w.emitted, w.emitted) })
	s.forecast.add(0, w.prompt-w.emitted, w.emitted)
	s.forecast.foresee(l)
}

// enqueue puts a request at the end of the queue. Places of requests that have left it are
// used again once they are most of it, but for some that stay for those that come back.
func (s *Scheduler) enqueue(w waiting) {
	const back = 256
	if s.head > 4*back && s.head > len(s.queue)/2 {
		s.queue = append(s.queue[:back], s.queue[s.head:]...)
		s.head = back
	}
	s.queue = append(s.queue, w)
}

// pushFront returns a request to the head of the queue.
func (s *Scheduler) pushFront(w waiting) {
	if s.head == 0 {
		s.queue, s.head = slices.Insert(s.queue, 0, waiting{}), 1
	}
	s.head--
	s.queue[s.head] = w
	s.blocked = false
}

// Waiting returns the requests that still have prompt tokens to prefill.
func (s *Scheduler) Waiting() int { return len(s.queue) - s.head }
