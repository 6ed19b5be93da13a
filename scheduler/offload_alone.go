package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// alone is what the GPUs would have done without the host: a Scheduler of the same
// requests and memory, whose iterations take what the same costs say. It is run as
// far as it is asked for.
type alone struct {
	*Scheduler
	costs    OffloadCosts
	arrived  []int32        // requests, in order
	added    int            // of these
	ends     units.Duration // of its present iteration, else of its latest
	runs     bool
	finished []int32 // requests that it has ended, and the Offload maybe not
	emitted  func(request int32, tokens int)
	next     []int32 // number of the token that each request of the Offload emits next
	formed   int32   // iterations so far
	group    []int32 // by request, the iteration that had its whole prompt; 0 for none
}

func newAlone(s *Scheduler, costs OffloadCosts) *alone {
	spec, memory := *s.spec, *s.ledger
	spec.SubBatches = 1
	memory.used, memory.tokens, memory.spare = slices.Clone(memory.used), slices.Clone(memory.tokens), nil
	c := Config{Policy: s.policy, Scheduler: &spec, Memory: s.memory, Comm: s.comm, Batching: s.batching}
	a := &alone{Scheduler: New(c, s.requests, &memory, s.gpu, nil, s.rng), costs: costs, next: make([]int32, len(s.requests)), group: make([]int32, len(s.requests))}
	a.emitted = func(request int32, tokens int) {
		if tokens == a.requests[request].Output {
			a.finished = append(a.finished, request)
		}
	}
	return a
}

// latest returns when the latest request arrived.
func (a *alone) latest() units.Duration {
	if len(a.arrived) == 0 {
		return 0
	}
	return a.requests[a.arrived[len(a.arrived)-1]].Arrival
}

// advance runs all iterations that end before to.
func (a *alone) advance(to units.Duration) {
	for {
		if !a.runs && !a.form(to) || a.ends >= to {
			return
		}
		a.Complete(a.emitted)
		a.runs = false
	}
}

// form begins the next iteration, or says that there is none before to.
func (a *alone) form(to units.Duration) bool {
	for {
		for ; a.added < len(a.arrived) && a.requests[a.arrived[a.added]].Arrival <= a.ends; a.added++ {
			a.Add(a.arrived[a.added])
		}
		if b := a.Next(); !b.Empty() {
			a.ends += a.costs.Iteration(b)
			a.runs = true
			a.formed++
			for _, c := range b.Sub[0].Prefill {
				if c.Last && c.Finished == 0 {
					a.group[c.Request] = a.formed
				}
			}
			return true
		}
		if a.added == len(a.arrived) || a.requests[a.arrived[a.added]].Arrival >= to {
			return false
		}
		a.ends = a.requests[a.arrived[a.added]].Arrival
	}
}

// late says whether a request will be later than with the GPUs alone, by more than
// MaxDelay: these, slower by that share, would have emitted the token by then that it
// emits at the end of the given time from now. Until then the GPUs' requests take so
// many steps, and prompts that the present iteration ends emit so many tokens. Requests
// of the host are taken to emit one.
func (o *Offload) late(time units.Duration, steps, prompts int) bool {
	a, c := o.alone, &o.clock
	time += c.now - c.since
	a.advance(c.since + time - units.Duration(float64(o.MaxDelay*float64(time))))
	emits := func(d *Decoding, step int64) {
		a.next[d.Request] = int32(int64(o.requests[d.Request].Output) - d.Last + step)
	}
	for i := range o.decoding {
		emits(&o.decoding[i], c.step+int64(steps))
	}
	for i := range o.hosted {
		if h := &o.hosted[i]; h.runs {
			emits(&h.Decoding, c.step+1)
		} else {
			emits(&h.Decoding, o.settled)
		}
	}
	for i := range o.moving {
		emits(&o.moving[i].Decoding, o.moving[i].settled)
	}
	for i := range o.chunked {
		if w := &o.chunked[i]; w.finished == w.prompt {
			a.next[w.request] = int32(w.emitted + prompts)
		}
	}
	return a.ahead()
}

// ahead says whether a request has emitted the token here that the Offload's emits
// next.
func (a *alone) ahead() bool {
	a.finished = slices.DeleteFunc(a.finished, func(r int32) bool { return int(a.next[r]) > a.requests[r].Output })
	if len(a.finished) > 0 {
		return true
	}
	step := a.batch.Step
	if a.runs && a.batch.Decoding() > 0 {
		step-- // the present iteration has not ended
	}
	for i := range a.decoding {
		d := &a.decoding[i]
		if int64(a.next[d.Request]) <= int64(a.requests[d.Request].Output)-d.Last+step {
			return true
		}
	}
	return false
}

// due says whether requests are late, and the GPUs alone would hold this one or have
// ended it: it need not be expected to fit beside what the others grow to.
func (o *Offload) due(request int32) bool {
	is := func(d Decoding) bool { return d.Request == request }
	return o.forecast != nil && o.late(0, 1, 0) && (slices.ContainsFunc(o.alone.decoding, is) || slices.Contains(o.alone.finished, request))
}

// delays says whether to prefill a prompt for the host now makes a request late: its
// time, that of its move to the GPUs, with nothing hidden, and a step after that.
func (o *Offload) delays(prompt int) bool {
	sub := &o.gpus.Sub[0]
	sub.Decode = sub.Decode[:0]
	time := o.Costs.Iteration(&o.batch) + o.Costs.Move(prompt)
	for done := 0; done < prompt; done += o.batching.MaxBatchTokens {
		tokens := min(prompt-done, o.batching.MaxBatchTokens)
		sub.Prefill = append(sub.Prefill[:0], Chunk{Tokens: tokens, Finished: done, Last: done+tokens == prompt})
		time += o.Costs.Iteration(&o.gpus)
	}
	o.gpus.Step, sub.Prefill = o.batch.Step, sub.Prefill[:0]
	sub.Decode = append(sub.Decode, o.decoding...)
	for i := range o.chunked {
		if w := &o.chunked[i]; w.finished == w.prompt && !w.hold.Host {
			sub.Decode = append(sub.Decode, Decoding{Base: int64(w.prompt) - o.gpus.Step})
		}
	}
	steps := 1
	if o.batch.Decoding() > 0 {
		steps = 2 // the present iteration is one
	}
	return o.late(time+o.Costs.Iteration(&o.gpus), steps, 2)
}
