package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// groupCost is what one layer of a group costs: the decoding requests of a
// sub-batch with one rankset offset, and the prompts of that offset.
type groupCost struct {
	requests  int            // that attend over something on the rankset
	clocks    int64          // of the rank's attention, refresh not counted
	compute   units.Duration // of the rankset, refresh included
	idle      units.Duration // part of compute in which the mean rank waits for the busiest, where heads differ
	decode    shipment       // vectors of the requests: q, and k and v where these do not stay on the GPUs
	prompt    cargo          // of the prompts
	leaving   cargo          // of decoding requests, what leaves the GPUs after the step
	prefix    fetch          // of the prompts, what a cache has of them and the GPUs need
	up, upBus units.Duration // results: time of the PCIe links, and the channels' share

	heads   []int64 // clocks of one head of each request, in their order
	vectors vectors // that the requests move
}

// reset empties a group and keeps its memory. What is empty is not written: there are many groups, and few have
// anything but requests.
func (g *groupCost) reset() {
	if g.requests > 0 {
		g.requests, g.clocks, g.idle, g.heads, g.vectors = 0, 0, 0, g.heads[:0], vectors{}
	}
	if g.prompt.bytes > 0 {
		g.prompt = cargo{}
	}
	if g.leaving.bytes > 0 {
		g.leaving = cargo{}
	}
	if g.prefix.tokens > 0 {
		g.prefix = fetch{}
	}
}

// cargo is keys and values that go to a rankset, where they are not needed in this iteration.
type cargo struct {
	tokens int64       // of single heads on one channel
	bytes  units.Bytes // of all heads, with bounds of pages
	bursts int64       // on one channel
	clocks int64       // of the channel's writes, refresh not counted
	shipment
}

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

// devices are the models of one replica's hardware.
type devices struct {
	gpuSide
	kernels
	clock          dataflow.Clock
	channels       int
	heads, queries int         // KV heads on one channel, query heads of each
	tokenBytes     units.Bytes // of a token's key and value in one KV head
	boundBytes     units.Bytes // of a page's bounds in one KV head
	stores         bool        // a step's own key and value go to the ranks at once
	counts         bool        // attended tokens, which are not all
	sums           int64       // bytes that come with the results of a KV head where these are merged
	single         bool        // heads differ: each is a part of a group's attention by itself
	merged         bool        // the GPUs attend over other tokens of the same heads
	stripe         stripe
	attended       tallies
	rest           int     // heads that each request has beyond as many on every channel, in most layers
	first          []int32 // channel on which a request's heads begin, from 1; by request, 0 for none given
	fixed          bool    // the heads of all requests begin on one channel
	lists          map[listOf]pageList

	// link and channel are the data rates of all the replica's links in one
	// direction, and of all its channels.
	link, channel units.Bandwidth
	pimPeak       units.Bandwidth // of all the replica's ranks
	latency       units.Duration  // of a PCIe transfer down
	upLatency     units.Duration  // from the end of attention to the first data of results on the links
	transposed    *dram.Spec      // the DIMMs, where the CPU transposes elements; else nil
	buffer        units.Bytes     // of all the replica's memory controllers; 0 for none
	decodes       []decodeTraffic // by number of requests
	moved         decodeTraffic   // scratch
	spare         []int64         // scratch

	burst             units.Duration // of data on a channel
	burstBytes        int64
	openRow, closeRow units.Duration // ACT to the first data (tRCD, CWL); the last data to banks precharged (tWR, tRP)
	stageLatency      units.Duration // a burst into the rank PU's staging to its data (CWL)
	descriptor        int64          // bursts that the host writes to a rank for each head
	resultBursts      int64          // of one query head
	scales            int64          // bursts of scales beside a new key and value
	hostAccess        units.Duration // of a host core to a rank's control region

	scratch   []int64 // one value a rankset
	byChannel []int64 // one a channel
}

