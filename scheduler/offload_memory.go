package scheduler

// admit reserves memory for the queue's head. The GPUs come first, unless an older
// request on the host waits for their memory. Else the host takes it, where the CPUs can
// attend for it too. A prompt for the host runs in this iteration, beside the GPUs' prompts,
// or is not admitted: held for the next iteration, it would delay prompts that the GPUs take
// then.
func (o *Offload) admit(w *waiting) bool {
	s, q := o.s, &o.s.queue
	r := &s.requests[w.request]
	q.blocked, s.host.busy = true, false
	if s.seated() {
		o.shut = open
		return s.refuse(noSeat, false)
	}
	if s.overtakes(w) {
		q.refusal, o.shut = refusal{}, open // it asks again once that one has its memory
	} else if s.gpusHold(r) && o.askGPUs(w) {
		return true
	}
	if q.blocked = true; !s.canRunOnHost(r) {
		return false
	}
	tokens := s.takes(w)
	if tokens == 0 || tokens < w.prompt && len(s.Ledger.room(prompted(w.prompt), nil, 0, nil)) == 0 {
		q.blocked = false
		return false
	}
	if s.host.busy = s.gpusHold(r) && !o.hides(w.prompt); s.host.busy {
		return false
	}
	if s.reserve(w, true) {
		o.shut = open
		return true
	}
	return false
}

// askGPUs reserves memory of the GPUs for the queue's head. After a refusal it asks again
// only when the GPUs alone would ask again. The host is asked more often; if the GPUs were
// too, they would use other forecasts than the GPUs alone, and results would differ.
func (o *Offload) askGPUs(w *waiting) bool {
	asked := refusedBy{w.request, o.s.usage.freed}
	if o.shut == asked {
		return false
	}
	if o.shut = asked; !o.s.admit(w) {
		return false
	}
	o.shut = open
	return true
}

// fillBeside adds prompts to the iteration, and leaves room for a turn of the host.
func (o *Offload) fillBeside() {
	sub := &o.s.batch.Sub[0]
	n := len(sub.Host)
	if len(o.s.host.decoding) > n {
		sub.Host = append(sub.Host, Decoding{})
	}
	o.s.fill(o.admit)
	sub.Host = sub.Host[:n]
}

// stayOnGPUs concerns a cut prompt that goes to the host after its last chunk, and is on
// the GPUs until then. If the GPUs now have room for its request, it stays on the GPUs.
func (o *Offload) stayOnGPUs() {
	s := o.s
	if s.queue.len() == 0 {
		return
	}
	w := s.queue.first()
	request := &s.requests[w.request]
	if !w.cut || !w.hold.Host || !s.gpusHold(request) || s.overtakes(w) {
		return
	}
	s.Ledger.Release(w.staged)
	if r, ok := s.Ledger.Reserve(s.reserved(w), nil, s.keepFree(request, false), s.foresee(w, false)); ok {
		s.release(w.hold)
		w.hold, w.staged = r, Reservation{}
	} else {
		w.staged, _ = s.Ledger.Reserve(prompted(w.prompt), nil, 0, nil)
	}
}

// makeRoom frees the GPUs' memory of the request that arrived last, and returns it. A
// request that prefills loses its memory. One that swaps in returns to the host. One that
// decodes swaps out to the host; it loses its memory if the host is full.
func (o *Offload) makeRoom() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return !w.hold.Host || w.cut }); ok {
		return request
	}
	s := o.s
	if n := len(s.host.swapIns) - 1; n >= 0 && (len(s.decoding) == 0 || s.host.swapIns[n].Request > s.decoding[s.latest()].Request) {
		return o.turnBack(n)
	}
	at := s.latest()
	request := s.decoding[at].Request
	if s.canRunOnHost(&s.requests[request]) && o.swapOut(at) {
		return request
	}
	return s.dropDecoding(at)
}

// dropPrompts takes the memory of requests that prefill, the last one first, until one
// matches. It returns that one. Requests that keep memory stay at the head of the queue.
// Without a match all have lost it, so that a decoding request may return to the head.
func (o *Offload) dropPrompts(match func(*waiting) bool) (request int32, ok bool) {
	held := o.s.queue.held()
	for i := len(held) - 1; i >= 0; i-- {
		matches := match(&held[i])
		if request = o.s.dropQueued(&held[i]); matches {
			return request, true
		}
	}
	return 0, false
}

// growHosted extends the memory of the host's requests to their next context. Where the
// host is full, the request that arrived last gives up its memory and is computed again.
func (o *Offload) growHosted() {
	s := o.s
	for i := 0; i < len(s.host.decoding); i++ {
		h := &s.host.decoding[i]
		request, context := h.Request, h.nextContext(s.batch.Step)
		for !s.HostLedger.Grow(&s.holds[request], context) {
			if o.dropHosted() == request {
				break
			}
		}
	}
}

// dropHosted takes the host's memory of the request there that arrived last, and
// returns that request.
func (o *Offload) dropHosted() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return w.hold.Host }); ok {
		return request
	}
	h := o.s.leaveHost(len(o.s.host.decoding) - 1)
	if !h.runs {
		h.settle(o.s.batch.Step)
	}
	o.s.drop(&h.Decoding)
	return h.Request
}

// roomBeside returns the number of requests of the host that fit the iteration beside what
// it has. Without prompts all of them fit; else MaxBatchTokens and the activations' memory
// bound them.
func (o *Offload) roomBeside() int {
	s := o.s
	if len(s.batch.Sub[0].Prefill) == 0 {
		return len(s.host.decoding) + 1
	}
	tokens := s.batch.tokens()
	room := min(len(s.host.decoding), s.Batching.MaxBatchTokens-tokens)
	for room > 0 && !s.GPU.fits(tokens+room, 0) {
		room--
	}
	return room
}
