package batching

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// continuous forms iterations by the policies of continuous batching: PolicyPrefillFirst and PolicyChunkedPrefill.
type continuous struct {
	dealer
	streak Streak
}

// Form implements Former.
func (f *continuous) Form(s *State) {
	if s.Policy == scheduler.PolicyChunkedPrefill {
		f.chunkedPrefill(s)
	} else {
		f.prefillFirst(s)
	}
}

// prefillFirst forms an iteration of prompts alone if memory has room for the next prompt, else one
// in which all requests decode. It cuts only prompts longer than MaxBatchTokens, which then run
// alone.
func (f *continuous) prefillFirst(s *State) {
	decoding := len(s.Decoding)
	if s.Queue.Asks() && !f.streak.Over(s.PrefillStreak, decoding) {
		f.clear(s)
		s.Fill(s.Admit)
		if f.streak.Next(len(s.Batch.Sub[0].Prefill) > 0, decoding) {
			return
		}
	}
	f.streak.Next(false, 0)
	if f.nextStep(s) {
		f.adapt(s)
	}
}

// chunkedPrefill forms an iteration in which all requests decode, filled up with
// prompt tokens.
func (f *continuous) chunkedPrefill(s *State) {
	dealt, prompts := f.nextStep(s), s.Queue.Asks()
	if prompts {
		f.apart(s)
		s.Fill(s.Admit)
	}
	if dealt || prompts {
		f.adapt(s)
	}
}

// Fill adds prompts to the first sub-batch, up to MaxBatchTokens and as long as admit finds memory
// for the head of the queue.
func (s *State) Fill(admit func(*Waiting) bool) {
	for s.Queue.Len() > 0 && s.budget() > 0 {
		w := s.Queue.First()
		if !w.held && !admit(w) {
			return
		}
		left := w.Prompt - w.finished
		tokens := s.Takes(w)
		if tokens == 0 || tokens < left && !s.stage(w) {
			return
		}
		s.take(0, w, tokens)
		if tokens < left && tokens != s.PromptShare {
			return
		}
	}
}

// budget returns how many more tokens MaxBatchTokens allows in the iteration.
func (s *State) budget() int { return s.Batching.MaxBatchTokens - s.Batch.Tokens() }

// Takes returns how many prompt tokens of w fit the iteration's token limit; it ignores memory for
// keys and values. Chunked prefill cuts the last prompt to fit. Without it, a prompt longer than
// MaxBatchTokens runs alone.
func (s *State) Takes(w *Waiting) int {
	left, budget, alone := w.Prompt-w.finished, s.budget(), len(s.Batch.Sub[0].Prefill) == 0
	most := left
	if s.PromptShare > 0 {
		most = min(left, s.PromptShare)
	}
	if most > budget && s.Policy != scheduler.PolicyChunkedPrefill && !alone {
		return 0
	}
	tokens := s.roomOnGPU(w, min(most, budget), left)
	if tokens > budget && !alone { // a prompt that fits the GPUs only whole runs alone
		return 0
	}
	return tokens
}

// stage reserves memory on the GPUs for a prompt that goes to the host and is about to
// be cut: later chunks read the keys and values of earlier chunks.
func (s *State) stage(w *Waiting) bool {
	if !w.Hold.Host || w.Cut {
		return true
	}
	var ok bool
	w.Staged, ok = s.Ledger.Reserve(memory.Prompted(w.Prompt), nil, 0, nil)
	return ok
}

// Streak counts the iterations in a row that only prefill while requests decode.
type Streak int

// Over says whether requests must decode in the next iteration, as most (Config.PrefillStreak) is
// reached.
func (k Streak) Over(most, decoding int) bool { return most > 0 && int(k) >= most && decoding > 0 }

// Next counts an iteration that only prefills or only decodes, and says whether it prefills.
func (k *Streak) Next(prefills bool, decoding int) bool {
	if prefills && decoding > 0 {
		*k++
	} else {
		*k = 0
	}
	return prefills
}
