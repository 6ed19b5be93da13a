package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/traces"
)

// Add queues a request that has arrived, or reports false where it can never run.
func (o *Offload) Add(request int32) bool {
	r := &o.requests[request]
	if !o.canRunOnHost(r) && (o.AllOnHost || !o.canEverRun(r)) {
		return false
	}
	o.queue = append(o.queue, waiting{request: request, prompt: r.Input})
	return true
}

// canRunOnHost says whether r fits the empty memory of the host, and its prompt the
// GPUs: in one piece, whose keys and values leave layer by layer, or in chunks that
// stay until the last one.
func (o *Offload) canRunOnHost(r *traces.Request) bool {
	prompt := r.Input
	if o.memory.Admission == AdmitCurrent {
		prompt = KVTokens(r)
	}
	if !o.Host.FitsEmpty(o.finalTokens(r)) {
		return false
	}
	whole := prompt <= o.batching.MaxBatchTokens && o.gpu.fits(prompt, 0)
	return whole || o.ledger.FitsEmpty(prompt) && o.gpu.fits(min(prompt, o.spec.ChunkMultiple), prompt)
}

// finalTokens returns the KV tokens for which a request takes memory in the end.
func (o *Offload) finalTokens(r *traces.Request) int {
	if o.memory.Admission == AdmitMax {
		return max(o.memory.MaxTokens, KVTokens(r))
	}
	return KVTokens(r)
}

// gpusHold says whether the empty GPUs could hold a request to its end.
func (o *Offload) gpusHold(r *traces.Request) bool {
	return !o.AllOnHost && o.ledger.FitsEmpty(o.finalTokens(r))
}

// admit reserves memory for the queue's head: on the GPUs where no request of the
// host waits for that, else on the host.
func (o *Offload) admit(w *waiting) bool {
	r := &o.requests[w.request]
	if o.movable == 0 && o.gpusHold(r) && o.Scheduler.admit(w) {
		return true
	}
	o.blocked = true
	if !o.hostHelps(r, w.prompt) || o.fullOnHost() {
		return false
	}
	gpus := o.refusal
	if o.reserve(o.Host, w, o.foreseeOnHost(w), o.keep(o.Host)) {
		w.hold.Host = true
		return true
	}
	o.refusal, o.refused = gpus, o.refusal
	return false
}

// fullOnHost says whether the host has as many requests as may decode at once. Where
// GPUs decode, too, those of the host that are too many sit out.
func (o *Offload) fullOnHost() bool {
	return o.AllOnHost && o.seated(len(o.hosted)+o.prefilling(true))
}

// foreseeOnHost is Scheduler.foresee of the host's memory.
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

// hostHelps says whether r may go to the host after a prompt of prompt tokens: where
// the CPUs could decode it beside the GPUs, its attention hiding behind the reading of
// their weights. To prefill others early gains nothing and costs a move. A request
// that the GPUs cannot hold has no choice.
func (o *Offload) hostHelps(r *traces.Request, prompt int) bool {
	return o.canRunOnHost(r) && (!o.gpusHold(r) || o.Costs.HostAttention(1, int64(prompt)) <= o.Costs.Linear(1))
}

// release frees memory.
func (o *Offload) release(r Reservation) {
	if r.Host {
		o.Host.Release(r)
	} else {
		o.ledger.Release(r)
		o.full = false
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

// makeRoom has the request that arrived last leave the GPUs: one that prefills loses
// its memory, one that decodes moves to the host, if that has room. Its pages are
// free one after another, much faster than the others grow into them.
func (o *Offload) makeRoom() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return !w.hold.Host || w.cut }); ok {
		return request
	}
	at := o.latest()
	d := o.decoding[at]
	hold := o.holds[d.Request]
	unit := o.Host.UnitTokens()
	context := d.Context(o.batch.Step)
	if o.canRunOnHost(&o.requests[d.Request]) {
		if r, ok := o.Host.Reserve((context+unit-1)/unit*unit, 0, nil, o.comm.Balance, o.rng); ok {
			r.Host = true
			o.decoding = slices.Delete(o.decoding, at, at+1)
			o.release(hold)
			o.holds[d.Request] = r
			o.batch.Moves.Down.Tokens += context - 1
			o.leaving = max(o.leaving, 0) + o.Costs.Move(context-1)
			o.enter(d)
			o.hosted[o.find(d.Request)].comes = true
			o.full = true // what it leaves is for the others to grow into
			return d.Request
		}
	}
	return o.dropDecoding(at)
}

