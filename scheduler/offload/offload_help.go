package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/units"
)

// helpBest adds requests of the host to the GPUs' iteration, in the GPUs' sub-batch or in two as in
// NEO. As NEO does, it chooses the variant with most requests per time, or none of the host's. The
// iteration may take at most maxDelay longer than if the CPUs' attention took no time.
func (o *Former) helpBest() {
	b := &o.s.Batch
	rows, attention := b.Sub[0].Tokens(), o.costs.Attention(&b.Sub[0], b.Step)
	without := float64(o.costs.Iteration(b))
	layer := float64(attention + o.costs.Linear(rows))
	best, most := 0, float64(rows)/without
	for over := 1; over <= 2; over++ {
		n := o.pack(over) * o.s.Speculation.Tokens()
		with := float64(o.costs.Iteration(b))
		free := float64(without * float64(attention+o.costs.Linear(rows+n)) / layer)
		if rate := float64(rows+n) / with; n > 0 && rate > most && with <= free+float64(o.maxDelay*free) {
			best, most = over, rate
		}
	}
	o.unpack()
	if best > 0 {
		o.pack(best)
	}
}

// pack puts requests of the host into the iteration, into the GPUs' sub-batch or over two, and
// returns how many. It adds them, oldest first, as long as the CPUs' attention for a sub-batch
// hides behind the GPUs' work: with one sub-batch, its own attention (and maxDelay); with two, also
// the other's batched operations. With two, the next request goes to the one with more time left. A
// request that does not fit is skipped, and so are all with longer contexts.
func (o *Former) pack(over int) (added int) {
	o.unpack()
	b := &o.s.Batch
	attention := o.costs.Attention(&b.Sub[0], b.Step)
	tokens, requests, contexts := [2]int{b.Sub[0].Tokens(), 0}, [2]int{}, [2]int64{}
	left := func() (left [2]units.Duration) {
		left[0] = attention
		if over == 2 {
			left[0] += o.costs.Linear(tokens[1])
			left[1] = o.costs.Linear(tokens[0])
		} else {
			left[0] += o.slack(attention + o.costs.Linear(tokens[0]))
		}
		for i := range left {
			left[i] -= o.costs.HostAttention(requests[i], contexts[i])
		}
		return left
	}
	to := over - 1
	each := o.s.Speculation.Tokens()
	add := func(n int, context int64) {
		tokens[to], requests[to], contexts[to] = tokens[to]+n*each, requests[to]+n, contexts[to]+context
	}
	room, shortest := o.roomBeside()-1, int64(never) // keeps one place for a turn
	hosts := o.s.Host.Decoding
	for k := 0; k < len(hosts) && added < room; k++ {
		h := &hosts[k]
		context := int64(h.NextContext(b.Step) + each - 1)
		if h.Comes || context >= shortest {
			continue
		}
		add(1, context)
		l := left()
		if min(l[0], l[1]) < 0 {
			add(-1, -context)
			shortest = context
			continue
		}
		o.join(h, to)
		added++
		if to = 0; over == 2 && l[1] > l[0] {
			to = 1
		}
	}
	return added
}

// slack is the delay of an iteration of a given time that the host's requests may cause.
func (o *Former) slack(time units.Duration) units.Duration {
	return units.Duration(float64(o.maxDelay * float64(time)))
}

// never is longer than any context.
const never = 1 << 62

// join adds a request of the host to a sub-batch.
func (o *Former) join(h *batching.Hosted, sub int) {
	if h.Chosen = true; !h.Runs {
		h.Settle(o.s.Batch.Step)
	}
	o.s.Batch.Sub[sub].Host = append(o.s.Batch.Sub[sub].Host, h.Decoding)
}

// unpack removes the host's requests from the iteration.
func (o *Former) unpack() {
	for i := range o.s.Batch.Sub {
		o.s.Batch.Sub[i].Host = o.s.Batch.Sub[i].Host[:0]
	}
	for i := range o.s.Host.Decoding {
		o.s.Host.Decoding[i].Chosen = false
	}
}

