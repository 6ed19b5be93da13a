package scheduler

import "github.com/l3sim/l3sim/units"

// worthHelp adds requests of the host to the iteration and says whether it is worth
// the time. The iteration without them is the present one, in which the GPUs'
// requests decode or wait for prompts.
//
// NEO takes the iteration with more requests over time. But its tokens are not equal:
// requests wait for memory on the GPUs, and the host relieves them of the first tokens
// of each, with short contexts. So a token of the host is worth the time that it
// would take on the GPUs: of a step there, its share of the batched operations by the
// memory that its request holds, and of attention by its context. What is worth more
// than the time that the iteration takes longer makes the whole run shorter.
func (o *Offload) worthHelp(decode bool) bool {
	b := &o.batch
	without := o.Costs.Iteration(b)
	b.Sub[0].Decode = append(b.Sub[0].Decode[:0], o.decoding...)
	if o.pack() > 0 {
		if len(o.decoding) == 0 {
			return true
		}
		with := o.Costs.Iteration(b)
		step, operations, attention := o.gpuStep()
		worth := 0.0
		if !decode {
			worth = step
		}
		for i := range b.Sub {
			held, contexts := o.load(b.Sub[i].Host)
			worth += float64(operations*held) + float64(attention*contexts)
		}
		if worth > float64(with-without) {
			return true
		}
	}
	o.unpack()
	return false
}

// gpuStep returns the time of a step of the GPUs' requests alone, and what of that is
// for a token of memory that they hold and for a token of context.
func (o *Offload) gpuStep() (took, held, context float64) {
	sub := &o.gpus.Sub[0]
	o.gpus.Step, sub.Decode = o.batch.Step, o.decoding
	t := o.Costs.Iteration(&o.gpus)
	attention, operations := o.Costs.Attention(sub, o.gpus.Step), o.Costs.Linear(len(o.decoding))
	took = float64(t)
	share := float64(attention) / float64(attention+operations)
	heldAll, contexts := o.load(o.decoding)
	return took, took * (1 - share) / heldAll, took * share / contexts
}

// load returns the tokens that requests hold memory for, and their contexts.
func (o *Offload) load(requests []Decoding) (held, contexts float64) {
	var h, c int64
	for i := range requests {
		d := &requests[i]
		h += int64(o.holds[d.Request].Tokens)
		c += d.Base + o.batch.Step
	}
	return float64(h), float64(c)
}

// pack adds requests of the host to both sub-batches, oldest first, as long as the
// CPUs' attention for one hides behind what the GPUs do meanwhile: its own attention
// there and the other one's batched operations. The next request goes where more
// time is left. One that does not fit is passed over, and with it all longer ones.
// pack returns the number added.
func (o *Offload) pack() int {
	b := &o.batch
	var tokens, requests [2]int
	var contexts [2]int64
	var gpu [2]units.Duration
	for i := range b.Sub {
		tokens[i], gpu[i] = b.Sub[i].Tokens(), o.Costs.Attention(&b.Sub[i], b.Step)
	}
	room := min(o.roomBeside(), o.seats(len(o.decoding)))
	left := func(i int) units.Duration {
		return o.Costs.Linear(tokens[1-i]) + gpu[i] - o.Costs.HostAttention(requests[i], contexts[i])
	}
	add := func(i, n int, context int64) {
		tokens[i], requests[i], contexts[i] = tokens[i]+n, requests[i]+n, contexts[i]+context
	}
	added, to, shortest := 0, 1, int64(never)
	for k := range o.hosted {
		h := &o.hosted[k]
		context := h.Base + b.Step
		if added == room {
			break
		}
		if h.comes || context >= shortest {
			continue
		}
		add(to, 1, context)
		left0, left1 := left(0), left(1)
		if left0 < 0 || left1 < 0 {
			add(to, -1, -context)
			shortest = context
			continue
		}
		h.chosen = true
		b.Sub[to].Host = append(b.Sub[to].Host, h.Decoding)
		added++
		to = 0
		if left1 > left0 {
			to = 1
		}
	}
	return added
}

// never is longer than any context.
const never = 1 << 62

// unpack takes the host's requests out of the iteration.
func (o *Offload) unpack() {
	for i := range o.batch.Sub {
		o.batch.Sub[i].Host = o.batch.Sub[i].Host[:0]
	}
	for i := range o.hosted {
		o.hosted[i].chosen = false
	}
}

// halve puts all requests of the host into two sub-batches of about equal contexts.
func (o *Offload) halve() {
	b := &o.batch
	var tokens [2]int64
	for i := range min(len(o.hosted), o.seats(0)) {
		h := &o.hosted[i]
		to := 0
		if tokens[1] < tokens[0] {
			to = 1
		}
		tokens[to] += h.Base + b.Step
		h.chosen = true
		b.Sub[to].Host = append(b.Sub[to].Host, h.Decoding)
	}
}

// choose has the chosen requests of the host take part from this step on, the
// others sit out.
func (o *Offload) choose() {
	o.unused.valid = false
	for i := range o.hosted {
		h := &o.hosted[i]
		if h.runs != h.chosen {
			o.batch.Pauses = append(o.batch.Pauses, Pause{Request: h.Request, Ends: h.chosen})
		}
		h.runs, h.chosen = h.chosen, false
	}
}
