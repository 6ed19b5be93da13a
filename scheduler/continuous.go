package scheduler

// prefillFirst forms an iteration of prompts alone where memory has room for the
// next one, else one in which all requests decode. A prompt is cut only where it
// is longer than an iteration may be, and then has its iterations for itself.
func (s *Scheduler) prefillFirst() {
	b := &s.batch
	if s.prompts() {
		for i := range b.Sub {
			b.Sub[i].Decode = b.Sub[i].Decode[:0]
		}
		s.dealt, s.single = -1, false
		s.fill(&b.Sub[0], false)
		if len(b.Sub[0].Prefill) > 0 {
			return
		}
	}
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
		s.fill(&s.batch.Sub[0], true)
	}
	if (again || prompts) && s.spec.Adaptive && len(s.batch.Sub) == 2 {
		s.adapt()
	}
}

// prompts says whether a prompt waits that may find memory.
func (s *Scheduler) prompts() bool { return s.head < len(s.queue) && !s.blocked }

// fill adds prompts to a sub-batch up to MaxBatchTokens and as long as memory has
// room. cut lets it cut the last one to fit.
func (s *Scheduler) fill(sub *SubBatch, cut bool) {
	budget := s.batching.MaxBatchTokens
	for i := range s.batch.Sub {
		budget -= s.batch.Sub[i].Tokens()
	}
	for s.head < len(s.queue) && budget > 0 {
		w := &s.queue[s.head]
		if !w.held && !s.place.admit(w) {
			return
		}
		left := w.prompt - w.finished
		if left > budget && !cut && len(sub.Prefill) > 0 {
			return
		}
		tokens := s.roomOnGPU(w, min(left, budget), left)
		if tokens == 0 || tokens > budget && len(sub.Prefill) > 0 { // one that fits the GPUs only whole goes alone
			return
		}
		if tokens < left && !s.stage(w) {
			return
		}
		s.take(sub, w, tokens, tokens == left)
		if budget -= tokens; tokens < left {
			return
		}
	}
}

// stage reserves memory on the GPUs for a prompt that goes to the host and is about
// to be cut: later chunks read the keys and values of those before.
func (s *Scheduler) stage(w *waiting) bool {
	if !w.hold.Host || w.cut {
		return true
	}
	var ok bool
	w.staged, ok = s.ledger.Reserve(w.prompt, 0, nil, s.comm.Balance, s.rng)
	return ok
}
