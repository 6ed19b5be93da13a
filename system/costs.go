package system

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// groupCost is what one layer of a group costs: the decoding requests of a
// sub-batch with one rankset offset, and the prompts of that offset.
type groupCost struct {
	requests     int
	promptTokens int
	promptClocks int64          // of the channel's writes of their keys and values, refresh not counted
	clocks       int64          // of the rank's attention, refresh not counted
	compute      units.Duration // of the rankset, refresh included
	decode       shipment       // q, k and v of the requests
	prompt       shipment       // keys and values of the prompt tokens
	up, upBus    units.Duration // results: time of the PCIe links, and the channels' share

	heads []int64 // clocks of one head of each request, in their order
}

// subCost is what the tasks of a sub-batch cost on the GPUs.
type subCost struct {
	active           bool
	entry            units.Duration // embedding, QKV generation of layer 0
	prefillAttention units.Duration // of all prompts, one layer
	block            units.Duration // projection to the next layer's QKV generation
	exit             units.Duration // projection of the last layer to the LM head
	groups           []groupCost
	use              gpuUse
}

// iterationCosts is what the tasks of an iteration cost on L3's resources, and how these work.
type iterationCosts struct {
	layers  int
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

	sub    []subCost
	groups []groupCost // of all sub-batches, R each
	waits  []int32     // scratch: what a block waits for
}

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
	heads, queries int // KV heads on one channel, query heads of each

	// link and channel are the data rates of all the replica's links in one
	// direction, and of all its channels.
	link, channel units.Bandwidth
	pimPeak       units.Bandwidth // of all the replica's ranks
	latency       units.Duration  // of a PCIe transfer down
	upLatency     units.Duration  // from the end of attention to the first data of results on the links
	transposed    *dram.Spec      // the DIMMs, where the CPU transposes elements; else nil
	buffer        units.Bytes     // of all the replica's memory controllers; 0 for none
	decodes       []decodeTraffic // by number of requests

	burst             units.Duration // of data on a channel
	openRow, closeRow units.Duration // ACT to the first data (tRCD, CWL); the last data to banks precharged (tWR, tRP)
	stageLatency      units.Duration // a burst into the rank PU's staging to its data (CWL)
	descriptor        int64          // bursts that the host writes to a rank for each head
	resultBursts      int64          // of one query head
	hostAccess        units.Duration // of a host core to a rank's control region

	scratch []int64 // one value a rankset
}

// sequence is a table's clocks of a head in sequence by context length, the
// shorter contexts read out: they are asked for every decoding request in every
// iteration.
type sequence struct {
	table  *pim.KernelTable
	clocks []int64
}

// readOut is the context length up to which clocks are read out: 512 KiB, about
// the lengths that models are trained for.
const readOut = 1 << 16

func newSequence(t *pim.KernelTable) sequence {
	s := sequence{t, make([]int64, readOut)}
	for context := range s.clocks {
		s.clocks[context] = t.InSequence(context)
	}
	return s
}

func (s *sequence) at(context int) int64 {
	if context < len(s.clocks) {
		return s.clocks[context]
	}
	return s.table.InSequence(context)
}

// fill sets c to the costs of batch b.
func (d *devices) fill(c *iterationCosts, b *scheduler.Batch) {
	for s := range b.Sub {
		out := &c.sub[s]
		if out.active = b.Sub[s].Tokens() > 0; !out.active {
			continue
		}
		g := d.stage(&b.Sub[s], d.fillGroups(out.groups, b, s))
		out.entry, out.block, out.exit, out.prefillAttention, out.use = g.entry, g.block, g.exit, g.layers[0].attention, g.gpuUse
	}
}

// fillGroups sets the groups of sub-batch s, and returns the GPUs' work for heads that
// attend there.
func (d *devices) fillGroups(groups []groupCost, b *scheduler.Batch, s int) (gpus []gpu.DecodeBatch) {
	for offset := range groups {
		g := &groups[offset]
		g.requests, g.promptTokens, g.promptClocks, g.clocks, g.heads = 0, 0, 0, 0, g.heads[:0]
	}
	sub := &b.Sub[s]
	for i := range sub.Decode {
		groups[sub.Decode[i].Offset].requests++
	}
	home, gpus := d.decodeApart(sub.Decode, b.Step)
	for _, c := range home {
		heads := int64(c.Heads / d.channels)
		for i, tokens := range c.Tokens {
			g := &groups[sub.Decode[i].Offset]
			head := d.sequence.at(tokens)
			if len(g.heads) == 0 {
				// The first head of a group finds no other's drain to hide behind.
				g.clocks = d.table.Alone(tokens) - head
			}
			g.heads = append(g.heads, head)
			g.clocks += heads * head
		}
	}
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		groups[c.Offset].promptTokens += c.Tokens
		groups[c.Offset].promptClocks += d.promptClocks(c.Finished, c.Tokens)
	}
	for offset := range groups {
		g := &groups[offset]
		if g.requests > 0 {
			traffic := d.traffic(g.requests)
			g.compute = d.clock.Time(g.clocks)
			g.decode, g.up, g.upBus = traffic.down, traffic.up, traffic.upBus
		}
		if g.promptTokens > 0 {
			g.prompt = d.prompt(g.promptTokens, g.promptClocks)
		}
	}
	return gpus
}

// PIM implements scheduler.Predictor (L3, equation 5): in every layer the
// busiest rankset's attention, the decode vectors' way down and up, and the
// prompt KV of the other sub-batch, taken as one prompt.
func (d *devices) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) units.Duration {
	clocks := d.scratch
	clear(clocks)
	home, _ := d.decodeApart(s.Decode, iteration)
	for _, c := range home {
		for i, tokens := range c.Tokens {
			clocks[s.Decode[i].Offset] += int64(c.Heads/d.channels) * d.sequence.at(tokens)
		}
	}
	var busiest int64
	for _, c := range clocks {
		busiest = max(busiest, c)
	}
	var t units.Duration
	if otherPrefill > 0 {
		prompt := d.prompt(otherPrefill, d.promptClocks(0, otherPrefill))
		t += prompt.took()
	}
	if n := len(s.Decode); n > 0 {
		traffic := d.traffic(n)
		t += d.latency + traffic.down.took() + d.clock.Time(busiest) + d.upLatency + traffic.up
	}
	return units.Duration(d.model.Layers) * t
}

// measure sets the times of a sample to those of sub-batch i.
func (d *devices) measure(m *scheduler.Sample, b *scheduler.Batch, i, otherPrefill int) {
	sub, layers := &b.Sub[i], units.Duration(d.model.Layers)
	g, chunks := d.stage(sub, nil), d.gpu.Attention()
	for j := range m.Chunks {
		c := &m.Chunks[j]
		k := sumOf(chunks.Prompts(1, c.Tokens, c.Finished, 0))
		c.Time = layers * k.took(g.slow)
	}
	m.FC = g.entry + (layers-1)*g.block + g.exit
	m.PIM = d.PIM(sub, b.Step, otherPrefill)
}
