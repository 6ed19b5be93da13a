package scheduler

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/units"
)

// alone simulates the GPUs without the host: a Scheduler of the same requests and memory,
// with the same costs. It runs only up to the time that a caller asks for.
type alone struct {
	*Scheduler
	costs    OffloadCosts
	arrived  []int32        // requests that have arrived, in order
	added    int            // number of arrived requests that are in the queue
	ends     units.Duration // end of the present iteration, or of the latest one
	runs     bool           // an iteration is under way
	formed   int32          // number of iterations so far
	log      []ended        // the latest iterations that have ended
	finished []int32        // requests that it has ended, and that the Offload may not have ended
	emitted  func(request int32, tokens int)
	next     []int32 // number of the token that each request of the Offload emits next
	phases   []phase // by request
	group    []int32 // by request, the iteration that had its whole prompt; 0: not yet
	shared   int32   // first iteration that had whole prompts of several requests; 0: not yet
}

// ended is an iteration that has ended.
type ended struct {
	number int32          // from 1
	at     units.Duration // its end
	step   int64          // the last step by then
}

// phase is the decode phase of a request.
type phase struct {
	from int32 // iteration that emits the first token; 0: not yet
	last int64 // step that emits the last token
}

// newAlone copies the scheduler and its memory as they are, to go on without the CPUs' help: how long all that
// would take is what the help must beat.
func newAlone(s *Scheduler, costs OffloadCosts) *alone {
	spec, memory := *s.spec, *s.ledger
	spec.SubBatches = 1
	memory.used, memory.tokens, memory.spare = slices.Clone(memory.used), slices.Clone(memory.tokens), nil
	c := Config{Policy: s.policy, Scheduler: &spec, Memory: s.memory, Comm: s.comm, Batching: s.batching, PrefillStreak: s.streak.most}
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

// latest returns the arrival time of the latest request.
func (a *alone) latest() units.Duration {
	if len(a.arrived) == 0 {
		return 0
	}
	return a.requests[a.arrived[len(a.arrived)-1]].Arrival
}

// at runs all iterations that end before to, and returns the last of them. Earlier calls
// may have run later iterations.
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

// forget drops the older half of the log if all of it ended before an iteration.
func (a *alone) forget(before ended) {
	if half := len(a.log) / 2; a.log[half].number <= before.number {
		a.log = slices.Delete(a.log, 0, half)
	}
}

// form begins the next iteration. It returns false if no request arrives before to.
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

// late says whether some request will be later than with the GPUs alone by more than
// MaxDelay. That is so if the GPUs alone, slower by that share, would by a time from now
// have emitted the request's next token here after that time. Meanwhile each decoding
// request of the GPUs takes steps steps, and a prompt that ends in the present iteration
// emits prompts tokens. A request of the host that takes part emits one token.
func (o *Offload) late(time units.Duration, steps, prompts int) bool {
	return o.later(o.MaxDelay, time, steps, prompts)
}

// later is late with share in place of MaxDelay.
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
	return a.ahead(o.aloneIn(time, share))
}

// aloneIn returns the latest iteration that the GPUs alone, slower by a share, would have
// ended at a time from now.
func (o *Offload) aloneIn(time units.Duration, share float64) ended {
	at := func(time units.Duration, share float64) ended {
		time += o.clock.now - o.clock.since
		return o.alone.at(o.clock.since + time - units.Duration(float64(share*float64(time))))
	}
	if len(o.alone.log) > 1000 { // nobody asks for what is earlier
		o.alone.forget(at(0, o.MaxDelay))
	}
	return at(time, share)
}

// ahead says whether the GPUs alone are ahead of the Offload by the end of an iteration:
// for some request they have emitted the token that the Offload emits next.
func (a *alone) ahead(by ended) bool {
	a.finished = slices.DeleteFunc(a.finished, func(r int32) bool { return int(a.next[r]) > a.requests[r].Output })
	is := func(r int32) bool {
		p := &a.phases[r]
		return p.from != 0 && p.from <= by.number && int64(a.next[r]) <= int64(a.requests[r].Output)-max(p.last-by.step, 0)
	}
	return slices.ContainsFunc(a.finished, is) || slices.ContainsFunc(a.decoding, func(d Decoding) bool { return is(d.Request) })
}

// due says whether requests are late and the GPUs alone already hold this one, or have
// ended it. A due request is admitted without a forecast of how the others grow.
func (o *Offload) due(request int32) bool {
	if o.forecast == nil || !o.late(0, 1, 0) {
		return false
	}
	from := o.alone.phases[request].from
	return from != 0 && from <= o.aloneIn(0, o.MaxDelay).number
}

// delays says whether a request becomes late if a prompt for the host is prefilled now,
// its first tokens tokens in the present iteration. The time counted is that of the prompt,
// of its swap in later with nothing hidden, and of a step after that. Where the GPUs alone
// run several prompts in one iteration, this prompt may be split from its group (gathers).
// Then the time that two prompts take longer apart is added, and one more step, in which
// seats stay empty until the group is together again.
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
