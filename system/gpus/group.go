package gpus

import (
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// Grouping is how the GPUs decode requests whose contexts begin with the same cached blocks. One kernel reads each shared run of
// blocks once for all its requests, another reads the rest of each context, and a third merges the outputs.
type Grouping struct {
	of     int64           // Batch.Grouped of the batches for which this holds
	Groups []gpu.Shared    // runs of blocks that are read once; none if that takes longer
	within []int           // by place in SubBatch.Decode: tokens of its context in Groups
	Rest   gpu.DecodeBatch // the rest of all contexts in a step
	Kernel gpu.Cost        // of the shared runs
	Merge  gpu.Work
	Spared int64 // context tokens that a step does not read again
}

// Group finds the groups of a sub-batch in a batch. took returns the time of the rest of all contexts, the groups' kernel and the merge
// together.
func (g *Grouping) Group(d *GPUs, sub *scheduler.SubBatch, b *scheduler.Batch, took func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64) {
	if g.of != b.Grouped {
		g.of = b.Grouped
		g.choose(d, sub, b.Step, took)
	}
	if len(g.Groups) > 0 {
		g.setRest(d, sub.Decode, b.Step)
	}
}

// choose takes shared runs, largest saving first, as many as minimise the time of decode attention.
func (g *Grouping) choose(d *GPUs, sub *scheduler.SubBatch, step int64, took func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64) {
	g.Groups, g.Spared = g.Groups[:0], 0
	g.within = append(g.within[:0], make([]int, len(sub.Decode))...)
	if len(sub.Shared) == 0 {
		return
	}
	g.setRest(d, sub.Decode, step)
	shortest, take, spared := took(g.Rest, gpu.Work{}, gpu.Work{}), 0, int64(0)
	requests, parts, each := 0, 0, d.hw.Config.Serving.Verified() // each: tokens of a request's step, with an output each
	for i := range sub.Shared {
		x := &sub.Shared[i]
		g.Groups = append(g.Groups, gpu.Shared{Requests: len(x.Requests), Tokens: x.Tokens})
		spared += int64(x.Spared())
		for _, at := range x.Requests {
			if g.within[at] == 0 {
				requests, parts = requests+1, parts+1 // adds the rest of its context
			}
			g.within[at] += x.Tokens
			parts++
		}
		g.setRest(d, sub.Decode, step)
		kernel, merge := d.ModelCost.SharedCost(g.Groups), d.ModelCost.MergeParts(requests*each, parts*each)
		if t := took(g.Rest, d.ModelCost.Kernel(kernel), merge); t < shortest {
			shortest, take = t, i+1
			g.Kernel, g.Merge, g.Spared = kernel, merge, spared
		}
	}
	g.Groups = g.Groups[:take]
	for i := range sub.Shared[take:] {
		x := &sub.Shared[take+i]
		for _, at := range x.Requests {
			g.within[at] -= x.Tokens
		}
	}
}

func (g *Grouping) setRest(d *GPUs, requests []scheduler.Decoding, step int64) {
	c := &d.Attends.Decode(requests, 0, step).Attend[0] // groups need a policy with one class of heads
	tokens, longest := 0, 0
	for i, n := range c.Tokens {
		n -= g.within[i]
		tokens, longest = tokens+n, max(longest, n)
	}
	g.Rest = gpu.DecodeBatch{Requests: len(requests), Tokens: int64(tokens), Longest: longest, KVHeads: c.Heads}
}

// StageGroups returns the cheaper of two costs of a sub-batch on the GPUs: every request reads its whole context (alone), or
// shared prefixes are read once.
func (d *GPUs) StageGroups(sub *scheduler.SubBatch, b *scheduler.Batch, alone *stage) *stage {
	g, each := &d.Grouping, d.Decoding[0]
	g.Group(d, sub, b, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
		return d.ModelCost.DecodeBatch(rest).Seconds + kernel.Seconds + merge.Seconds
	})
	if len(g.Groups) == 0 {
		return alone
	}
	took := d.Whole(alone)
	d.rest[0] = g.Rest
	d.Decoding[0] = Decoding{Batches: d.rest[:], Shared: &g.Kernel, Merge: g.Merge}
	if x := d.StageRuns(sub); d.Whole(x) < took {
		d.Attends.Spared += g.Spared
		return x
	}
	d.Decoding[0] = each
	return d.StageRuns(sub)
}

// Whole returns the GPUs' time of a sub-batch.
func (d *GPUs) Whole(g *stage) units.Duration {
	return g.Entry + g.Exit + units.Duration(d.Model.Layers-1)*g.Block + g.attention()
}
