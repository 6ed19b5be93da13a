package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/traces"
)

// Add queues a request that has arrived. It returns false for one that can never run.
func (o *Offload) Add(request int32) bool {
	r := &o.requests[request]
	if !o.canRunOnHost(r) && (o.AllOnHost || !o.canEverRun(r)) {
		return false
	}
	o.enqueue(waiting{request: request, prompt: r.Input})
	return true
}

// canRunOnHost says whether r fits the empty memory of the host, and its prompt fits the
// GPUs. A prompt in one piece sends its keys and values to the host layer by layer. A
// prompt in chunks keeps them on the GPUs until the last chunk.
func (o *Offload) canRunOnHost(r *traces.Request) bool {
	prompt := r.Input
	if o.memory.Admission == AdmitCurrent {
		prompt = KVTokens(r)
	}
	if !o.Host.FitsEmpty(o.final(r)) {
		return false
	}
	whole := prompt <= o.batching.MaxBatchTokens && o.gpu.fits(prompt, 0)
	return whole || o.ledger.FitsEmpty(prompted(prompt)) && o.gpu.fits(min(prompt, o.spec.ChunkMultiple), prompt)
}

// gpusHold says whether the empty GPUs could hold a request to its end.
func (o *Offload) gpusHold(r *traces.Request) bool {
	return !o.AllOnHost && o.ledger.FitsEmpty(o.final(r))
}

// admit reserves memory for the queue's head. The GPUs come first, unless an older
// request on the host waits for their memory. Else the host takes it, where the CPUs can
// attend for it too. A prompt for the host runs in this iteration, beside the GPUs' prompts,
// or is not admitted: held for the next iteration, it would delay prompts that the GPUs take
// then.
func (o *Offload) admit(w *waiting) bool {
	r := &o.requests[w.request]
	o.blocked, o.busy = true, false
	if o.seated(o.running()) {
		o.shut = nobody
		return o.refuse(noSeat)
	}
	if o.overtakes(w) {
		o.refusal, o.shut = refusal{}, nobody // it asks again once that one has its memory
	} else if o.gpusHold(r) && o.askGPUs(w) {
		return true
	}
	if o.blocked = true; !o.canRunOnHost(r) {
		return false
	}
	tokens := o.takes(w)
	if tokens == 0 || tokens < w.prompt && !o.ledger.hasRoom(prompted(w.prompt), 0) {
		o.blocked = false
		return false
	}
	if o.busy = o.gpusHold(r) && !o.hides(w.prompt); o.busy {
		return false
	}
	gpus := o.refusal
	if o.reserve(o.Host, w, o.foreseeOnHost(w), o.keepOnHost(r)) {
		w.hold.Host, o.shut = true, nobody
		return true
	}
	o.refusal, o.refused = gpus, o.refusal
	return false
}

// askGPUs reserves memory of the GPUs for the queue's head. After a refusal it asks again
// only when the GPUs alone would ask again. The host is asked more often; if the GPUs were
// too, they would use other forecasts than the GPUs alone, and results would differ.
func (o *Offload) askGPUs(w *waiting) bool {
	if o.shut == w.request {
		return false
	}
	o.shut = w.request
	if !o.Scheduler.admit(w) {
		return false
	}
	o.shut = nobody
	return true
}

// fillBeside adds prompts to the iteration, and leaves room for a turn of the host.
func (o *Offload) fillBeside() {
	sub := &o.batch.Sub[0]
	if n := len(sub.Host); len(o.hosted) > n {
		sub.Host = append(sub.Host, Decoding{})
		defer func() { sub.Host = sub.Host[:n] }()
	}
	o.fill()
}

// stayOnGPUs concerns a cut prompt that goes to the host after its last chunk, and is on
// the GPUs until then. If the GPUs now have room for its request, it stays on the GPUs.
func (o *Offload) stayOnGPUs() {
	if o.head == len(o.queue) {
		return
	}
	w := &o.queue[o.head]
	if !w.cut || !w.hold.Host || !o.gpusHold(&o.requests[w.request]) || o.overtakes(w) {
		return
	}
	o.ledger.Release(w.staged)
	if r, ok := o.ledger.Reserve(o.reserved(w), o.keep(o.ledger), o.foresee(w), o.comm.Balance, o.rng); ok {
		o.release(w.hold)
		w.hold, w.staged = r, Reservation{}
	} else {
		w.staged, _ = o.ledger.Reserve(prompted(w.prompt), 0, nil, o.comm.Balance, o.rng)
	}
}

