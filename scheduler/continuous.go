package scheduler

// prefillFirst forms an iteration of only prompts where memory has room for the next
// prompt, else one in which all requests decode. A prompt is cut only where it is longer
// than MaxBatchTokens. Then it is alone in its iterations.
func (s *Scheduler) prefillFirst() {
	b := &s.batch
	if s.prompts() && !s.streak.over(len(s.decoding)) {
		for i := range b.Sub {
			b.Sub[i].Decode = b.Sub[i].Decode[:0]
		}
		s.dealt, s.single = -1, false
		s.regroup()
		s.fill()
		if s.streak.next(len(b.Sub[0].Prefill) > 0, len(s.decoding)) {
			return
		}
	}
	s.streak.next(false, 0)
	if s.nextStep() && s.spec.Adaptive && len(b.Sub) == 2 {
		s.adapt()
	}
}

// chunkedPrefill forms an iteration in which all requests decode, filled up with
// prompt tokens.
func (s *Scheduler) chunkedPrefill() {
	again, prompts := s.nextStep(), s.prompts()
	if prompts && s.single {
		s.deal() // prompts are added against both sub-batches
	}
	if prompts {
		s.fill()
	}
	if (again || prompts) && s.spec.Adaptive && len(s.batch.Sub) == 2 {
		s.adapt()
	}
}

// prompts says whether a prompt waits that may find memory.
func (s *Scheduler) prompts() bool { return s.head < len(s.queue) && !s.blocked }

// fill adds prompts to the first sub-batch, up to MaxBatchTokens and while memory has
// room.
func (s *Scheduler) fill() {
	sub := &s.batch.Sub[0]
	for s.head < len(s.queue) && s.budget() > 0 {
		w := &s.queue[s.head]
		if !w.held && !s.place.admit(w) {
			return
		}
		left := w.prompt - w.finished
		tokens := s.takes(w)
		if tokens == 0 || tokens < left && !s.stage(w) {
			return
		}
		s.take(sub, w, tokens, tokens == left)
		if tokens < left {
			return
		}
	}
}

// budget returns how many more tokens MaxBatchTokens allows in the iteration.
func (s *Scheduler) budget() int { return s.batching.MaxBatchTokens - s.batch.tokens() }

// takes returns how many prompt tokens of w fit the iteration, without regard to the
// memory for keys and values. Chunked prefill cuts the last prompt to fit. Without it, a
// prompt longer than MaxBatchTokens runs alone.
func (s *Scheduler) takes(w *waiting) int {
	left, budget, alone := w.prompt-w.finished, s.budget(), len(s.batch.Sub[0].Prefill) == 0
	if left > budget && s.policy != PolicyChunkedPrefill && !alone {
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
func (s *Scheduler) stage(w *waiting) bool {
	if !w.hold.Host || w.cut {
		return true
	}
	var ok bool
	w.staged, ok = s.ledger.Reserve(prompted(w.prompt), 0, nil, s.comm.Balance, s.rng)
	return ok
}

// streak counts the iterations in a row that only prefill while requests decode.
type streak struct {
	n, most int // most 0: no limit
}

// over says that the next iteration must be one in which requests decode.
func (k *streak) over(decoding int) bool { return k.most > 0 && k.n >= k.most && decoding > 0 }

// next counts an iteration, which only prefills or decodes, and says whether it prefills.
func (k *streak) next(prefills bool, decoding int) bool {
	if prefills && decoding > 0 {
		k.n++
	} else {
		k.n = 0
	}
	return prefills
}
