package system

import (
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// grouping is how the GPUs decode requests whose contexts begin with the same blocks of a cache of prefixes: one kernel reads
// stretches of these blocks, each once for all of its requests, another one the rest of each context, and a third joins outputs.
type grouping struct {
	of     int64           // Batch.Grouped of the batches that this is for
	groups []gpu.Shared    // stretches that are read once, none where that takes longer
	within []int           // by place in SubBatch.Decode: tokens of its context that they have
	rest   gpu.DecodeBatch // what is left of all contexts in a step
	kernel gpu.Cost        // of the stretches
	merge  gpu.Work
	spared int64 // tokens of contexts that a step does not read again
}

// group finds the groups of a sub-batch in a batch, where the rest of all contexts, the groups' kernel and the merge take so long together.
func (g *grouping) group(d *gpuSide, sub *scheduler.SubBatch, b *scheduler.Batch, took func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64) {
	if g.of != b.Grouped {
		g.of = b.Grouped
		g.choose(d, sub, b.Step, took)
	}
	if len(g.groups) > 0 {
		g.setRest(d, sub.Decode, b.Step)
	}
}

// choose takes the stretches that spare most, as many of them as make decode attention shortest.
func (g *grouping) choose(d *gpuSide, sub *scheduler.SubBatch, step int64, took func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64) {
	g.groups, g.spared = g.groups[:0], 0
	g.within = append(g.within[:0], make([]int, len(sub.Decode))...)
	if len(sub.Shared) == 0 {
		return
	}
	g.setRest(d, sub.Decode, step)
	shortest, take, spared := took(g.rest, gpu.Work{}, gpu.Work{}), 0, int64(0)
	requests, parts := 0, 0
	for i := range sub.Shared {
		x := &sub.Shared[i]
		g.groups = append(g.groups, gpu.Shared{Requests: len(x.Requests), Tokens: x.Tokens})
		spared += int64(x.Spared())
		for _, at := range x.Requests {
			if g.within[at] == 0 {
				requests, parts = requests+1, parts+1 // the rest of its context
			}
			g.within[at] += x.Tokens
			parts++
		}
		g.setRest(d, sub.Decode, step)
		kernel, merge := d.gpu.SharedCost(g.groups), d.gpu.MergeParts(requests, parts)
		if t := took(g.rest, d.gpu.Kernel(kernel), merge); t < shortest {
			shortest, take = t, i+1
			g.kernel, g.merge, g.spared = kernel, merge, spared
		}
	}
	g.groups = g.groups[:take]
	for i := range sub.Shared[take:] {
		x := &sub.Shared[take+i]
		for _, at := range x.Requests {
			g.within[at] -= x.Tokens
		}
	}
}

// setRest sets what groups leave of the contexts in a step.
func (g *grouping) setRest(d *gpuSide, requests []scheduler.Decoding, step int64) {
	c := &d.decode(requests, 0, step).Attend[0] // groups need a policy with one class of heads
	tokens, longest := 0, 0
	for i, n := range c.Tokens {
		n -= g.within[i]
		tokens, longest = tokens+n, max(longest, n)
	}
	g.rest = gpu.DecodeBatch{Requests: len(requests), Tokens: int64(tokens), Longest: longest, KVHeads: c.Heads}
}

// stageGroups returns what a sub-batch costs on the GPUs, which is so much where each request reads for itself, with stretches read once
// where that takes less in all.
func (d *gpuSide) stageGroups(sub *scheduler.SubBatch, b *scheduler.Batch, alone *stage) *stage {
	g, each := &d.grouping, d.decoding[0]
	g.group(d, sub, b, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
		return d.gpu.DecodeBatch(rest).Seconds + kernel.Seconds + merge.Seconds
	})
	if len(g.groups) == 0 {
		return alone
	}
	took := d.whole(alone)
	d.rest[0] = g.rest
	d.decoding[0] = decoding{batches: d.rest[:], shared: &g.kernel, merge: g.merge}
	if x := d.stageRuns(sub); d.whole(x) < took {
		d.spared += g.spared
		return x
	}
	d.decoding[0] = each
	return d.stageRuns(sub)
}

// whole returns the GPUs' time of a sub-batch.
func (d *gpuSide) whole(g *stage) units.Duration {
	return g.entry + g.exit + units.Duration(d.model.Layers-1)*g.block + g.attention()
}
