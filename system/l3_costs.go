package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// subCost is what the tasks of a sub-batch cost on the GPUs.
type subCost struct {
	active           bool
	entry            units.Duration // embedding, QKV generation of layer 0
	prefillAttention units.Duration // of all prompts, one layer
	window           units.Duration // what decoding requests do on the GPUs beside the ranksets, one layer
	block            units.Duration // merge of both, projection to the next layer's QKV generation
	chooses          units.Duration // pages, before anything goes to the ranksets
	exit             units.Duration // merge, projection of the last layer to the LM head
	groups           []groupCost
	use              gpuUse
}

// iterationCosts is what the tasks of an iteration cost on L3's resources, and how these work.
type iterationCosts struct {
	layers  int            // of the first run of layers that attend alike
	latency units.Duration // of a PCIe transfer down, not occupying the link
	// upLatency is from the end of attention to the first data of results on the
	// links: the host notices, the rank PU answers, a PCIe transfer begins.
	upLatency units.Duration
	// The switches of a rankset that computes around a transfer: leaving attention
	// (PREA, tRP), and activating all banks again.
	vacate, reactivate units.Duration
	clock              dataflow.Clock
	step               int64 // clocks between the boundaries within a head
	headsEach          int   // heads of a request on a channel
	rotate             bool  // layer l of a request lies on rankset (l + offset) mod R
	concurrent         bool  // ranksets compute while another one receives
	asyncPrefill       bool  // prompts go down during the block, not before it
	buffered           bool  // the memory controllers collect what they write
	halfDuplex         bool  // PCIe can carry more than the channels: they serve one direction at a time

	sub    []subCost   // in the first run of layers
	groups []groupCost // of these, R for each sub-batch
	more   []layerRun  // of further runs
	waits  []int32     // scratch: what a block waits for
	ups    []int32     // scratch: transfers of prefixes
}

// layerRun is what sub-batches cost in a run of layers that attend alike.
type layerRun struct {
	layers int
	sub    []subCost
}

// run returns the layers of a run and the costs of all sub-batches there.
func (c *iterationCosts) run(i int) (layers int, sub []subCost) {
	if i == 0 {
		return c.layers, c.sub
	}
	return c.more[i-1].layers, c.more[i-1].sub
}

// runs returns how many there are.
func (c *iterationCosts) runs() int { return 1 + len(c.more) }

// newIterationCosts returns costs with room for the groups of all sub-batches.
func newIterationCosts(subBatches, ranksets int) iterationCosts {
	c := iterationCosts{sub: make([]subCost, subBatches), groups: make([]groupCost, subBatches*ranksets)}
	for s := range c.sub {
		c.sub[s].groups = c.groups[s*ranksets : (s+1)*ranksets]
	}
	return c
}

// fill sets c to the costs of batch b.
func (e *l3) fill(c *iterationCosts, b *scheduler.Batch) {
	if e.ranks.rest > 0 && !e.ranks.fixed {
		e.ranks.rotate(b)
	}
	for s := range b.Sub {
		sub := &b.Sub[s]
		if c.sub[s].active = sub.Tokens() > 0; !c.sub[s].active {
			continue
		}
		x := e.decodeBeside(sub.Decode, b.Step, e.counts)
		g := e.stageRuns(sub)
		e.ranks.tallyPrefixes(sub)
		for run := range e.runs {
			_, subs := c.run(run)
			out, l := &subs[s], &g.layers[run]
			if len(e.runs) > 1 {
				x = e.decode(sub.Decode, run, b.Step)
			}
			e.ranks.fillGroups(out.groups, sub, x, run)
			e.ranks.tallyStep(x, int(l.count))
			out.active, out.entry, out.block, out.exit = true, g.entry, g.block+l.merge, g.exit+l.merge
			out.use.set(&g.gpuUse)
			out.prefillAttention, out.window, out.chooses = l.prompts, l.attention-l.prompts, l.chooses
			c.sub[s].use.merge += units.Duration(l.count) * l.merge
			c.sub[s].use.chooses += units.Duration(l.count) * l.chooses
		}
	}
}

// decodeBeside sets the GPUs' part of decoding, beside the ranks. It returns the policy's step of
// the last run of layers. With count it adds the tokens attended to, for the summary.
func (e *l3) decodeBeside(requests []scheduler.Decoding, step int64, count bool) (x *policy.Step) {
	e.gpus = e.gpus[:0]
	for run := range e.runs {
		x = e.decode(requests, run, step)
		if count {
			e.count(x, run)
		}
		from := len(e.gpus)
		for i := range x.Attend {
			if c := &x.Attend[i]; c.Device == policy.GPU {
				e.gpus = append(e.gpus, decodeBatch(c))
			}
		}
		e.decoding[run] = decoding{batches: e.gpus[from:]}
		if e.counts {
			o := &e.decoding[run]
			o.beside, o.merge, o.chooses = e.passes(x, policy.GPU), e.gpu.Merge(x.Merged), e.choices(x)
		}
		if e.ranks.stripe.parts > 0 {
			e.decoding[run].merge = e.gpu.MergeParts(e.ranks.merges(x))
		}
	}
	return x
}

// measure sets the times of a sample to those of sub-batch i. What requests decode on the GPUs
// is with the batched operations, as it grows with the number of requests.
func (e *l3) measure(m *scheduler.Sample, b *scheduler.Batch, i, otherPrefill int) {
	sub, layers := &b.Sub[i], units.Duration(e.model.Layers)
	e.decodeBeside(sub.Decode, b.Step, false)
	g, chunks := e.stageRuns(sub), e.gpu.Attention()
	for j := range m.Chunks { // all layers take as long
		k := e.promptAttention(&chunks, &sub.Prefill[j], 0)
		m.Chunks[j].Time = layers * (k.took(g.slow) + e.ranks.scoringOf(&sub.Prefill[j]))
	}
	m.FC = g.entry + (layers-1)*g.block + g.exit
	for run := range g.layers {
		l := &g.layers[run]
		m.FC += units.Duration(l.count) * (l.attention - l.prompts + l.merge + l.chooses)
	}
	m.PIM = e.ranks.PIM(sub, b.Step, otherPrefill)
}

// GPU implements scheduler.Predictor with the costs themselves (L3, equation 6), and what
// requests decode on the GPUs.
func (e *l3) GPU(s *scheduler.SubBatch, iteration int64) units.Duration {
	if !e.counts && e.ranks.stripe.parts == 0 {
		return e.gpuSide.GPU(s, iteration) + e.ranks.scoring(s)
	}
	e.decodeBeside(s.Decode, iteration, false)
	return e.gpuTime(s) + e.ranks.scoring(s)
}

// PIM implements scheduler.Predictor with the costs themselves (L3, equation 5).
func (e *l3) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) units.Duration {
	return e.ranks.PIM(s, iteration, otherPrefill)
}

// imbalance adds an iteration's attention to m.
func (c *iterationCosts) imbalance(m *imbalance) {
	for s := range c.sub {
		if !c.sub[s].active {
			continue
		}
		for r := range c.runs() {
			_, subs := c.run(r)
			m.add(attending(subs[s].groups))
		}
	}
}