// overtakes says whether an older request waits for room on the GPUs: one on the host,
// or one whose prompt goes there in this iteration.
func (o *Offload) overtakes(w *waiting) bool {
	return slices.ContainsFunc(o.hosted, func(h hosted) bool { return h.movable && h.Request < w.request }) ||
		slices.ContainsFunc(o.chunked, func(c waiting) bool {
			return c.hold.Host && c.request < w.request && o.gpusHold(&o.requests[c.request])
		})
}

// foreseeOnHost is Scheduler.foresee for the host's memory.
func (o *Offload) foreseeOnHost(w *waiting) *forecast {
	if o.forecast == nil {
		return nil
	}
	o.forecast.clear()
	for i := range o.hosted {
		h := &o.hosted[i]
		step := h.settled
		if h.runs {
			step = o.batch.Step
		}
		o.foreseeDecoding(&h.Decoding, step)
	}
	o.foreseePrompts(o.Host, w, true)
	return o.forecast
}

// keepOnHost returns the units of the host that the admission of a request leaves free.
// For a request that could wait for the GPUs instead, this is enough for all requests on
// the GPUs to swap out.
func (o *Offload) keepOnHost(r *traces.Request) int64 {
	keep := o.keep(o.Host)
	if o.memory.Admission == AdmitCurrent && o.gpusHold(r) {
		keep = max(keep, o.ledger.Used())
	}
	return keep
}

// release frees memory.
func (o *Offload) release(r Reservation) {
	if r.Host {
		o.Host.Release(r)
	} else {
		o.ledger.Release(r)
		o.full, o.shut = false, nobody
	}
	o.blocked = false
}

// enter has a request decode from the next step on, where its memory is.
func (o *Offload) enter(d Decoding) {
	if !o.holds[d.Request].Host {
		o.Scheduler.enter(d)
		return
	}
	h := hosted{paused: paused{Decoding: d}, runs: true, movable: o.gpusHold(&o.requests[d.Request])}
	o.hosted = slices.Insert(o.hosted, o.find(d.Request), h)
	o.onHost = len(o.hosted)
	if h.movable {
		o.movable++
	}
	o.dealt = -1
}

// makeRoom frees the GPUs' memory of the request that arrived last, and returns it. A
// request that prefills loses its memory. One that swaps in returns to the host. One that
// decodes swaps out to the host; it loses its memory if the host is full.
func (o *Offload) makeRoom() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return !w.hold.Host || w.cut }); ok {
		return request
	}
	if n := len(o.moving) - 1; n >= 0 && (len(o.decoding) == 0 || o.moving[n].Request > o.decoding[o.latest()].Request) {
		return o.stay(n)
	}
	at := o.latest()
	request := o.decoding[at].Request
	if o.canRunOnHost(&o.requests[request]) && o.moveDown(at) {
		return request
	}
	return o.dropDecoding(at)
}

// dropPrompts takes the memory of requests that prefill, the last one first, until one
// matches. It returns that one. Requests that keep memory stay at the head of the queue.
// Without a match all have lost it, so that a decoding request may return to the head.
func (o *Offload) dropPrompts(match func(*waiting) bool) (request int32, ok bool) {
	last := o.head
	for last < len(o.queue) && o.queue[last].held {
		last++
	}
	for last--; last >= o.head; last-- {
		w := &o.queue[last]
		ok = match(w)
		request = o.dropQueued(w)
		if ok {
			return request, true
		}
	}
	return 0, false
}

// growHosted extends the memory of the host's requests to their next context. Where the
// host is full, the request that arrived last gives up its memory and is computed again.
func (o *Offload) growHosted() {
	for i := 0; i < len(o.hosted); i++ {
		h := &o.hosted[i]
		request, context := h.Request, h.context(o.batch.Step)
		for !o.Host.Grow(&o.holds[request], context) {
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
	h := o.leave(len(o.hosted) - 1)
	if !h.runs {
		h.settle(o.batch.Step)
	}
	o.drop(&h.Decoding)
	return h.Request
}

// roomBeside returns the number of requests of the host that fit the iteration beside what
// it has. Without prompts all of them fit; else MaxBatchTokens and the activations' memory
// bound them.
func (o *Offload) roomBeside() int {
	if len(o.batch.Sub[0].Prefill) == 0 {
		return len(o.hosted) + 1
	}
	tokens := o.batch.tokens()
	room := min(len(o.hosted), o.batching.MaxBatchTokens-tokens)
	for room > 0 && !o.gpu.fits(tokens+room, 0) {
		room--
	}
	return room
}
