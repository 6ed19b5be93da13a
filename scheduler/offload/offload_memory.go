package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// admit reserves memory for the queue's head. The GPUs come first, unless an older request on the host waits for their
// memory. The host is second, if its CPUs can also attend for the request and that saves GPU time. A prompt for the host
// runs in this iteration, beside the GPUs' prompts, or is not admitted: held for the next iteration, it would delay the
// GPUs' prompts.
func (o *Former) admit(w *batching.Waiting) bool {
	s, q := o.s, &o.s.Queue
	onGPUs := s.GPUsHold(w.Request, w.Prompt)
	q.Blocked, s.Host.Refusal = true, batching.Refusal{}
	if s.Seated() {
		o.shut = open
		return s.Refuse(batching.NoSeat, false)
	}
	if s.Overtakes(w) {
		q.Refusal, o.shut = batching.Refusal{}, open // it asks again once the older request has its memory
	} else if onGPUs && o.askGPUs(w) {
		return true
	}
	if q.Blocked = true; !s.HostHolds(w.Request, w.Prompt) {
		return false
	}
	tokens := s.Takes(w)
	if tokens == 0 || tokens < w.Prompt && len(s.Ledger.Room(memory.Prompted(w.Prompt), nil, 0, nil)) == 0 {
		q.Blocked = false
		return false
	}
	if onGPUs && !(o.hides(w.Prompt) && o.pays(w, tokens)) {
		return s.Refuse(batching.NoGain, true)
	}
	if s.Reserve(w, true) {
		o.shut = open
		return true
	}
	return false
}

// askGPUs reserves memory of the GPUs for the queue's head. After a refusal it asks again only when
// a system of GPUs alone would. The host is asked more often; with the GPUs asked as often, their
// forecasts, and so results, would differ from GPUs alone.
func (o *Former) askGPUs(w *batching.Waiting) bool {
	asked := refusedBy{w.Request, o.s.Usage.Freed}
	if o.shut == asked {
		return false
	}
	if o.shut = asked; !o.s.Admit(w) {
		return false
	}
	o.shut = open
	return true
}

// fillBeside adds prompts to the iteration, and leaves room for a turn of the host's requests.
func (o *Former) fillBeside() {
	sub := &o.s.Batch.Sub[0]
	n := len(sub.Host)
	if len(o.s.Host.Decoding) > n {
		sub.Host = append(sub.Host, scheduler.Decoding{})
	}
	o.s.Fill(o.admit)
	sub.Host = sub.Host[:n]
}

// stayOnGPUs handles a cut prompt that is on the GPUs and goes to the host after its last chunk. If
// the GPUs now have room for its request, it stays there.
func (o *Former) stayOnGPUs() {
	s := o.s
	if s.Queue.Len() == 0 {
		return
	}
	w := s.Queue.First()
	if !w.Cut || !w.Hold.Host || !s.GPUsHold(w.Request, w.Prompt) || s.Overtakes(w) {
		return
	}
	s.Ledger.Release(w.Staged)
	if r, ok := s.Ledger.Reserve(s.Reserved(w), nil, s.KeepFree(w, false), s.Foresee(w, false)); ok {
		s.Release(w.Hold)
		w.Hold, w.Staged = r, memory.Reservation{}
	} else {
		w.Staged, _ = s.Ledger.Reserve(memory.Prompted(w.Prompt), nil, 0, nil)
	}
}

// makeRoom frees the GPUs' memory of the request that arrived last, and returns it. A
// request that prefills loses its memory. One that swaps in returns to the host. One that
// decodes swaps out to the host; it loses its memory if the host is full.
func (o *Former) makeRoom() int32 {
	if request, ok := o.dropPrompts(func(w *batching.Waiting) bool { return !w.Hold.Host || w.Cut }); ok {
		return request
	}
	s := o.s
	if n := len(s.Host.SwapIns) - 1; n >= 0 && (len(s.Decoding) == 0 || s.Host.SwapIns[n].Request > s.Decoding[s.Latest()].Request) {
		return o.turnBack(n)
	}
	at := s.Latest()
	request := s.Decoding[at].Request
	if s.HostHolds(request, s.Decoding[at].Context(s.Batch.Step)) && o.swapOut(at) {
		return request
	}
	return s.DropDecoding(at)
}

// dropPrompts takes the memory of requests that prefill, last first, until match is true for one,
// which it returns. Requests that keep memory stay at the head of the queue. Without a match all
// lose it, so that a decoding request may return to the head.
func (o *Former) dropPrompts(match func(*batching.Waiting) bool) (request int32, ok bool) {
	held := o.s.Queue.Held()
	for i := len(held) - 1; i >= 0; i-- {
		matches := match(&held[i])
		if request = o.s.DropQueued(&held[i]); matches {
			return request, true
		}
	}
	return 0, false
}

// growHosted extends the memory of the host's requests to their next context. If the host is full,
// the request that arrived last is preempted and recomputed later.
func (o *Former) growHosted() {
	s := o.s
	for i := 0; i < len(s.Host.Decoding); i++ {
		h := &s.Host.Decoding[i]
		request, context := h.Request, h.NextContext(s.Batch.Step)
		if h.Movable && !s.GPUsHold(request, context) {
			h.Movable, s.Queue.Blocked = false, false // it goes to the GPUs before others no more
		}
		for !s.HostLedger.Grow(&s.Holds[request], context+s.Speculation.Ahead()) {
			if o.dropHosted() == request {
				break
			}
		}
	}
}

// dropHosted preempts the request on the host that arrived last, and returns it.
func (o *Former) dropHosted() int32 {
	if request, ok := o.dropPrompts(func(w *batching.Waiting) bool { return w.Hold.Host }); ok {
		return request
	}
	h := o.s.LeaveHost(len(o.s.Host.Decoding) - 1)
	if !h.Runs {
		h.Settle(o.s.Batch.Step)
	}
	o.s.Drop(&h.Decoding)
	return h.Request
}

// roomBeside returns how many requests of the host can join the iteration. Without prompts all can;
// with prompts, MaxBatchTokens and the activations' memory bound them.
func (o *Former) roomBeside() int {
	s := o.s
	if len(s.Batch.Sub[0].Prefill) == 0 {
		return len(s.Host.Decoding) + 1
	}
	tokens, each := s.Batch.Tokens(), s.Speculation.Tokens()
	room := min(len(s.Host.Decoding), (s.Batching.MaxBatchTokens-tokens)/each)
	for room > 0 && !s.GPU.Fits(tokens+room*each, 0) {
		room--
	}
	return room
}
