package scheduler

// continuous forms iterations by the policies of continuous batching: PolicyPrefillFirst and PolicyChunkedPrefill.
type continuous struct {
	dealer
	streak streak
}

// Form implements Former.
func (f *continuous) Form(s *State) {
	if s.Policy == PolicyChunkedPrefill {
		f.chunkedPrefill(s)
	} else {
		f.prefillFirst(s)
	}
}

// prefillFirst forms an iteration of only prompts where memory has room for the next
// prompt, else one in which all requests decode. A prompt is cut only where it is longer
// than MaxBatchTokens. Then it is alone in its iterations.
func (f *continuous) prefillFirst(s *State) {
	decoding := len(s.decoding)
	if s.queue.asks() && !f.streak.over(s.PrefillStreak, decoding) {
		f.clear(s)
		s.fill(s.admit)
		if f.streak.next(len(s.batch.Sub[0].Prefill) > 0, decoding) {
			return
		}
	}
	f.streak.next(false, 0)
	if f.nextStep(s) {
		f.adapt(s)
	}
}

// chunkedPrefill forms an iteration in which all requests decode, filled up with
// prompt tokens.
func (f *continuous) chunkedPrefill(s *State) {
	dealt, prompts := f.nextStep(s), s.queue.asks()
	if prompts {
		f.apart(s)
		s.fill(s.admit)
	}
	if dealt || prompts {
		f.adapt(s)
	}
}

// fill adds prompts to the first sub-batch, up to MaxBatchTokens and while admit finds memory for
// the head of the queue.
func (s *State) fill(admit func(*waiting) bool) {
	for s.queue.len() > 0 && s.budget() > 0 {
		w := s.queue.first()
		if !w.held && !admit(w) {
			return
		}
		left := w.prompt - w.finished
		tokens := s.takes(w)
		if tokens == 0 || tokens < left && !s.stage(w) {
			return
		}
		s.take(0, w, tokens)
		if tokens < left {
			return
		}
	}
}

// budget returns how many more tokens MaxBatchTokens allows in the iteration.
func (s *State) budget() int { return s.Batching.MaxBatchTokens - s.batch.tokens() }

// takes returns how many prompt tokens of w fit the iteration, without regard to the
// memory for keys and values. Chunked prefill cuts the last prompt to fit. Without it, a
// prompt longer than MaxBatchTokens runs alone.
func (s *State) takes(w *waiting) int {
	left, budget, alone := w.prompt-w.finished, s.budget(), len(s.batch.Sub[0].Prefill) == 0
	if left > budget && s.Policy != PolicyChunkedPrefill && !alone {
		return 0
	}
	tokens := s.roomOnGPU(w, min(left, budget), left)
	if tokens > budget && !alone { // a prompt that fits the GPUs only whole runs alone
		return 0
	}
	return tokens
}

// stage reserves memory on the GPUs for a prompt that goes to the host and is about to
// be cut: later chunks read the keys and values of earlier chunks.
func (s *State) stage(w *waiting) bool {
	if !w.hold.Host || w.cut {
		return true
	}
	var ok bool
	w.staged, ok = s.Ledger.Reserve(prompted(w.prompt), nil, 0, nil)
	return ok
}

// streak counts the iterations in a row that only prefill while requests decode.
type streak int

// over says that the next iteration must be one in which requests decode. most is Config.PrefillStreak.
func (k streak) over(most, decoding int) bool { return most > 0 && int(k) >= most && decoding > 0 }

// next counts an iteration, which only prefills or decodes, and says whether it prefills.
func (k *streak) next(prefills bool, decoding int) bool {
	if prefills && decoding > 0 {
		*k++
	} else {
		*k = 0
	}
	return prefills
}
