package system

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/units"
)

// groupCost is what one layer of a group costs: the decoding requests of a
// sub-batch with one rankset offset, and the prompts of that offset.
type groupCost struct {
	requests     int
	promptTokens int
	clocks       int64    // of the rank's attention, refresh not counted
	compute      sim.Time // of the rankset, refresh included
	decode       shipment // q, k and v of the requests
	prompt       shipment // keys and values of the prompt tokens
	up, upBus    sim.Time // results: time of the PCIe links, and the channels' share

	heads []int64 // clocks of one head of each request, in their order
}

// subCost is what the tasks of a sub-batch cost on the GPUs.
type subCost struct {
	active           bool
	entry            sim.Time // embedding, QKV generation of layer 0
	prefillAttention sim.Time // of all prompts, one layer
	block            sim.Time // projection to the next layer's QKV generation
	exit             sim.Time // projection of the last layer to the LM head
	groups           []groupCost
}

// iterationCosts is everything that the pipeline needs to know of an iteration.
type iterationCosts struct {
	layers  int
	latency sim.Time // of a PCIe transfer, not occupying the link
	// The switches of a rankset around a transfer: leaving attention (PREA, tRP),
	// opening rows for the host (ACT, tRCD, CWL), closing them (tWR, tRP), and
	// activating all banks again.
	vacate, open, close, reactivate sim.Time
	clock                           rankClock
	step                            int64 // clocks between the boundaries within a head
	headsEach                       int   // heads of a request on a channel
	rotate                          bool  // layer l of a request lies on rankset (l + offset) mod R
	concurrent                      bool  // ranksets compute while another one receives
	asyncPrefill                    bool  // prompts go down during the block, not before it
	buffered                        bool  // the memory controllers collect what they write
	halfDuplex                      bool  // PCIe can carry more than the channels: they serve one direction at a time

	sub    []subCost
	groups []groupCost // of all sub-batches, R each
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
	clock rankClock
	heads int // KV heads on one channel

	// link and channel are the data rates of all the replica's links in one
	// direction, and of all its channels.
	link, channel units.Bandwidth
	pimPeak       units.Bandwidth // of all the replica's ranks
	latency       sim.Time
	channels      int
	transposed    *dram.Spec      // the DIMMs, where the CPU transposes elements; else nil
	buffer        units.Bytes     // of all the replica's memory controllers; 0 for none
	decodes       []decodeTraffic // by number of requests

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

// decodeTraffic is the transfers of a group by its number of requests.
type decodeTraffic struct {
	down      shipment
	up, upBus sim.Time
}

// rate returns the pace of a transfer: that of the links, unless the channels
// are slower.
func (d *devices) rate() units.Bandwidth { return min(d.link, d.channel) }

// shipment returns what a transfer of n bytes down costs.
func (d *devices) shipment(n units.Bytes) shipment {
	piece, pieces := n, 1
	if d.buffer > 0 && n > d.buffer {
		piece, pieces = d.buffer, int((n+d.buffer-1)/d.buffer)
	}
	last := n - units.Bytes(pieces-1)*piece
	again, lastAgain := d.transposition(piece), d.transposition(last)
	return shipment{
		pieces: pieces,
		link:   d.rate().TransferTime(piece) + again, last: d.rate().TransferTime(last) + lastAgain,
		bus: d.channel.TransferTime(piece) + again, end: d.channel.TransferTime(last) + lastAgain,
	}
}

// transposition returns the time for which the CPU holds rankset and channels to
// read n bytes again and write them transposed, none where the DIMM exchanges
// elements in flight or has none to exchange.
func (d *devices) transposition(n units.Bytes) sim.Time {
	if d.transposed == nil {
		return 0
	}
	burst := units.Bytes(d.transposed.BurstBytes() * d.channels)
	return sim.Time(pim.CPUTranspositionClocks(d.transposed, int64((n+burst-1)/burst))) * d.transposed.TCK
}

// traffic returns the transfers of a group of n requests.
func (d *devices) traffic(n int) *decodeTraffic {
	for len(d.decodes) <= n {
		requests := units.Bytes(len(d.decodes))
		up := requests * d.model.AttentionBytesPerTokenLayer()
		d.decodes = append(d.decodes, decodeTraffic{
			down: d.shipment(requests * d.model.QKVBytesPerTokenLayer()),
			up:   d.rate().TransferTime(up), upBus: d.channel.TransferTime(up),
		})
	}
	return &d.decodes[n]
}

// fill sets c to the costs of batch b.
func (d *devices) fill(c *iterationCosts, b *scheduler.Batch) {
	for s := range b.Sub {
		sub, out := &b.Sub[s], &c.sub[s]
		var g stage
		d.fillStage(&g, sub)
		if out.active = g.active; !g.active {
			continue
		}
		out.entry, out.block, out.exit, out.prefillAttention = g.entry, g.block, g.exit, g.attention
		d.fillGroups(out.groups, b, s)
	}
}

// fillGroups sets the groups of sub-batch s.
func (d *devices) fillGroups(groups []groupCost, b *scheduler.Batch, s int) {
	for offset := range groups {
		g := &groups[offset]
		g.requests, g.promptTokens, g.clocks, g.heads = 0, 0, 0, g.heads[:0]
	}
	sub := &b.Sub[s]
	for i := range sub.Decode {
		r := &sub.Decode[i]
		g := &groups[r.Offset]
		context := r.Context(b.Step)
		head := d.sequence.at(context)
		if g.requests == 0 {
			// The first head of a group finds no other's drain to hide behind.
			g.clocks = d.table.Alone(context) - head
		}
		g.requests++
		g.heads = append(g.heads, head)
		g.clocks += int64(d.heads) * head
	}
	for i := range sub.Prefill {
		groups[sub.Prefill[i].Offset].promptTokens += sub.Prefill[i].Tokens
	}
	for offset := range groups {
		g := &groups[offset]
		if g.requests > 0 {
			traffic := d.traffic(g.requests)
			g.compute = d.clock.time(g.clocks)
			g.decode, g.up, g.upBus = traffic.down, traffic.up, traffic.upBus
		}
		if g.promptTokens > 0 {
			g.prompt = d.shipment(units.Bytes(g.promptTokens) * d.model.KVBytesPerTokenLayer())
		}
	}
}

// PIM implements scheduler.Predictor (L3, equation 5): in every layer the
// busiest rankset's attention, the decode vectors' way down and up, and the
// prompt KV of the other sub-batch.
func (d *devices) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) sim.Time {
	clocks := d.scratch
	clear(clocks)
	for i := range s.Decode {
		r := &s.Decode[i]
		clocks[r.Offset] += int64(d.heads) * d.sequence.at(r.Context(iteration))
	}
	var busiest int64
	for _, c := range clocks {
		busiest = max(busiest, c)
	}
	n := units.Bytes(len(s.Decode))
	t := d.rate().TransferTime(units.Bytes(otherPrefill) * d.model.KVBytesPerTokenLayer())
	if n > 0 {
		t += d.clock.time(busiest) + 2*d.latency +
			d.rate().TransferTime(n*d.model.QKVBytesPerTokenLayer()) +
			d.rate().TransferTime(n*d.model.AttentionBytesPerTokenLayer())
	}
	return sim.Time(d.model.Layers) * t
}

// measure sets the times of a sample to those of sub-batch i.
func (d *devices) measure(m *scheduler.Sample, b *scheduler.Batch, i, otherPrefill int) {
	sub, layers := &b.Sub[i], sim.Time(d.model.Layers)
	tokens := sub.Tokens()
	chunks := d.gpu.Prefills()
	for j := range m.Chunks {
		c := &m.Chunks[j]
		c.Time = layers * units.FromSeconds(chunks.Add(c.Tokens, c.Finished))
	}
	m.FC = d.embedding.at(tokens) + d.head.at(sub.Emitting()) + layers*(d.qkv.at(tokens)+d.ffn.at(tokens))
	m.PIM = d.PIM(sub, b.Step, otherPrefill)
}
