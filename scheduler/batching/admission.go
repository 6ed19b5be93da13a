package batching

import (
	"math"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// DealEvery is the number of steps after which a choice is made again although no request has come or gone: decoding
// requests are dealt to the sub-batches anew, and a request refused for expected growth asks again. All contexts grow alike,
// so the token sums of two sub-batches drift apart by at most the difference in requests a step.
const DealEvery = 64

// askEvery: a request refused for growth asks again askEvery times while an average output is emitted, since the forecast
// changes. Requests that start together need most memory together, so another one fits only once they have emitted some tokens.
const askEvery = 8

// AskAfter returns the number of steps after which a request refused for growth or lack of gain may ask again: DealEvery, or an
// eighth of the mean output where that is less.
func (s *State) AskAfter() int64 { return min(DealEvery, max(1, int64(s.outputs.Mean(0)/askEvery))) }

// IsOld says whether a request refused for growth or lack of gain may ask again, because AskAfter
// steps have passed.
func (s *State) IsOld(r Refusal) bool {
	return (r.Cause == NoGrowth || r.Cause == NoGain) && s.Batch.Step-r.step >= s.AskAfter()
}

// Admit reserves memory for the queue's head.
func (s *State) Admit(w *Waiting) bool {
	if s.Seated() {
		return s.Refuse(NoSeat, false)
	}
	return s.Reserve(w, false)
}

// Reserve takes memory of the host, or of the ledger, for the queue's head.
func (s *State) Reserve(w *Waiting, onHost bool) bool {
	r := &s.Requests[w.Request]
	window := s.window(r)
	if !s.hasWindow(w, window, 0) {
		return s.Refuse(noMemory, onHost)
	}
	if !s.hasWindow(w, window, s.Batch.Tokens()) {
		return false // the next iteration may have fewer tokens
	}
	l, length, h, keep, f := s.memoryOf(onHost), s.Reserved(w), s.history(w), s.KeepFree(w, onHost), s.Foresee(w, onHost)
	if w.Hold, w.held = l.Reserve(length, &h, keep, f); w.held {
		s.Queue.Blocked = false
		w.prefix, w.finished = w.Hold.Shared, w.Hold.Shared
		if w.fresh() {
			w.others = w.prefix
		}
		w.Hold.Window, w.Hold.Host = window, onHost
		s.Usage.windows += window
		return true
	}
	if f != nil && len(l.Room(length, &h, keep, nil)) > 0 {
		return s.Refuse(NoGrowth, onHost)
	}
	return s.Refuse(noMemory, onHost)
}

// Refuse makes the head of the queue wait until memory is freed.
func (s *State) Refuse(cause refusalCause, onHost bool) bool {
	why := &s.Queue.Refusal
	if onHost {
		why = &s.Host.Refusal
	}
	s.Queue.Blocked, *why = true, Refusal{cause, s.Batch.Step}
	return false
}

// Reserved returns the length that admission reserves for w.
func (s *State) Reserved(w *Waiting) memory.Length {
	if s.Grows() {
		return memory.Prompted(w.Prompt)
	}
	return memory.Length{Prompt: w.Prompt, Tokens: s.FinalTokens(&s.Requests[w.Request])}
}

// history returns what is known of a prompt's tokens, without the last one, which must be computed. It is empty if the cached
// prefix must come to the GPUs' memory and might not fit there.
func (s *State) history(w *Waiting) memory.History {
	if s.GPU.Fetches() {
		step := w.Prompt
		if s.Scheduler.Chunking {
			step = min(step, s.Scheduler.ChunkMultiple)
		}
		if !s.GPU.Fits(step, w.Prompt) {
			return memory.History{}
		}
	}
	return memory.HistoryOf(&s.Requests[w.Request], w.Request, w.Prompt-1)
}

// window returns the largest number of a request's tokens that stay on the GPUs.
func (s *State) window(r *traces.Request) int {
	more, final := int(math.Ceil(float64(s.GPU.PromptShare*float64(r.Input)))), s.FinalTokens(r)
	return min(s.GPU.Window+more, final) + int(math.Ceil(float64(s.GPU.Share*float64(final))))
}

// hasWindow says whether the GPUs have room for the window of w beside other windows, cut prompts,
// and the activations of a step of w's prompt and batched other tokens.
func (s *State) hasWindow(w *Waiting, window, batched int) bool {
	return window == 0 || s.GPU.Fits(batched+min(w.Prompt, s.Scheduler.ChunkMultiple), s.Usage.kv()+window)
}

// Seated says whether all seats are taken: MaxNumSeqs requests run. One that ended during the
// present iteration still counts.
func (s *State) Seated() bool { return s.Batching.MaxNumSeqs > 0 && s.Seats() <= 0 }

// Seats returns how many more requests MaxNumSeqs lets run.
func (s *State) Seats() int { return s.Batching.MaxNumSeqs - s.running() - len(s.during.ended) }

// running returns the number of requests that decode, swap in or prefill.
func (s *State) running() int {
	return len(s.Decoding) + len(s.Host.SwapIns) + len(s.Host.Decoding) + s.prefilling(false) + s.prefilling(true)
}

// prefilling returns the number of requests in one of the two memories that still have prompt
// tokens to prefill.
func (s *State) prefilling(onHost bool) int {
	n := 0
	s.EachPrefilling(onHost, func(*Waiting) { n++ })
	return n
}

// EachPrefilling visits the requests whose prompts are under way, in one of the two memories.
func (s *State) EachPrefilling(onHost bool, do func(*Waiting)) {
	for _, list := range [...][]Waiting{s.chunked, s.Queue.Held()} {
		for i := range list {
			if w := &list[i]; w.Hold.Host == onHost {
				do(w)
			}
		}
	}
}

// KeepFree returns the units of every rank that admission of a request must leave free, so that running
// requests can grow. A request in an empty memory may take all of it. On the host, a request that could wait
// for the GPUs instead leaves enough for all requests on the GPUs to swap out.
func (s *State) KeepFree(w *Waiting, onHost bool) (keep int64) {
	if !s.Grows() {
		return 0
	}
	if l := s.memoryOf(onHost); l.Used() > 0 {
		keep = l.ShareOfRank(s.Memory.Watermark)
	}
	if onHost && s.GPUsHold(w.Request, w.Prompt) {
		keep = max(keep, s.Ledger.Used())
	}
	return keep
}

// Foresee forecasts the memory that w and the requests in one of the memories will need. It is nil if admission looks
// at present lengths only.
func (s *State) Foresee(w *Waiting, onHost bool) *memory.Forecast {
	if s.forecast == nil {
		return nil
	}
	s.forecast.Clear()
	if onHost {
		for i := range s.Host.Decoding {
			h := &s.Host.Decoding[i]
			s.foreseeDecoding(&h.Decoding, h.NextContext(s.Batch.Step))
		}
	} else {
		step := s.Batch.Step
		if s.Policy == scheduler.PolicyPrefillFirst { // prompts run before the next step
			step++
		}
		for i := range s.Decoding {
			if d := &s.Decoding[i]; !s.Holds[d.Request].Near {
				s.foreseeDecoding(d, d.Context(step))
			}
		}
		for i := range s.Host.SwapIns {
			m := &s.Host.SwapIns[i]
			s.foreseeDecoding(&m.Decoding, m.Context(m.Settled))
		}
	}
	s.EachPrefilling(onHost, func(w *Waiting) {
		if !w.Hold.Near {
			s.forecast.AddHolder(&w.Hold, w.Prompt-w.Emitted, w.Emitted)
		}
	})
	s.forecast.Add(0, w.Prompt-w.Emitted, w.Emitted)
	s.forecast.Foresee(s.memoryOf(onHost))
	return s.forecast
}

// foreseeDecoding adds a decoding request with its context.
func (s *State) foreseeDecoding(d *scheduler.Decoding, context int) {
	input := s.Requests[d.Request].Input
	s.forecast.AddHolder(&s.Holds[d.Request], input, context-input)
}

// KVTokens returns the number of tokens of a request whose keys and values are stored at its end:
// all but the last output token, whose key and value are never read.
func KVTokens(r *traces.Request) int { return r.Input + r.Output - 1 }

// final returns the length for which a request holds memory at its end, with the longest prompt
// that it may have.
func (s *State) final(r *traces.Request) memory.Length {
	return memory.Length{Prompt: s.longestPrompt(r), Tokens: s.FinalTokens(r)}
}

// FinalTokens returns the KV tokens for which a request holds memory at its end, the drafts of its last step included.
func (s *State) FinalTokens(r *traces.Request) int {
	final := KVTokens(r) + s.lookAhead()
	if s.Memory.Admission == scheduler.AdmitMax {
		return max(s.Memory.MaxTokens, final)
	}
	return final
}

// longestPrompt returns the most tokens that a request may have to prefill. After a
// preemption the tokens that it has emitted are part of its prompt.
func (s *State) longestPrompt(r *traces.Request) int {
	if s.Grows() {
		return KVTokens(r)
	}
	return r.Input
}

// canRunOnGPUs says whether r fits the empty ledger and the GPUs. Its prompt must fit the GPUs in
// the smallest steps that the scheduler takes; the last chunk needs the KV of all earlier chunks
// there. The prompt of a preempted request can grow to its final length.
func (s *State) canRunOnGPUs(r *traces.Request) bool {
	return s.Ledger.FitsEmpty(s.final(r)) && s.leastOnGPU(r) <= s.GPU.Free
}

// leastOnGPU returns the least GPU memory that a request takes: its window and the smallest steps of its prompt.
func (s *State) leastOnGPU(r *traces.Request) units.Bytes {
	return s.GPU.Least(s.longestPrompt(r), s.Scheduler) + s.GPU.KVBytes(s.window(r))
}

// Rejection says why Add rejects a request. Its final length must fit the larger of both
// memories. A prompt in chunks that goes to the host must fit the ledger until its last chunk.
func (s *State) Rejection(request int32) scheduler.Rejection {
	r := &s.Requests[request]
	most, fits := s.Ledger.Most(), s.Ledger.FitsEmpty(s.final(r))
	if s.HostLedger != nil {
		cut, prompt := most, s.longestPrompt(r)
		if most = max(most, s.HostLedger.Most()); s.AllOnHost {
			most = s.HostLedger.Most()
		}
		if fits = s.FinalTokens(r) <= most; fits && prompt > cut {
			return scheduler.Rejection{KVTokens: prompt, MostKVTokens: cut}
		}
	}
	if !fits {
		return scheduler.Rejection{KVTokens: s.FinalTokens(r), MostKVTokens: most}
	}
	return scheduler.Rejection{Bytes: s.leastOnGPU(r), Free: s.GPU.Free}
}
