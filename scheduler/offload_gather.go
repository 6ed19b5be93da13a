package scheduler

import (
	"slices"

	"github.com/l3sim/l3sim/units"
)

// gathers says whether the queue's head waits for memory for all whose prompts the GPUs
// alone ran in one iteration with its own. Requests that begin and end together on the
// GPUs alone may be apart here once the host has helped: prompts then run one by one,
// for good. Where requests are late, and what keeps the group apart has ended on the
// GPUs alone, the group gathers if one iteration for all its prompts saves more time
// than the steps until then take for the places that stay empty.
func (o *Offload) gathers(w *waiting) bool {
	number := o.alone.group[w.request]
	if number == 0 || number > o.aloneIn(0).number || len(o.batch.Sub[0].Prefill) > 0 || !o.late(0, 1, 0) {
		return false
	}
	group := o.queue[o.head:]
	if end := slices.IndexFunc(group, func(w waiting) bool { return o.alone.group[w.request] != number }); end >= 0 {
		group = group[:end]
	}
	first, need := len(group), o.ledger.Used()+o.keep(o.ledger)-o.ledger.Capacity()
	for i := range group {
		if need += o.units(o.reservedTokens(&group[i])); need > 0 {
			first = min(first, i) // without memory
		}
	}
	if first == 0 || first == len(group) {
		return false
	}
	steps := o.stepsToFree(need)
	empty := float64(first) / float64(first+len(o.decoding))
	return steps >= 0 && float64(o.together(group, first)) > float64(steps)*float64(o.decodeOnly())*empty
}

// stepsToFree returns after how many steps requests that the GPUs alone have ended will
// have left so many units of the GPUs' memory, or -1 where they do not hold as many.
func (o *Offload) stepsToFree(need int64) int64 {
	var late []Decoding
	by := o.aloneIn(0).step
	for _, d := range o.decoding {
		if slices.Contains(o.alone.finished, d.Request) && o.alone.phases[d.Request].last <= by {
			late = append(late, d)
		}
	}
	slices.SortFunc(late, func(a, b Decoding) int { return int(a.Last - b.Last) })
	for _, d := range late {
		if need -= o.units(o.holds[d.Request].Tokens); need <= 0 {
			return d.Last - o.clock.step
		}
	}
	return -1
}

// decodeOnly returns what a step of the GPUs' requests takes.
func (o *Offload) decodeOnly() units.Duration {
	sub := &o.gpus.Sub[0]
	o.gpus.Step, sub.Decode = o.clock.step+1, append(sub.Decode[:0], o.decoding...)
	return o.Costs.Iteration(&o.gpus)
}

// together returns how much less time the prompts of a group take in one iteration than
// in two, the first one with so many of them.
func (o *Offload) together(group []waiting, first int) units.Duration {
	without := o.decodeOnly()
	sub := &o.gpus.Sub[0]
	if o.policy == PolicyPrefillFirst {
		sub.Decode, without = sub.Decode[:0], 0
	}
	defer func() { sub.Prefill = sub.Prefill[:0] }()
	longer := func(prompts []waiting) units.Duration {
		sub.Prefill = sub.Prefill[:0]
		for i := range prompts {
			sub.Prefill = append(sub.Prefill, Chunk{Tokens: prompts[i].prompt, Last: true})
		}
		return o.Costs.Iteration(&o.gpus) - without
	}
	return longer(group[:first]) + longer(group[first:]) - longer(group)
}
