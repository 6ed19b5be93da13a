package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// gathers says whether the queue's head waits for its group, so that their prompts run in
// one iteration. Its group is the requests whose prompts the GPUs alone ran in one iteration
// with its own. After the host has helped, the prompts of a group may run one by one, and
// would do so from then on. A group gathers only where requests are late. It gathers if one
// iteration for its prompts saves more time than the seats that stay empty until then cost.
// The saving counts once for each time that a group was split: as many splits are expected
// to follow.
func (o *Offload) gathers(w *waiting) bool {
	if len(o.batch.Sub[0].Prefill) > 0 {
		return false
	}
	group, steps := o.group(w)
	first := 0
	for first < len(group) && steps[first] == 0 {
		first++
	}
	if first > 1 && first == len(group) {
		o.apart = 0
	}
	if first == 0 || first == len(group) {
		return false
	}
	if o.apart++; !o.later(0, 0, 1, 0) {
		return false
	}
	// Try to wait for each larger part of the group that gets memory at the same step.
	separate, waited := o.longer(group[:first]), int64(0)
	place := float64(o.decodeOnly()) / float64(len(o.decoding)+first)
	for begin, end := first, first; begin < len(group); begin = end {
		waited += int64(begin) * (steps[begin] - steps[begin-1])
		for end = begin; end < len(group) && steps[end] == steps[begin]; end++ {
		}
		separate += o.longer(group[begin:end])
		if saved := separate - o.longer(group[:end]); float64(saved)*float64(o.apart) > place*float64(waited) {
			return true
		}
	}
	return false
}

// group returns the group of the queue's head, in the order of the queue. For each request,
// steps is the number of steps until it has memory and a seat on the GPUs. Only requests
// that have ended on the GPUs alone by now are taken to free theirs. Requests of the group
// for which that is too little are left out.
func (o *Offload) group(w *waiting) (group []waiting, steps []int64) {
	by, number := o.aloneIn(0, 0), o.alone.group[w.request]
	if number == 0 || number > by.number+1 {
		return nil, nil
	}
	var leaving []Decoding
	for _, d := range o.decoding {
		if slices.Contains(o.alone.finished, d.Request) && o.alone.phases[d.Request].last <= by.step {
			leaving = append(leaving, d)
		}
	}
	slices.SortFunc(leaving, func(a, b Decoding) int { return int(a.Last - b.Last) })
	after, free, seats := int64(0), o.ledger.Capacity()-o.ledger.Used()-o.keep(o.ledger), o.seats(o.running())
	for i := o.head; i < len(o.queue) && o.alone.group[o.queue[i].request] == number; i++ {
		free -= o.units(o.reserved(&o.queue[i]).Tokens)
		for seats--; free < 0 || seats < 0; leaving = leaving[1:] {
			if len(leaving) == 0 {
				return group, steps
			}
			free += o.units(o.holds[leaving[0].Request].Tokens)
			seats++
			after = leaving[0].Last - o.clock.step
		}
		group, steps = append(group, o.queue[i]), append(steps, after)
	}
	return group, steps
}

// decodeOnly returns the time of a step in which only the GPUs' requests decode.
func (o *Offload) decodeOnly() units.Duration {
	sub := &o.gpus.Sub[0]
	o.gpus.Step, sub.Decode = o.clock.step+1, append(sub.Decode[:0], o.decoding...)
	return o.Costs.Iteration(&o.gpus)
}

// longer returns the time that prompts add to an iteration of the GPUs.
func (o *Offload) longer(prompts []waiting) units.Duration {
	without, sub := o.decodeOnly(), &o.gpus.Sub[0]
	if o.policy == PolicyPrefillFirst {
		sub.Decode, without = sub.Decode[:0], 0
	}
	for i := range prompts {
		sub.Prefill = append(sub.Prefill, Chunk{Tokens: prompts[i].prompt, Last: true})
	}
	with := o.Costs.Iteration(&o.gpus)
	sub.Prefill = sub.Prefill[:0]
	return with - without
}