// dropPrompts takes the memory of requests that prefill, the last one first, until
// one matches, which it returns. All others that have memory stay at the head of the
// queue, and where there is no match none is left: one that decodes may go there.
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

// moveUp has the oldest request of the host that the GPUs could hold move there once
// they have room, one at a time, and ends the move before.
func (o *Offload) moveUp() {
	if o.moving.active && o.moving.left <= 0 {
		o.batch.Step++ // requests are entered for the step to come
		o.arrive()
		o.batch.Step--
	}
	if o.moving.active || o.leaving > 0 || o.movable == 0 || o.full && len(o.decoding) > 0 {
		return
	}
	at := slices.IndexFunc(o.hosted, func(h hosted) bool { return h.movable })
	d := &o.hosted[at]
	o.batch.Step++
	o.settle()
	o.batch.Step--
	context := d.Context(o.settled)
	tokens := context
	if o.memory.Admission != AdmitCurrent {
		tokens = o.finalTokens(&o.requests[d.Request])
	}
	emitted := context - o.requests[d.Request].Input
	w := waiting{request: d.Request, prompt: context, emitted: emitted}
	hold, ok := Reservation{}, false
	if !o.seated(o.running()) {
		hold, ok = o.ledger.Reserve(tokens, o.keep(o.ledger), o.foresee(&w), o.comm.Balance, o.rng)
	}
	if !ok {
		o.full = true
		return
	}
	h := o.leave(at)
	if h.runs {
		o.batch.Pauses = append(o.batch.Pauses, Pause{Request: h.Request})
	}
	o.moving = move{active: true, Decoding: h.Decoding, settled: o.settled, left: o.Costs.Move(context - 1)}
	o.release(o.holds[h.Request])
	o.holds[h.Request] = hold
	o.batch.Moves.Up.Tokens = context - 1
}

// arrive has the request that moves decode on the GPUs from the present step on.
func (o *Offload) arrive() {
	m := &o.moving
	missed := o.batch.Step - m.settled
	m.Base -= missed
	m.Last += missed
	m.active = false
	o.Scheduler.enter(m.Decoding)
	o.batch.Pauses = append(o.batch.Pauses, Pause{Request: m.Request, Ends: true})
	o.dealt = -1
}

// arriveOnHost has all requests that moved to the host decode there.
func (o *Offload) arriveOnHost() {
	if o.leaving == 0 {
		return
	}
	o.leaving = 0
	for i := range o.hosted {
		o.hosted[i].comes = false
	}
	o.dealt = -1
}

// growHosted extends the memory of the host's requests to their next context: of all
// where they are dealt anew, else of those that take part. Where the host is full,
// the request that arrived last gives up its memory and is computed again.
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
		for !growBy(o.Host, &o.holds[request], context) {
			if o.dropHosted() == request {
				break
			}
		}
	}
}

// short says whether the context of a request of the host that takes part outgrows its
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

// growBy extends a reservation to context tokens by whole units.
func growBy(l *Ledger, hold *Reservation, context int) bool {
	unit := l.UnitTokens()
	return context <= hold.Tokens || l.Grow(hold, (context+unit-1)/unit*unit)
}

// dropHosted takes the memory of the request that arrived last on the host and
// returns it.
func (o *Offload) dropHosted() int32 {
	if request, ok := o.dropPrompts(func(w *waiting) bool { return w.hold.Host }); ok {
		return request
	}
	o.settle()
	h := o.leave(len(o.hosted) - 1)
	o.drop(&h.Decoding)
	return h.Request
}

// fitsBeside says whether the GPUs' requests and one of the host fit an iteration
// with prompts.
func (o *Offload) fitsBeside() bool {
	b := &o.batch
	tokens := b.Sub[0].PrefillTokens() + len(o.decoding) + 1
	return tokens <= o.batching.MaxBatchTokens && o.gpu.fits(tokens, 0)
}

// roomBeside returns how many requests of the host the iteration has room for: any
// number without prompts, else what MaxBatchTokens and the activations leave.
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

// growBeside finds memory for a step beside prompts, or says that there is none
// without a request's leaving.
func (o *Offload) growBeside() bool {
	if o.memory.Admission != AdmitCurrent {
		return true
	}
	step := o.batch.Step
	o.unused.valid = false
	for i := range o.decoding {
		d := &o.decoding[i]
		if !growBy(o.ledger, &o.holds[d.Request], d.Context(step)) {
			return false
		}
	}
	for i := range o.hosted {
		h := &o.hosted[i]
		if !growBy(o.Host, &o.holds[h.Request], h.Context(step)) {
			return false
		}
	}
	return true
}
