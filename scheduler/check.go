package scheduler

import (
	"errors"
	"fmt"
)

// CheckMemory returns an error where a rank has more units in use than its capacity,
// or where the activations and prompts' KV exceed what is free on the GPUs.
func (s *Scheduler) CheckMemory() error {
	for rank, used := range s.ledger.used {
		if used < 0 || used+s.ledger.unused(rank) > s.ledger.capacity {
			return fmt.Errorf("rankset %d holds %d units of %d", rank, used, s.ledger.capacity)
		}
	}
	tokens := s.batch.tokens()
	kv, prompts := s.cutPrompts()+s.held(), false
	for i := range s.batch.Sub {
		prompts = prompts || len(s.batch.Sub[i].Prefill) > 0
	}
	// Requests that only decode are never held back for activations.
	if prompts && !s.gpu.fits(tokens, kv) {
		return fmt.Errorf("activations of %d tokens and KV of %d prompt tokens do not fit the %v free on the GPUs",
			tokens, kv, s.gpu.Free)
	}
	return s.checkCache()
}

// checkCache returns an error where a block of a request in memory is gone or lies elsewhere, or blocks are counted as used
// by other requests than those in memory, or a block is gone from before another.
func (s *Scheduler) checkCache() error {
	c := s.ledger.cache
	if c == nil {
		return nil
	}
	users := make([]int32, len(c.blocks))
	for i := range s.decoding {
		if err := s.ledger.follow(&s.holds[s.decoding[i].Request], users); err != nil {
			return fmt.Errorf("request %d decodes: %w", s.decoding[i].Request, err)
		}
	}
	var err error
	s.eachPrefilling(false, func(w *waiting) {
		if bad := s.ledger.follow(&w.hold, users); bad != nil {
			err = fmt.Errorf("request %d prefills: %w", w.request, bad)
		}
	})
	if err != nil {
		return err
	}
	for i := range s.batch.Sub {
		if s.groups != nil {
			err = errors.Join(err, c.checkGroups(&s.batch.Sub[i], s.holds))
		}
	}
	return errors.Join(err, s.ledger.checkBlocks(users))
}

// held returns the tokens whose keys and values stay on the GPUs, from scratch; windows keeps
// the same sum as it changes.
func (s *Scheduler) held() (tokens int) {
	if !s.gpu.windowed() {
		return 0
	}
	for i := range s.decoding {
		tokens += s.holds[s.decoding[i].Request].Window
	}
	s.eachPrefilling(false, func(w *waiting) { tokens += w.hold.Window })
	return tokens
}

// cutPrompts returns the prompt tokens of the requests whose prompts are cut. It
// includes requests whose last chunk is in the latest batch. The sum is computed
// from scratch; kvOnGPU keeps the same sum as it changes.
func (s *Scheduler) cutPrompts() int {
	tokens := 0
	for i := range s.chunked {
		if w := &s.chunked[i]; w.cut {
			tokens += s.keepsOnGPU(w)
		}
	}
	for i := s.head; i < len(s.queue) && s.queue[i].cut; i++ { // they stand at the head
		tokens += s.keepsOnGPU(&s.queue[i])
	}
	return tokens
}

// CheckAdmission returns an error where the head of the queue is refused although
// memory has room for it.
func (s *Scheduler) CheckAdmission() error {
	if !s.blocked || s.head == len(s.queue) {
		return nil
	}
	return s.checkRefusal(s.ledger, &s.queue[s.head], s.keep(s.ledger), s.refusal, s.running(), s.foresee)
}
