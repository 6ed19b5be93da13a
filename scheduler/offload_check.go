package scheduler

import "fmt"

// UsedUnits returns the number of allocation units in use on GPUs and host.
func (o *Offload) UsedUnits() int64 { return o.ledger.Used() + o.Host.Used() }

// Fragmentation returns the unfilled share of the rows in use of both memories, 0 to 1
// (Scheduler.Fragmentation).
func (o *Offload) Fragmentation() float64 {
	gpus := o.Scheduler.Fragmentation()
	host := o.Host.Used()
	if host == 0 {
		return gpus
	}
	var unused int64
	if o.memory.Admission == AdmitCurrent {
		unused = o.unusedOnHost()
	}
	used := o.ledger.Used()
	return (float64(gpus*float64(used)) + float64(o.Host.fragmentation(unused*int64(o.Host.heads))*float64(host))) / float64(used+host)
}

// unusedOnHost returns the number of tokens that the host has reserved memory for and that
// do not exist yet.
func (o *Offload) unusedOnHost() (tokens int64) {
	for i := range o.hosted {
		h := &o.hosted[i]
		tokens += int64(o.holds[h.Request].Tokens - h.context(o.batch.Step))
	}
	return tokens
}

// CheckMemory returns an error where a memory has more units in use than its capacity, or
// another number than its requests hold.
func (o *Offload) CheckMemory() error {
	if err := o.Scheduler.CheckMemory(); err != nil {
		return err
	}
	held := [2]int64{} // on GPUs and host
	count := func(r Reservation) {
		to := 0
		if r.Host {
			to = 1
		}
		held[to] += o.units(r.Tokens)
	}
	for i := range o.decoding {
		count(o.holds[o.decoding[i].Request])
	}
	for i := range o.hosted {
		count(o.holds[o.hosted[i].Request])
	}
	for i := range o.moving {
		count(o.holds[o.moving[i].Request])
	}
	prefill := func(w *waiting) {
		if !w.held {
			return
		}
		count(w.hold)
		if w.cut && w.hold.Host {
			count(w.staged)
		}
	}
	for i := o.head; i < len(o.queue) && o.queue[i].held; i++ {
		prefill(&o.queue[i])
	}
	for i := range o.chunked {
		prefill(&o.chunked[i])
	}
	if gpus, host := o.ledger.Used(), o.Host.Used(); gpus != held[0] || host != held[1] || host > o.Host.Capacity() {
		return fmt.Errorf("GPUs and host account for %d and %d units of %d and %d, their requests for %d and %d",
			gpus, host, o.ledger.Capacity(), o.Host.Capacity(), held[0], held[1])
	}
	return nil
}

// units returns the allocation units of a request of tokens tokens.
func (o *Offload) units(tokens int) int64 {
	return o.Host.perLayer(prompted(tokens)) * int64(o.Host.layersOn[0])
}

// CheckAdmission returns an error where the head of the queue is refused although a
// memory that it may use has room for it.
func (o *Offload) CheckAdmission() error {
	if !o.blocked || o.head == len(o.queue) || o.seated(o.running()) {
		return nil
	}
	w := &o.queue[o.head]
	r := &o.requests[w.request]
	if !o.overtakes(w) && o.gpusHold(r) {
		if err := o.Scheduler.CheckAdmission(); err != nil {
			return err
		}
	}
	if o.busy || !o.canRunOnHost(r) {
		return nil
	}
	if err := o.checkRefusal(o.Host, w, o.keepOnHost(r), o.refused, len(o.hosted), o.foreseeOnHost); err != nil {
		return fmt.Errorf("on the host: %w", err)
	}
	return nil
}
