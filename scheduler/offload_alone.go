package scheduler

import (
	"cmp"
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
	formed   int32   // iterations so far
	log      []ended // of these, the latest that have ended
	finished []int32 // requests that it has ended, and the Offload maybe not
	emitted  func(request int32, tokens int)
	next     []int32 // number of the token that each request of the Offload emits next
	phases   []phase // by request
	group    []int32 // by request, the iteration that had its whole prompt; 0 for none
	shared   int32   // first iteration that had whole prompts of several requests; 0 for none
}

// ended is an iteration that has: its number, when, and the last step by then.
type ended struct {
	number int32
	at     units.Duration
	step   int64
}

// phase is when a request decodes.
type phase struct {
	from int32 // iteration that emits the first token; 0 for none
	last int64 // step that emits the last one
}

func newAlone(s *Scheduler, costs OffloadCosts) *alone {
	spec, memory := *s.spec, *s.ledger
	spec.SubBatches = 1
	memory.used, memory.tokens, memory.spare = slices.Clone(memory.used), slices.Clone(memory.tokens), nil
	c := Config{Policy: s.policy, Scheduler: &spec, Memory: s.memory, Comm: s.comm, Batching: s.batching}
	a := &alone{Scheduler: New(c, s.requests, &memory, s.gpu, nil, s.rng), costs: costs, next: make([]int32, len(s.requests)), group: make([]int32, len(s.requests)), phases: make([]phase, len(s.requests))}
	a.emitted = func(request int32, tokens int) {
		if p := &a.phases[request]; p.from == 0 {
			*p = phase{a.formed, a.batch.Step + int64(a.requests[request].Output-tokens)}
		}
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

// at runs all iterations that end before to, and returns the last one of them. It may have
// run more before.
func (a *alone) at(to units.Duration) ended {
	for (a.runs || a.form(to)) && a.ends < to {
		a.Complete(a.emitted)
		a.runs = false
		a.log = append(a.log, ended{a.formed, a.ends, a.batch.Step})
	}
	k, _ := slices.BinarySearchFunc(a.log, to, func(e ended, to units.Duration) int { return cmp.Compare(e.at, to) })
	if k == 0 {
		return ended{}
	}
	return a.log[k-1]
}

// forget drops half of the log where that ended before an iteration.
func (a *alone) forget(before ended) {
	if half := len(a.log) / 2; a.log[half].number <= before.number {
		a.log = slices.Delete(a.log, 0, half)
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
			for _, gone := range a.Preempted() {
				a.phases[gone.Request] = phase{}
			}
			whole := 0
			for _, c := range b.Sub[0].Prefill {
				if c.Last && c.Finished == 0 {
					a.group[c.Request] = a.formed
					whole++
				}
			}
			if whole > 1 && a.shared == 0 {
				a.shared = a.formed
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
	return o.later(o.MaxDelay, time, steps, prompts)
}

// later is late with another share than MaxDelay.
func (o *Offload) later(share float64, time units.Duration, steps, prompts int) bool {
	a, c := o.alone, &o.clock
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
	if len(a.log) > 1000 {
		a.forget(o.aloneIn(0, o.MaxDelay))
	}
	return a.ahead(o.aloneIn(time, share))
}

// aloneIn returns the latest iteration that, slower by a share, the GPUs alone would have
// ended a time from now.
func (o *Offload) aloneIn(time units.Duration, share float64) ended {
	time += o.clock.now - o.clock.since
	return o.alone.at(o.clock.since + time - units.Duration(float64(share*float64(time))))
}

// ahead says whether a request has emitted the token here, by the end of an iteration,
// that the Offload's emits next.
func (a *alone) ahead(by ended) bool {
	a.finished = slices.DeleteFunc(a.finished, func(r int32) bool { return int(a.next[r]) > a.requests[r].Output })
	is := func(r int32) bool {
		p := &a.phases[r]
		return p.from != 0 && p.from <= by.number && int64(a.next[r]) <= int64(a.requests[r].Output)-max(p.last-by.step, 0)
	}
	return slices.ContainsFunc(a.finished, is) || slices.ContainsFunc(a.decoding, func(d Decoding) bool { return is(d.Request) })
}

// due says whether requests are late, and the GPUs alone would hold this one or have
// ended it: it need not be expected to fit beside what the others grow to.
func (o *Offload) due(request int32) bool {
	if o.forecast == nil || !o.late(0, 1, 0) {
		return false
	}
	from := o.alone.phases[request].from
	return from != 0 && from <= o.aloneIn(0, o.MaxDelay).number
}

// delays says whether to prefill a prompt for the host now, from so many tokens in the
// present iteration on, makes a request late: its time, that of its move to the GPUs,
// with nothing hidden, and a step after that. Where the GPUs alone run several prompts in
// one iteration, this one may run apart from those that it belongs to, and these one by one
// from then on. What two prompts take longer apart is counted as well, and a step with
// empty places, after which they are together again.
func (o *Offload) delays(prompt, tokens int) bool {
	b, sub := &o.batch.Sub[0], &o.gpus.Sub[0]
	var apart units.Duration
	after := 1
	if first := o.alone.shared; first != 0 && first <= o.aloneIn(0, 0).number+1 {
		two := [2]waiting{{prompt: prompt}, {prompt: prompt}}
		apart, after = 2*o.longer(two[:1])-o.longer(two[:]), 2
	}
	b.Prefill = append(b.Prefill, Chunk{Tokens: tokens, Last: tokens == prompt})
	time := o.Costs.Iteration(&o.batch) + o.Costs.Move(prompt) + apart
	b.Prefill = b.Prefill[:len(b.Prefill)-1]
	sub.Decode = sub.Decode[:0]
	for done := tokens; done < prompt; done += tokens {
		tokens = min(prompt-done, o.batching.MaxBatchTokens)
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
	return o.late(time+units.Duration(after)*o.Costs.Iteration(&o.gpus), steps, 2)
}
