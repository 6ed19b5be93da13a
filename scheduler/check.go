package scheduler

import (
	"errors"
	"fmt"
)

// UsedUnits returns the allocation units in use on one channel, in both memories where there are two.
func (s *State) UsedUnits() int64 {
	if s.HostLedger == nil {
		return s.Ledger.Used()
	}
	return s.Ledger.Used() + s.HostLedger.Used()
}

// Fragmentation returns the unfilled share of the rows in use, 0 to 1. AdmitCurrent
// reserves whole rows: a row is filled by tokens that exist. For the other policies a
// row is filled by the tokens that were reserved.
func (s *State) Fragmentation() float64 {
	var unused int64
	if s.grows() {
		for i := range s.decoding {
			d := &s.decoding[i]
			unused += s.Ledger.unfilled(s.holds[d.Request].Length, d.Context(s.batch.Step))
		}
	}
	share := s.Ledger.fragmentation(unused)
	if s.HostLedger == nil || s.HostLedger.Used() == 0 {
		return share
	}
	unused = 0
	if s.grows() {
		for i := range s.host.decoding {
			h := &s.host.decoding[i]
			unused += s.HostLedger.unfilled(s.holds[h.Request].Length, h.nextContext(s.batch.Step))
		}
	}
	used, host := s.Ledger.Used(), s.HostLedger.Used()
	return (float64(share*float64(used)) + float64(s.HostLedger.fragmentation(unused)*float64(host))) / float64(used+host)
}

// CheckMemory returns an error where a rank has more units in use than its capacity,
// where the activations and prompts' KV exceed what is free on the GPUs, or where a cache of prefixes
// or the host has other contents than those of its requests.
func (s *State) CheckMemory() error {
	if err := s.Ledger.check(); err != nil {
		return err
	}
	tokens, kv, prompts := s.batch.tokens(), s.countCutPrompts()+s.countWindows(), false
	for i := range s.batch.Sub {
		prompts = prompts || len(s.batch.Sub[i].Prefill) > 0
	}
	// Requests that only decode are never held back for activations.
	if prompts && !s.GPU.fits(tokens, kv) {
		return fmt.Errorf("activations of %d tokens and KV of %d prompt tokens do not fit the %v free on the GPUs",
			tokens, kv, s.GPU.Free)
	}
	if s.HostLedger != nil {
		return s.checkBothMemories()
	}
	return s.checkCache()
}

// checkBothMemories returns an error where a memory has more units in use than its capacity, or
// another number than its requests hold.
func (s *State) checkBothMemories() error {
	gpus, host := int64(0), int64(0)
	count := func(r Reservation) {
		if r.Host {
			host += s.HostLedger.UnitsOf(r.Tokens)
		} else {
			gpus += s.Ledger.UnitsOf(r.Tokens)
		}
	}
	for i := range s.decoding {
		count(s.holds[s.decoding[i].Request])
	}
	for i := range s.host.decoding {
		count(s.holds[s.host.decoding[i].Request])
	}
	for i := range s.host.swapIns {
		count(s.holds[s.host.swapIns[i].Request])
	}
	for _, onHost := range [...]bool{false, true} {
		s.eachPrefilling(onHost, func(w *waiting) {
			count(w.hold)
			if w.cut && onHost {
				count(w.staged)
			}
		})
	}
	if s.Ledger.Used() != gpus || s.HostLedger.Used() != host || host > s.HostLedger.Capacity() {
		return fmt.Errorf("GPUs and host account for %d and %d units of %d and %d, their requests for %d and %d",
			s.Ledger.Used(), s.HostLedger.Used(), s.Ledger.Capacity(), s.HostLedger.Capacity(), gpus, host)
	}
	return nil
}

// checkCache returns an error where a block of a request in memory is gone or lies elsewhere, or blocks are counted as used
// by other requests than those in memory, or a block is gone from before another.
func (s *State) checkCache() error {
	if !s.Ledger.caches() {
		return nil
	}
	c := s.Ledger.newCacheCheck()
	var err error
	for i := range s.decoding {
		r := s.decoding[i].Request
		err = errors.Join(err, c.use(&s.holds[r], r))
	}
	s.eachPrefilling(false, func(w *waiting) { err = errors.Join(err, c.use(&w.hold, w.request)) })
	if err == nil && s.groups != nil {
		for i := range s.batch.Sub {
			err = errors.Join(err, c.checkShared(&s.batch.Sub[i], s.holds))
		}
	}
	return errors.Join(err, c.checkBlocks())
}

// countWindows returns the tokens whose keys and values stay on the GPUs, computed anew;
// usage.windows keeps this sum up to date.
func (s *State) countWindows() (tokens int) {
	if !s.GPU.windowed() {
		return 0
	}
	for i := range s.decoding {
		tokens += s.holds[s.decoding[i].Request].Window
	}
	s.eachPrefilling(false, func(w *waiting) { tokens += w.hold.Window })
	return tokens
}

// countCutPrompts returns the prompt tokens of the requests whose prompts are cut, computed anew. It
// includes requests whose last chunk is in the latest batch. usage.cutPrompts keeps this sum up to date.
func (s *State) countCutPrompts() (tokens int) {
	for _, list := range [...][]waiting{s.chunked, s.queue.held()} {
		for i := range list {
			if w := &list[i]; w.cut {
				tokens += s.keepsOnGPU(w)
			}
		}
	}
	return tokens
}

// CheckAdmission returns an error where the head of the queue is refused although a
// memory that it may use has room for it.
func (s *State) CheckAdmission() error {
	if !s.queue.blocked || s.queue.len() == 0 {
		return nil
	}
	w := s.queue.first()
	if s.HostLedger == nil {
		return s.checkRefusal(w, false, s.queue.refusal)
	}
	if s.seated() {
		return nil
	}
	r := &s.requests[w.request]
	if !s.overtakes(w) && s.gpusHold(r) {
		if err := s.checkRefusal(w, false, s.queue.refusal); err != nil {
			return err
		}
	}
	if s.host.busy || !s.canRunOnHost(r) {
		return nil
	}
	if err := s.checkRefusal(w, true, s.host.refusal); err != nil {
		return fmt.Errorf("on the host: %w", err)
	}
	return nil
}

// checkRefusal returns an error where the reason why the head of the queue was refused a
// memory is not true. Refusals for growth are checked
// only in the iteration that made them: requests grow on after it.
func (s *State) checkRefusal(w *waiting, onHost bool, why refusal) error {
	if why.cause == noSeat {
		if !s.seated() {
			return fmt.Errorf("request %d waits, and only %d run", w.request, s.running())
		}
		return nil
	}
	if why.cause == noGrowth && why.step != s.batch.Step {
		return nil
	}
	r := &s.requests[w.request]
	if !s.hasWindow(w, s.window(r), 0) {
		return nil
	}
	var f *forecast
	if why.cause == noGrowth {
		f = s.foresee(w, onHost)
	}
	length, h := s.reserved(w), s.history(w)
	for _, offset := range s.memoryOf(onHost).room(length, &h, s.keepFree(r, onHost), f) {
		return fmt.Errorf("request %d waits, and offset %d has room for its %d tokens", w.request, offset, length.Tokens)
	}
	return nil
}
