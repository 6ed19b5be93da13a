package batching

import (
	"errors"
	"fmt"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// UsedUnits returns the allocation units in use on one channel, in both memories if there are two. The GPUs' spare memory
// counts in units of the Ledger.
func (s *State) UsedUnits() int64 {
	if s.HostLedger == nil {
		return s.Ledger.Used() + s.GPU.SpareUsed()
	}
	return s.Ledger.Used() + s.HostLedger.Used()
}

// Fragmentation returns the unfilled share of the rows in use, 0 to 1. AdmitCurrent reserves whole
// rows: a row is filled by tokens that exist, with the other policies by tokens that were reserved.
func (s *State) Fragmentation() float64 {
	var unused int64
	if s.Grows() {
		for i := range s.Decoding {
			d := &s.Decoding[i]
			if h := &s.Holds[d.Request]; !h.Near {
				unused += s.Ledger.Unfilled(h.Length, d.Context(s.Batch.Step))
			}
		}
	}
	share := s.Ledger.Fragmentation(unused)
	if s.HostLedger == nil || s.HostLedger.Used() == 0 {
		return share
	}
	unused = 0
	if s.Grows() {
		for i := range s.Host.Decoding {
			h := &s.Host.Decoding[i]
			unused += s.HostLedger.Unfilled(s.Holds[h.Request].Length, h.NextContext(s.Batch.Step))
		}
	}
	used, host := s.Ledger.Used(), s.HostLedger.Used()
	return (float64(share*float64(used)) + float64(s.HostLedger.Fragmentation(unused)*float64(host))) / float64(used+host)
}

// CheckMemory returns an error if a rank has more units in use than its capacity, if activations and prompts' KV exceed
// the GPUs' free memory, if a request decodes with more tokens than it holds memory for, or if a prefix cache or the host
// holds anything but what its requests account for.
func (s *State) CheckMemory() error {
	if err := s.Ledger.Check(); err != nil {
		return err
	}
	tokens, kv, prompts := s.Batch.Tokens(), s.countCutPrompts()+s.countWindows(), false
	for i := range s.Batch.Sub {
		prompts = prompts || len(s.Batch.Sub[i].Prefill) > 0
	}
	// Requests that only decode are never held back for activations.
	if prompts && !s.GPU.Fits(tokens, kv) {
		return fmt.Errorf("activations of %d tokens and KV of %d prompt tokens do not fit the %v free on the GPUs",
			tokens, kv, s.GPU.Free)
	}
	if err := errors.Join(s.checkOrder(), s.checkHolders()); err != nil {
		return err
	}
	if s.HostLedger != nil {
		return s.checkBothMemories()
	}
	if s.GPU.Spare != nil {
		return s.checkNear()
	}
	return s.checkCache()
}

// checkOrder returns an error if a request waits after one that arrived later.
func (s *State) checkOrder() error {
	for i, waiting := 1, s.Queue.list[s.Queue.head:]; i < len(waiting); i++ {
		if first, then := waiting[i-1].Request, waiting[i].Request; first > then {
			return fmt.Errorf("request %d waits behind %d, which came later", then, first)
		}
	}
	return nil
}

// checkHolders returns an error if a request decodes with more tokens than it holds memory for.
func (s *State) checkHolders() error {
	var err error
	holds := func(request int32, context int) {
		if held := s.Holds[request].Tokens; held < context {
			err = errors.Join(err, fmt.Errorf("request %d decodes at a context of %d and holds memory for %d tokens", request, context, held))
		}
	}
	for i := range s.Decoding {
		holds(s.Decoding[i].Request, s.Decoding[i].Context(s.Batch.Step))
	}
	for i := range s.Host.Decoding {
		holds(s.Host.Decoding[i].Request, s.Host.Decoding[i].NextContext(s.Batch.Step))
	}
	return err
}

// checkBothMemories returns an error if a memory has more units in use than its capacity, or
// another number than its requests hold.
func (s *State) checkBothMemories() error {
	gpus, host := int64(0), int64(0)
	count := func(r memory.Reservation) {
		if r.Host {
			host += s.HostLedger.UnitsOf(r.Tokens)
		} else {
			gpus += s.Ledger.UnitsOf(r.Tokens)
		}
	}
	for i := range s.Decoding {
		count(s.Holds[s.Decoding[i].Request])
	}
	for i := range s.Host.Decoding {
		count(s.Holds[s.Host.Decoding[i].Request])
	}
	for i := range s.Host.SwapIns {
		count(s.Holds[s.Host.SwapIns[i].Request])
	}
	for _, onHost := range [...]bool{false, true} {
		s.EachPrefilling(onHost, func(w *Waiting) {
			count(w.Hold)
			if w.Cut && onHost {
				count(w.Staged)
			}
		})
	}
	if s.Ledger.Used() != gpus || s.HostLedger.Used() != host || host > s.HostLedger.Capacity() {
		return fmt.Errorf("GPUs and host account for %d and %d units of %d and %d, their requests for %d and %d",
			s.Ledger.Used(), s.HostLedger.Used(), s.Ledger.Capacity(), s.HostLedger.Capacity(), gpus, host)
	}
	return nil
}

// checkCache returns an error if a block of a request in memory is gone or in the wrong place, if blocks count users other
// than the requests in memory, or if a block remains whose predecessor is gone.
func (s *State) checkCache() error {
	if !s.Ledger.Caches() {
		return nil
	}
	c := s.Ledger.NewCacheCheck()
	var err error
	for i := range s.Decoding {
		r := s.Decoding[i].Request
		err = errors.Join(err, c.Use(&s.Holds[r], r))
	}
	s.EachPrefilling(false, func(w *Waiting) { err = errors.Join(err, c.Use(&w.Hold, w.Request)) })
	if err == nil && s.groups != nil {
		for i := range s.Batch.Sub {
			err = errors.Join(err, c.CheckShared(&s.Batch.Sub[i], s.Holds))
		}
	}
	return errors.Join(err, c.CheckBlocks())
}

// countWindows recomputes the number of tokens whose keys and values stay on the GPUs;
// usage.windows keeps this sum up to date.
func (s *State) countWindows() (tokens int) {
	if !s.GPU.Windowed() {
		return 0
	}
	for i := range s.Decoding {
		tokens += s.Holds[s.Decoding[i].Request].Window
	}
	s.EachPrefilling(false, func(w *Waiting) { tokens += w.Hold.Window })
	return tokens
}

// countCutPrompts recomputes the number of prompt tokens of requests with cut prompts, those whose last
// chunk is in the latest batch included. usage.cutPrompts keeps this sum up to date.
func (s *State) countCutPrompts() (tokens int) {
	for _, list := range [...][]Waiting{s.chunked, s.Queue.Held()} {
		for i := range list {
			if w := &list[i]; w.Cut {
				tokens += s.keepsOnGPU(w)
			}
		}
	}
	return tokens
}

// CheckWaits returns an error if a decoding request waits longer than its Former allows. It is called once for each iteration
// that has been formed.
func (s *Scheduler) CheckWaits() error {
	if f, ok := s.former.(interface{ Check() error }); ok {
		return f.Check()
	}
	return nil
}

// CheckAdmission returns an error where the head of the queue is refused although a
// memory that it may use has room for it.
func (s *State) CheckAdmission() error {
	if !s.Queue.Blocked || s.Queue.Len() == 0 {
		return nil
	}
	w := s.Queue.First()
	if s.Prefilled != nil { // those in front have memory, and are on their way
		if i := len(s.Queue.Held()); i < s.Queue.Len() {
			w = s.Queue.At(i)
		} else {
			return nil
		}
	}
	if s.HostLedger == nil {
		return s.checkRefusal(w, false, s.Queue.Refusal)
	}
	if s.Seated() {
		return nil
	}
	if !s.Overtakes(w) && s.GPUsHold(w.Request, w.Prompt) {
		if err := s.checkRefusal(w, false, s.Queue.Refusal); err != nil {
			return err
		}
	}
	if s.Host.Refusal.Cause == NoGain || !s.HostHolds(w.Request, w.Prompt) {
		return nil
	}
	if err := s.checkRefusal(w, true, s.Host.Refusal); err != nil {
		return fmt.Errorf("on the host: %w", err)
	}
	return nil
}

// checkRefusal returns an error if the stated reason for refusing the head of the queue does not
// hold. Refusals for growth are checked only in the iteration that made them: requests grow on
// after it.
func (s *State) checkRefusal(w *Waiting, onHost bool, why Refusal) error {
	if why.Cause == NoSeat {
		if !s.Seated() {
			return fmt.Errorf("request %d waits, and only %d run", w.Request, s.running())
		}
		return nil
	}
	if why.Cause == NoGain {
		if s.GPU.Spare == nil || s.GPU.Spare.Used() == 0 {
			return fmt.Errorf("request %d waits for the GPUs' spare memory, which is empty", w.Request)
		}
		return nil
	}
	if why.Cause == NoGrowth && why.step != s.Batch.Step {
		return nil
	}
	r := &s.Requests[w.Request]
	if !s.hasWindow(w, s.window(r), 0) {
		return nil
	}
	var f *memory.Forecast
	if why.Cause == NoGrowth {
		f = s.Foresee(w, onHost)
	}
	length, h := s.Reserved(w), s.history(w)
	for _, offset := range s.memoryOf(onHost).Room(length, &h, s.KeepFree(w, onHost), f) {
		return fmt.Errorf("request %d waits, and offset %d has room for its %d tokens", w.Request, offset, length.Tokens)
	}
	return nil
}
