package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// admit reserves memory for the queue's head. The GPUs come first, unless an older
// request on the host waits for their memory. Else the host takes it, where the CPUs can
// attend for it too, and that spares the GPUs time. A prompt for the host runs in this iteration, beside the GPUs' prompts,
// or is not admitted: held for the next iteration, it would delay prompts that the GPUs take
// then.
func (o *Former) admit(w *forming.Waiting) bool {
	s, q := o.s, &o.s.Queue
	onGPUs := s.GPUsHold(w.Request, w.Prompt)
	q.Blocked, s.Host.Refusal = true, forming.Refusal{}
	if s.Seated() {
		o.shut = open
		return s.Refuse(forming.NoSeat, false)
	}
	if s.Overtakes(w) {
		q.Refusal, o.shut = forming.Refusal{}, open // it asks again once that one has its memory
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
		return s.Refuse(forming.NoGain, true)
	}
	if s.Reserve(w, true) {
		o.shut = open
		return true
	}
	return false
}

// askGPUs reserves memory of the GPUs for the queue's head. After a refusal it asks again
// only when the GPUs alone would ask again. The host is asked more often; if the GPUs were
// too, they would use other forecasts than the GPUs alone, and results would differ.
func (o *Former) askGPUs(w *forming.Waiting) bool {
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

// fillBeside adds prompts to the iteration, and leaves room for a turn of the host.
func (o *Former) fillBeside() {
	sub := &o.s.Batch.Sub[0]
	n := len(sub.Host)
	if len(o.s.Host.Decoding) > n {
		sub.Host = append(sub.Host, scheduler.Decoding{})
	}
	o.s.Fill(o.admit)
	sub.Host = sub.Host[:n]
}

// stayOnGPUs concerns a cut prompt that goes to the host after its last chunk, and is on
// the GPUs until then. If the GPUs now have room for its request, it stays on the GPUs.
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
	if request, ok := o.dropPrompts(func(w *forming.Waiting) bool { return !w.Hold.Host || w.Cut }); ok {
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

// dropPrompts takes the memory of requests that prefill, the last one first, until one
// matches. It returns that one. Requests that keep memory stay at the head of the queue.
// Without a match all have lost it, so that a decoding request may return to the head.
func (o *Former) dropPrompts(match func(*forming.Waiting) bool) (request int32, ok bool) {
	held := o.s.Queue.Held()
	for i := len(held) - 1; i >= 0; i-- {
		matches := match(&held[i])
		if request = o.s.DropQueued(&held[i]); matches {
			return request, true
		}
	}
	return 0, false
}

// growHosted extends the memory of the host's requests to their next context. Where the
// host is full, the request that arrived last gives up its memory and is computed again.
func (o *Former) growHosted() {
	s := o.s
	for i := 0; i < len(s.Host.Decoding); i++ {
		h := &s.Host.Decoding[i]
		request, context := h.Request, h.NextContext(s.Batch.Step)
		if h.Movable && !s.GPUsHold(request, context) {
			h.Movable, s.Queue.Blocked = false, false // it goes before others to the GPUs no more
		}
		for !s.HostLedger.Grow(&s.Holds[request], context+s.Speculation.Ahead()) {
			if o.dropHosted() == request {
				break
			}
		}
	}
}

// dropHosted takes the host's memory of the request there that arrived last, and
// returns that request.
func (o *Former) dropHosted() int32 {
	if request, ok := o.dropPrompts(func(w *forming.Waiting) bool { return w.Hold.Host }); ok {
		return request
	}
	h := o.s.LeaveHost(len(o.s.Host.Decoding) - 1)
	if !h.Runs {
		h.Settle(o.s.Batch.Step)
	}
	o.s.Drop(&h.Decoding)
	return h.Request
}

// roomBeside returns the number of requests of the host that fit the iteration beside what
// it has. Without prompts all of them fit; else MaxBatchTokens and the activations' memory
// bound them.
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
