package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/traces"
)

// Add queues a request that has arrived. It returns false for one that can never run.
func (o *Offload) Add(request int32) bool {
	r := &o.requests[request]
	o.alone.arrived = append(o.alone.arrived, request)
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
// request on the host waits for their memory. Else the host takes it, unless requests are
// late. A prompt for the host runs in this iteration, beside the GPUs' prompts, or is not
// admitted: held for the next iteration, it would delay prompts that the GPUs take then.
func (o *Offload) admit(w *waiting) bool {
	r := &o.requests[w.request]
	o.waits, o.gathering = false, false
	if !o.overtakes(w) && o.gpusHold(r) {
		if o.gathering = o.gathers(w); o.gathering {
			o.blocked = true
			return false
		}
		if o.askGPUs(w) {
			o.shut = nobody
			return true
		}
	}
	o.blocked = true
	if !o.hostHelps(r, w.prompt) || o.fullOnHost() {
		return false
	}
	tokens := o.takes(w)
	if tokens == 0 || tokens < w.prompt && !o.ledger.hasRoom(prompted(w.prompt), 0) {
		o.blocked = false
		return false
	}
	if o.waits = o.gpusHold(r) && o.delays(w.prompt, tokens); o.waits {
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
	if o.due(w.request) && !o.seated(o.running()) {
		refusal := o.refusal
		if o.reserve(o.ledger, w, nil, o.keep(o.ledger)) {
			return true
		}
		o.refusal = refusal
	}
	if o.shut == w.request {
		return false
	}
	o.shut = w.request
	return o.Scheduler.admit(w)
}

// stayOnGPUs concerns a cut prompt that goes to the host after its last chunk, and is on
// the GPUs until then. If the GPUs now have room for its request, it stays on the GPUs.
func (o *Offload) stayOnGPUs() {
	if o.head == len(o.queue) {
		return
	}
	w := &o.queue[o.head]
	if !w.cut || !w.hold.Host || !o.gpusHold(&o.requests[w.request]) || o.overtakes(w) || o.seated(o.running()) {
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

// hostHelps says whether r may go to the host after a prompt of prompt tokens. It may if
// the CPUs' attention for it takes no longer than the GPUs' batched operations for one
// token. For a longer prompt the host gains nothing, and a later swap in costs time. A
// request that the GPUs cannot hold always goes to the host.
func (o *Offload) hostHelps(r *traces.Request, prompt int) bool {
	return o.canRunOnHost(r) && (!o.gpusHold(r) || o.Costs.HostAttention(1, int64(prompt)) <= o.Costs.Linear(1))
}

// fullOnHost says whether the host has as many requests as may decode at once. Where the
// GPUs decode too, the host may have more requests: the surplus sits out.
func (o *Offload) fullOnHost() bool {
	return o.AllOnHost && o.seated(len(o.hosted)+o.prefilling(true))
}

// foreseeOnHost is Scheduler.foresee for the host's memory.
func (o *Offload) foreseeOnHost(w *waiting) *forecast {
	if o.forecast == nil {
		return nil
	}
	o.forecast.clear()
	for i := range o.hosted {
		h, step := &o.hosted[i], o.settled
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
	h := hosted{Decoding: d, runs: true, movable: o.gpusHold(&o.requests[d.Request])}
	o.unused.valid = false
	o.hosted = slices.Insert(o.hosted, o.find(d.Request), h)
	if h.movable {
		o.movable++
	}
	o.dealt = -1
}

// makeRoom frees the GPUs' memory of the request that arrived last, and returns it. A
// request that prefills loses its memory. One that swaps in returns to the host. One that
// decodes swaps out to the host; it loses its memory if requests are late or the host is full.
func (o *Offload) makeRoom() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return !w.hold.Host || w.cut }); ok {
		return request
	}
	if n := len(o.moving) - 1; n >= 0 && (len(o.decoding) == 0 || o.moving[n].Request > o.decoding[o.latest()].Request) {
		return o.stay(n)
	}
	at := o.latest()
	request := o.decoding[at].Request
	if o.canRunOnHost(&o.requests[request]) && !o.late(0, 1, 0) && o.moveDown(at) {
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

// growHosted extends the memory of the host's requests to their next context: of all
// requests before they are dealt again, else of those that take part. Where the host is
// full, the request that arrived last gives up its memory and is computed again.
func (o *Offload) growHosted(all bool) {
	if !all && !o.short() {
		return
	}
	o.unused.valid = false
	for i := 0; i < len(o.hosted); i++ {
		h := &o.hosted[i]
		if !all && !h.runs {
			continue
		}
		request, context := h.Request, h.Context(o.batch.Step)
		for !o.Host.Grow(&o.holds[request], context) {
			if o.dropHosted() == request {
				break
			}
		}
	}
}

// short says whether a request of the host takes part and its context outgrows its
// memory.
func (o *Offload) short() bool {
	b := &o.batch
	for i := range b.Sub {
		for k := range b.Sub[i].Host {
			if d := &b.Sub[i].Host[k]; d.Context(b.Step) > o.holds[d.Request].Tokens {
				return true
			}
		}
	}
	return false
}

// dropHosted takes the host's memory of the request there that arrived last, and
// returns that request.
func (o *Offload) dropHosted() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return w.hold.Host }); ok {
		return request
	}
	o.settle(o.batch.Step)
	h := o.leave(len(o.hosted) - 1)
	o.drop(&h.Decoding)
	return h.Request
}

// roomBeside returns the number of requests of the host that fit the iteration. Without
// prompts all of them fit; else MaxBatchTokens and the activations' memory bound them.
func (o *Offload) roomBeside() int {
	b := &o.batch
	if len(b.Sub[0].Prefill) == 0 {
		return len(o.hosted)
	}
	tokens := b.Sub[0].Tokens()
	room := min(len(o.hosted), o.batching.MaxBatchTokens-tokens)
	for room > 0 && !o.gpu.fits(tokens+room, 0) {
		room--
	}
	return max(room, 0)
}
