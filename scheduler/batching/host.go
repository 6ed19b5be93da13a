package batching

import (
	"slices"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// host is the requests whose keys and values are on the host. It is empty without HostLedger.
type host struct {
	Decoding []Hosted // in the order of arrival
	SwapIns  []SwapIn // one after another
	Refusal  Refusal  // why the head of the queue may not go to the host
	Stay     bool     // those that could move up do not now, so prompts may go to the GPUs before them
}

// Paused is a decoding request that may sit out steps. Meanwhile Base and Last refer to step Settled,
// so a step that it sits out writes nothing.
type Paused struct {
	scheduler.Decoding
	Settled int64
	Since   int64 // the first step in which it sat out
}

// Settle corrects Base and Last for a step.
func (p *Paused) Settle(step int64) {
	missed := step - p.Settled
	p.Base -= missed
	p.Last += missed
	p.Settled = step
}

// Hosted is a decoding request on the host.
type Hosted struct {
	Paused
	Runs    bool // takes part in the present steps
	Chosen  bool // takes part in the iteration that is being formed
	Movable bool // the empty GPUs could hold it
	Comes   bool // still swapping out from the GPUs: not all of it is on the host
}

// NextContext returns the number of tokens that the request's next token attends over; step is the step of that token if the
// request takes part.
func (h *Hosted) NextContext(step int64) int {
	if h.Runs {
		return h.Context(step)
	}
	return h.Context(h.Settled)
}

// SwapIn is a request on its way from the host to the GPUs. It sits out until it has arrived. Only
// its memory on the GPUs is reserved: its pages on the host become free one by one, at least as
// fast as new data can arrive for them.
type SwapIn struct {
	Paused
	Left units.Duration // transfer time left, including that of the swaps before it
}

// Find returns the index of a request on the host, or the index at which to insert it.
func (h *host) Find(request int32) int {
	i, _ := slices.BinarySearchFunc(h.Decoding, request, func(h Hosted, r int32) int { return int(h.Request) - int(r) })
	return i
}

// enterHost has a request decode on the host from the next step on.
func (s *State) enterHost(d scheduler.Decoding) {
	h := Hosted{Paused: Paused{Decoding: d}, Runs: true, Movable: s.GPUsHold(d.Request, d.Context(s.Batch.Step))}
	s.Host.Decoding = slices.Insert(s.Host.Decoding, s.Host.Find(d.Request), h)
	s.Dealt = -1
}

// LeaveHost removes a decoding request of the host, which it returns.
func (s *State) LeaveHost(at int) Hosted {
	h := s.Host.Decoding[at]
	s.Host.Decoding = slices.Delete(s.Host.Decoding, at, at+1)
	s.Dealt = -1
	return h
}

// hosts says whether a request of a length fits the host's empty memory and its prompt fits the GPUs.
// A prompt run whole sends its keys and values to the host layer by layer. A prompt run in chunks
// keeps them on the GPUs until the last chunk.
func (s *State) hosts(l memory.Length) bool {
	if s.HostLedger == nil || !s.HostLedger.FitsEmpty(l) {
		return false
	}
	whole := l.Prompt <= s.Batching.MaxBatchTokens && s.GPU.Fits(l.Prompt, 0)
	return whole || s.Ledger.FitsEmpty(memory.Prompted(l.Prompt)) && s.GPU.Fits(min(l.Prompt, s.Scheduler.ChunkMultiple), l.Prompt)
}

// HostHolds says whether a request with a context could decode on the empty host.
func (s *State) HostHolds(request int32, context int) bool {
	return s.hosts(s.known(request, context))
}

// GPUsHold says whether the empty GPUs could hold a request with a context.
func (s *State) GPUsHold(request int32, context int) bool {
	return !s.AllOnHost && s.Ledger.FitsEmpty(s.known(request, context))
}

// known returns what a scheduler knows of a request's length. With memory reserved as requests grow, it
// knows nothing of outputs.
func (s *State) known(request int32, context int) memory.Length {
	if s.Grows() {
		return memory.Prompted(context + s.Speculation.Ahead())
	}
	return s.final(&s.Requests[request])
}

// Overtakes says whether a request older than w waits for room on the GPUs: one on the host that may move up, or one
// whose prompt goes to the host in this iteration.
func (s *State) Overtakes(w *Waiting) bool {
	return !s.Host.Stay && slices.ContainsFunc(s.Host.Decoding, func(h Hosted) bool { return h.Movable && h.Request < w.Request }) ||
		slices.ContainsFunc(s.chunked, func(c Waiting) bool {
			return c.Hold.Host && c.Request < w.Request && s.GPUsHold(c.Request, c.Prompt)
		})
}