// fill sets c to the costs of batch b.
func (d *devices) fill(c *iterationCosts, b *scheduler.Batch) {
	if d.rest > 0 && !d.fixed {
		d.rotate(b)
	}
	for s := range b.Sub {
		sub := &b.Sub[s]
		if c.sub[s].active = sub.Tokens() > 0; !c.sub[s].active {
			continue
		}
		x := d.decodeBeside(sub.Decode, b.Step, d.counts)
		g := d.stageRuns(sub)
		d.tallyPrefixes(sub)
		for run := range d.runs {
			_, subs := c.run(run)
			out, l := &subs[s], &g.layers[run]
			if len(d.runs) > 1 {
				x = d.decode(sub.Decode, run, b.Step)
			}
			d.fillGroups(out.groups, sub, x, run)
			d.tallyStep(x, int(l.count))
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
func (d *devices) decodeBeside(requests []scheduler.Decoding, step int64, count bool) (x *policy.Step) {
	d.gpus = d.gpus[:0]
	for run := range d.runs {
		x = d.decode(requests, run, step)
		if count {
			d.count(x, run)
		}
		from := len(d.gpus)
		for i := range x.Attend {
			if c := &x.Attend[i]; c.Device == policy.GPU {
				d.gpus = append(d.gpus, decodeBatch(c))
			}
		}
		d.decoding[run] = decoding{batches: d.gpus[from:]}
		if d.counts {
			o := &d.decoding[run]
			o.beside, o.merge, o.chooses = d.passes(x, policy.GPU), d.gpu.Merge(x.Merged), d.choices(x)
		}
		if d.stripe.parts > 0 {
			d.decoding[run].merge = d.gpu.MergeParts(d.merges(x))
		}
	}
	return x
}

// fillGroups sets the groups of a sub-batch in a run of layers, whose decoding takes x.
func (d *devices) fillGroups(groups []groupCost, sub *scheduler.SubBatch, x *policy.Step, run int) {
	for offset := range groups {
		groups[offset].reset()
	}
	d.attend(groups, sub.Decode, x)
	for i := range x.Leave {
		for j, tokens := range x.Leave[i].Tokens {
			if tokens > 0 {
				r := &sub.Decode[j]
				d.send(groups, leavingOf, r.Request, r.Offset, &x.Leave[i], j)
			}
		}
	}
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		if c.Prefix > 0 {
			d.reuse(groups, c)
		}
		leave := d.policy.Prompt(run, c.Tokens, c.Finished, c.Last).Leave
		for j := range leave {
			d.send(groups, promptOf, c.Request, c.Offset, &leave[j], 0)
		}
	}
	for offset := range groups {
		g := &groups[offset]
		if g.requests > 0 {
			traffic := d.moves(g.requests, &g.vectors)
			g.compute = d.clock.Time(g.clocks)
			g.decode, g.up, g.upBus = traffic.down, traffic.up, traffic.upBus
		}
		if g.prompt.tokens|g.leaving.tokens|g.prefix.tokens > 0 { // few groups have any
			d.pack(&g.prompt)
			d.pack(&g.leaving)
			d.packPrefix(&g.prefix)
		}
	}
}

// PIM implements scheduler.Predictor (L3, equation 5): in every layer the
// busiest rankset's attention, the decode vectors' way down and up, and the
// prompt KV of the other sub-batch, taken as one prompt.
func (d *devices) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) (t units.Duration) {
	for run, layers := range d.runs {
		x := d.decode(s.Decode, run, iteration)
		t += units.Duration(layers) * d.layerPIM(s, x, run, otherPrefill)
	}
	return t
}

// layerPIM is PIM of a layer of a run, whose decoding takes x.
func (d *devices) layerPIM(s *scheduler.SubBatch, x *policy.Step, run, otherPrefill int) (t units.Duration) {
	clocks := d.scratch
	clear(clocks)
	attend, all := 0, vectors{} // requests
	for i := range s.Decode {
		if d.stripe.parts > 0 {
			attend += d.predictParts(x, s.Decode[i].Request, s.Decode[i].Offset, i, clocks, &all)
			continue
		}
		v, sum := d.request(x, i)
		if v.all > 0 {
			attend++
			all.add(&v)
			clocks[s.Decode[i].Offset] += sum
		}
	}
	var busiest int64
	for _, c := range clocks {
		busiest = max(busiest, c)
	}
	if otherPrefill > 0 {
		var prompt cargo
		d.loadPrompt(&prompt, run, otherPrefill, 0, true)
		d.pack(&prompt)
		t += prompt.took()
	}
	if attend > 0 {
		traffic := d.moves(attend, &all)
		t += d.latency + traffic.down.took() + d.clock.Time(busiest) + d.upLatency + traffic.up
	}
	return t
}

// GPU implements scheduler.Predictor with the costs themselves (L3, equation 6), and what
// requests decode on the GPUs.
func (d *devices) GPU(s *scheduler.SubBatch, iteration int64) units.Duration {
	if !d.counts && d.stripe.parts == 0 {
		return d.gpuSide.GPU(s, iteration) + d.scoring(s)
	}
	d.decodeBeside(s.Decode, iteration, false)
	return d.gpuTime(s) + d.scoring(s)
}

// measure sets the times of a sample to those of sub-batch i. What requests decode on the GPUs
// is with the batched operations, as it grows with the number of requests.
func (d *devices) measure(m *scheduler.Sample, b *scheduler.Batch, i, otherPrefill int) {
	sub, layers := &b.Sub[i], units.Duration(d.model.Layers)
	d.decodeBeside(sub.Decode, b.Step, false)
	g, chunks := d.stageRuns(sub), d.gpu.Attention()
	for j := range m.Chunks { // all layers take as long
		k := d.promptAttention(&chunks, &sub.Prefill[j], 0)
		m.Chunks[j].Time = layers * (k.took(g.slow) + d.scoringOf(&sub.Prefill[j]))
	}
	m.FC = g.entry + (layers-1)*g.block + g.exit
	for run := range g.layers {
		l := &g.layers[run]
		m.FC += units.Duration(l.count) * (l.attention - l.prompts + l.merge + l.chooses)
	}
	m.PIM = d.PIM(sub, b.Step, otherPrefill)
}
