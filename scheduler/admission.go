package scheduler

import (
	"math"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// dealEvery is the number of steps after which a choice is made anew although no request has come or gone: decoding requests
// are dealt to the sub-batches, and a request that was refused for expected growth asks again. All contexts grow alike: the
// token sums of two sub-batches drift apart by at most the difference in requests a step.
const dealEvery = 64

// refusalIsOld says whether a request that was refused for growth may ask again: dealEvery
// steps have passed, and the forecast has changed as requests grew.
func (s *State) refusalIsOld() bool {
	return s.queue.refusal.cause == noGrowth && s.batch.Step-s.queue.refusal.step >= dealEvery
}

// admit reserves memory for the queue's head.
func (s *State) admit(w *waiting) bool {
	if s.seated() {
		return s.refuse(noSeat, false)
	}
	return s.reserve(w, false)
}

// reserve takes memory of the host, or of the ledger, for the queue's head.
func (s *State) reserve(w *waiting, onHost bool) bool {
	r := &s.requests[w.request]
	window := s.window(r)
	if !s.hasWindow(w, window, 0) {
		return s.refuse(noMemory, onHost)
	}
	if !s.hasWindow(w, window, s.batch.tokens()) {
		return false // the next iteration may have fewer tokens
	}
	l, length, h, keep, f := s.memoryOf(onHost), s.reserved(w), s.history(w), s.keepFree(r, onHost), s.foresee(w, onHost)
	if w.hold, w.held = l.Reserve(length, &h, keep, f); w.held {
		s.queue.blocked = false
		w.prefix, w.finished = w.hold.Shared, w.hold.Shared
		w.hold.Window, w.hold.Host = window, onHost
		s.usage.windows += window
		return true
	}
	if f != nil && len(l.room(length, &h, keep, nil)) > 0 {
		return s.refuse(noGrowth, onHost)
	}
	return s.refuse(noMemory, onHost)
}

// refuse makes the head of the queue wait until memory is freed.
func (s *State) refuse(cause refusalCause, onHost bool) bool {
	why := &s.queue.refusal
	if onHost {
		why = &s.host.refusal
	}
	s.queue.blocked, *why = true, refusal{cause, s.batch.Step}
	return false
}

// reserved returns the length that admission reserves for w.
func (s *State) reserved(w *waiting) Length {
	if s.grows() {
		return prompted(w.prompt)
	}
	return Length{w.prompt, s.finalTokens(&s.requests[w.request])}
}

// history returns what is known of a prompt's tokens, without the last one, which must be computed. It is empty where the GPUs
// need the cached prefix in their memory and it might not fit.
func (s *State) history(w *waiting) history {
	if s.GPU.fetches() {
		step := w.prompt
		if s.Scheduler.Chunking {
			step = min(step, s.Scheduler.ChunkMultiple)
		}
		if !s.GPU.fits(step, w.prompt) {
			return history{}
		}
	}
	return historyOf(&s.requests[w.request], w.prompt-1)
}

// window returns the tokens of a request that stay on the GPUs at most.
func (s *State) window(r *traces.Request) int {
	more, final := int(math.Ceil(float64(s.GPU.PromptShare*float64(r.Input)))), s.finalTokens(r)
	return min(s.GPU.Window+more, final) + int(math.Ceil(float64(s.GPU.Share*float64(final))))
}

// hasWindow says whether the GPUs have room for the window of w, beside those of others, cut
// prompts, and the activations of a step of w's prompt and of batched other tokens.
func (s *State) hasWindow(w *waiting, window, batched int) bool {
	return window == 0 || s.GPU.fits(batched+min(w.prompt, s.Scheduler.ChunkMultiple), s.usage.kv()+window)
}

// seated says whether all seats are taken: MaxNumSeqs requests run.
func (s *State) seated() bool {
	return s.Batching.MaxNumSeqs > 0 && s.running() >= s.Batching.MaxNumSeqs
}

// running returns the number of requests that decode, swap in or prefill.
func (s *State) running() int {
	return len(s.decoding) + len(s.host.swapIns) + len(s.host.decoding) + s.prefilling(false) + s.prefilling(true)
}

// prefilling returns the number of requests with a prompt to prefill that have memory, of
// the host or else of the GPUs.
func (s *State) prefilling(onHost bool) int {
	n := 0
	s.eachPrefilling(onHost, func(*waiting) { n++ })
	return n
}

// eachPrefilling visits the requests whose prompts are under way, in one of the two memories.
func (s *State) eachPrefilling(onHost bool, do func(*waiting)) {
	for _, list := range [...][]waiting{s.chunked, s.queue.held()} {
		for i := range list {
			if w := &list[i]; w.hold.Host == onHost {
				do(w)
			}
		}
	}
}

// keepFree returns the units of every rank of a memory that the admission of a request leaves free, so that the
// requests there can grow. A request in an empty memory may take all of it. On the host, a request that could
// wait for the GPUs instead leaves enough for all requests on the GPUs to swap out.
func (s *State) keepFree(r *traces.Request, onHost bool) (keep int64) {
	if !s.grows() {
		return 0
	}
	if l := s.memoryOf(onHost); l.Used() > 0 {
		keep = l.shareOfRank(s.Memory.Watermark)
	}
	if onHost && s.gpusHold(r) {
		keep = max(keep, s.Ledger.Used())
	}
	return keep
}

// foresee forecasts the memory that w and the requests in one of the memories will need. It is nil where only present
// lengths count.
func (s *State) foresee(w *waiting, onHost bool) *forecast {
	if s.forecast == nil {
		return nil
	}
	s.forecast.clear()
	if onHost {
		for i := range s.host.decoding {
			h := &s.host.decoding[i]
			s.foreseeDecoding(&h.Decoding, h.nextContext(s.batch.Step))
		}
	} else {
		step := s.batch.Step
		if s.Policy == PolicyPrefillFirst { // prompts run before the next step
			step++
		}
		for i := range s.decoding {
			s.foreseeDecoding(&s.decoding[i], s.decoding[i].Context(step))
		}
		for i := range s.host.swapIns {
			m := &s.host.swapIns[i]
			s.foreseeDecoding(&m.Decoding, m.Context(m.settled))
		}
	}
	s.eachPrefilling(onHost, func(w *waiting) { s.forecast.addHolder(&w.hold, w.prompt-w.emitted, w.emitted) })
	s.forecast.add(0, w.prompt-w.emitted, w.emitted)
	s.forecast.foresee(s.memoryOf(onHost))
	return s.forecast
}

// foreseeDecoding adds a decoding request with its context.
func (s *State) foreseeDecoding(d *Decoding, context int) {
	input := s.requests[d.Request].Input
	s.forecast.addHolder(&s.holds[d.Request], input, context-input)
}

// KVTokens returns the number of tokens of a request with keys and values at its end.
// It excludes the last output token, whose key and value are never read.
func KVTokens(r *traces.Request) int { return r.Input + r.Output - 1 }

// final returns the length for which a request has memory at its end, with the longest prompt
// that it may have.
func (s *State) final(r *traces.Request) Length {
	return Length{s.longestPrompt(r), s.finalTokens(r)}
}

// finalTokens returns the KV tokens for which a request has memory at its end.
func (s *State) finalTokens(r *traces.Request) int {
	if s.Memory.Admission == AdmitMax {
		return max(s.Memory.MaxTokens, KVTokens(r))
	}
	return KVTokens(r)
}

// longestPrompt returns the most tokens that a request may have to prefill. After a
// preemption the tokens that it has emitted are part of its prompt.
func (s *State) longestPrompt(r *traces.Request) int {
	if s.grows() {
		return KVTokens(r)
	}
	return r.Input
}

// canRunOnGPUs says whether r fits the empty ledger and the GPUs. Its prompt must fit
// the GPUs in the smallest steps that the scheduler takes; the last chunk needs
// the KV of all earlier chunks on the GPU. The prompt of a preempted request can grow to
// its final length.
func (s *State) canRunOnGPUs(r *traces.Request) bool {
	return s.Ledger.FitsEmpty(s.final(r)) && s.leastOnGPU(r) <= s.GPU.Free
}

// leastOnGPU returns the memory of the GPUs that a request takes at least: its window and the smallest steps of its prompt.
func (s *State) leastOnGPU(r *traces.Request) units.Bytes {
	return s.GPU.least(s.longestPrompt(r), s.Scheduler) + s.GPU.kv(s.window(r))
}

// Rejection says why Add rejects a request. Its final length must fit the larger of both
// memories. A prompt in chunks that goes to the host must fit the ledger until its last chunk.
func (s *State) Rejection(request int32) Rejection {
	r := &s.requests[request]
	most, fits := s.Ledger.most(), s.Ledger.FitsEmpty(s.final(r))
	if s.HostLedger != nil {
		cut, prompt := most, s.longestPrompt(r)
		if most = max(most, s.HostLedger.most()); s.AllOnHost {
			most = s.HostLedger.most()
		}
		if fits = s.finalTokens(r) <= most; fits && prompt > cut {
			return Rejection{KVTokens: prompt, MostKVTokens: cut}
		}
	}
	if !fits {
		return Rejection{KVTokens: s.finalTokens(r), MostKVTokens: most}
	}
	return Rejection{Bytes: s.leastOnGPU(r), Free: s.GPU.Free}
}