// spreadBest puts the host's requests into one sub-batch or into two, whichever takes less time.
func (o *Former) spreadBest() {
	o.spread(1)
	one := o.costs.Iteration(&o.s.Batch)
	o.unpack()
	o.spread(2)
	if one < o.costs.Iteration(&o.s.Batch) {
		o.unpack()
		o.spread(1)
	}
}

// spread puts the host's requests into one sub-batch, or into two with about equal sums of
// contexts.
func (o *Former) spread(over int) {
	var tokens [2]int64
	hosts := o.s.Host.Decoding
	for i := range hosts {
		h := &hosts[i]
		to := 0
		if over == 2 && tokens[1] < tokens[0] {
			to = 1
		}
		tokens[to] += int64(h.NextContext(o.s.Batch.Step))
		o.join(h, to)
	}
}

// choose makes the chosen requests of the host take part from this step on. The others sit out.
func (o *Former) choose() {
	hosts := o.s.Host.Decoding
	for i := range hosts {
		h := &hosts[i]
		if h.Runs != h.Chosen {
			o.start(h, h.Chosen)
		}
		h.Chosen = false
	}
}

// start makes a request of the host take part from this step on, or sit out.
func (o *Former) start(h *batching.Hosted, runs bool) {
	h.Runs, h.Settled, h.Since = runs, o.s.Batch.Step, o.s.Batch.Step
	o.s.Batch.Pauses = append(o.s.Batch.Pauses, scheduler.Pause{Request: h.Request, Ends: runs})
}

// takeTurn makes the host's request that has sat out longest take part in this one iteration, if
// the turns so far cost no more than maxDelay of the time. A request thus waits at most until
// maxDelay of the time covers what the turns before it cost.
func (o *Former) takeTurn() {
	if o.turns.credit < 0 {
		return
	}
	var next *batching.Hosted
	hosts := o.s.Host.Decoding
	for i := range hosts {
		if h := &hosts[i]; !h.Runs && !h.Comes && (next == nil || h.Since < next.Since) {
			next = h
		}
	}
	if next == nil {
		o.turns.credit = 0
		return
	}
	if o.roomBeside() <= 0 {
		return
	}
	o.turns.credit += o.costs.Iteration(&o.s.Batch)
	o.join(next, 0)
	o.start(next, true)
	next.Chosen, o.turns.request = false, next.Request
	o.turns.credit -= o.costs.Iteration(&o.s.Batch)
}

// endTurn makes the request whose turn it was sit out again.
func (o *Former) endTurn() {
	if o.turns.request == nobody {
		return
	}
	sub := &o.s.Batch.Sub[0]
	sub.Host = sub.Host[:len(sub.Host)-1]
	o.start(&o.s.Host.Decoding[o.s.Host.Find(o.turns.request)], false)
	o.turns.request = nobody
}

// hides says whether the CPUs' attention for a prompt's request and for all requests of the host
// would hide in a step: the step then takes at most maxDelay longer than if that attention took no
// time.
func (o *Former) hides(prompt int) bool {
	hosts := o.s.Host.Decoding
	requests, tokens := 1+len(hosts), int64(prompt)
	for i := range hosts {
		tokens += int64(hosts[i].NextContext(o.s.Batch.Step))
	}
	o.s.EachPrefilling(true, func(w *batching.Waiting) {
		requests++
		tokens += int64(w.Prompt)
	})
	each := o.s.Speculation.Tokens()
	tokens += int64(requests * (each - 1))
	c, sub := o.costs, &o.gpus.Sub[0]
	o.gpus.Step, sub.Decode = o.s.Batch.Step, append(sub.Decode[:0], o.s.Decoding...)
	attention, rows := c.Attention(sub, o.gpus.Step), (len(o.s.Decoding)+requests)*each
	most := attention + c.Linear(rows)
	most += o.slack(most)
	if c.Linear(rows)+max(attention, c.HostAttention(requests, tokens)) <= most {
		return true
	}
	second := (requests + 1) / 2
	first := requests - second
	theirs := second * each
	return attention+c.Linear(rows-theirs)+c.Linear(theirs) <= most &&
		c.HostAttention(first, tokens/2) <= attention+c.Linear(theirs) && c.HostAttention(second, tokens-tokens/2) <= c.Linear(rows-theirs)
}
