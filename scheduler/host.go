package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// host is the requests whose keys and values are on the host. Without HostLedger there are none.
type host struct {
	decoding []hosted // in the order of arrival
	swapIns  []swapIn // one after another
	refusal  refusal  // why the head of the queue may not go to the host
	busy     bool     // the head may not go to the host: the CPUs have enough to do
}

// paused is a decoding request that may sit out steps. While it does, Base and Last are right for step
// settled: so nothing is written in the steps that it sits out.
type paused struct {
	Decoding
	settled int64
	since   int64 // the first step in which it sat out
}

// settle makes Base and Last right for a step.
func (p *paused) settle(step int64) {
	missed := step - p.settled
	p.Base -= missed
	p.Last += missed
	p.settled = step
}

// hosted is a decoding request on the host.
type hosted struct {
	paused
	runs    bool // takes part in the present steps
	chosen  bool // takes part in the iteration that is being formed
	movable bool // the GPUs could hold it
	comes   bool // swaps out from the GPUs now: not all of it is on the host
}

// nextContext returns the tokens that the request's next token attends over. If it takes part, that token is of the given step.
func (h *hosted) nextContext(step int64) int {
	if h.runs {
		return h.Context(step)
	}
	return h.Context(h.settled)
}

// swapIn is a request on its way from the host to the GPUs. It sits out until it has
// arrived. Only its memory on the GPUs is reserved: its pages on the host become free one
// by one, and new data for them comes over links that are no faster.
type swapIn struct {
	paused
	left units.Duration // transfer time left, including that of the swaps before it
}

// find returns the index of a request on the host, or the index at which to insert it.
func (h *host) find(request int32) int {
	i, _ := slices.BinarySearchFunc(h.decoding, request, func(h hosted, r int32) int { return int(h.Request) - int(r) })
	return i
}

// enterHost has a request decode on the host from the next step on.
func (s *State) enterHost(d Decoding) {
	h := hosted{paused: paused{Decoding: d}, runs: true, movable: s.gpusHold(&s.requests[d.Request])}
	s.host.decoding = slices.Insert(s.host.decoding, s.host.find(d.Request), h)
	s.dealt = -1
}

// leaveHost removes a decoding request of the host, which it returns.
func (s *State) leaveHost(at int) hosted {
	h := s.host.decoding[at]
	s.host.decoding = slices.Delete(s.host.decoding, at, at+1)
	s.dealt = -1
	return h
}

// canRunOnHost says whether r fits the empty memory of the host, and its prompt fits the
// GPUs. A prompt in one piece sends its keys and values to the host layer by layer. A
// prompt in chunks keeps them on the GPUs until the last chunk.
func (s *State) canRunOnHost(r *traces.Request) bool {
	if s.HostLedger == nil || !s.HostLedger.FitsEmpty(s.final(r)) {
		return false
	}
	prompt := s.longestPrompt(r)
	whole := prompt <= s.Batching.MaxBatchTokens && s.GPU.fits(prompt, 0)
	return whole || s.Ledger.FitsEmpty(prompted(prompt)) && s.GPU.fits(min(prompt, s.Scheduler.ChunkMultiple), prompt)
}

// gpusHold says whether the empty GPUs could hold a request to its end.
func (s *State) gpusHold(r *traces.Request) bool {
	return !s.AllOnHost && s.Ledger.FitsEmpty(s.final(r))
}

// overtakes says whether an older request than w waits for room on the GPUs: one on the host,
// or one whose prompt goes there in this iteration.
func (s *State) overtakes(w *waiting) bool {
	return slices.ContainsFunc(s.host.decoding, func(h hosted) bool { return h.movable && h.Request < w.request }) ||
		slices.ContainsFunc(s.chunked, func(c waiting) bool {
			return c.hold.Host && c.request < w.request && s.gpusHold(&s.requests[c.request])
		})
}
