package system

import "github.com/l3sim/l3sim/system/dataflow"

// Resources of L3, in the order in which they go at one instant.
const (
	onRanksets = iota
	onWriter   // memory controllers; without buffers the down link claims ranksets itself
	onLinkDown
	onLinkUp
	onGPUs
)

// resources returns the resources of a replica with ranksets.
func (c *iterationCosts) resources(ranksets int) []resource {
	r := []resource{
		onRanksets: {dataflow.Resource{
			Name: "ranksets", Discipline: dataflow.Lanes, Count: ranksets, Rotates: c.rotate,
			Vacate: c.vacate, Reactivate: c.reactivate,
			Boundaries: dataflow.Boundaries{Clock: c.clock, Each: int64(c.headsEach), Step: c.step},
		}, trackRank},
		onWriter:   {dataflow.Resource{Name: "memory controllers", Discipline: dataflow.Link}, noTrack},
		onLinkDown: {dataflow.Resource{Name: "PCIe down", Discipline: dataflow.Link, Latency: c.latency}, trackDown},
		onLinkUp:   {dataflow.Resource{Name: "PCIe up", Latency: c.upLatency}, trackUp},
		onGPUs:     {dataflow.Resource{Name: "GPU"}, trackGPU},
	}
	if c.halfDuplex {
		writes := onLinkDown
		if c.buffered {
			writes = onWriter
		}
		r[writes].Twin, r[onLinkUp].Twin = onLinkUp+1, writes+1
	}
	return r
}

// fill turns the costs into operations, the dataflow of Fig 7 of the L3 paper: decode
// vectors go down to the ranksets, each computes, and results come up; with all of them
// and with the prompts' attention the block begins. Prompts' keys and values go down
// beside the block (asynchronous prefill), or before it.
//
// A group is the decoding requests of one sub-batch with one rankset offset: their q, k
// and v go down together, their attention runs on rankset (layer + offset) mod R, and
// their results come up together.
func (c *iterationCosts) fill(f *flow) {
	it := &f.it
	it.Reset()
	for s := range c.sub {
		sub := &c.sub[s]
		if !sub.active {
			continue
		}
		entry := f.enter(s, onGPUs, sub.entry)
		it.Ops[entry].Group = int16(s * len(sub.groups))
		first := int32(len(it.Ops))
		c.layer(it, s)
		f.layers(s, entry, first, sub.exit)
	}
}

// layer adds the operations of one layer of sub-batch s.
func (c *iterationCosts) layer(it *dataflow.Iteration, s int) {
	sub := &c.sub[s]
	c.waits = c.waits[:0]
	for g := range sub.groups {
		group := &sub.groups[g]
		if group.requests == 0 {
			continue
		}
		number := int16(s*len(sub.groups) + g)
		down := c.down(it, &group.decode, dataflow.Op{Lane: int16(g), Group: number, Kind: opDecodeDown})
		parts := int32(len(it.Parts))
		it.Parts = append(it.Parts, group.heads...)
		attention := it.Add(dataflow.Op{
			Last: group.compute, Pieces: 1, Resource: onRanksets, Lane: int16(g), Group: number, Kind: opAttention,
			After: it.Wait(down), Parts: dataflow.Range{From: parts, To: int32(len(it.Parts))},
		})
		c.waits = append(c.waits, it.Add(dataflow.Op{
			Last: group.up, Pieces: 1, Resource: onLinkUp, Group: number, Kind: opResults, After: it.Wait(attention), Bus: group.upBus,
		}))
	}
	if !c.asyncPrefill {
		c.prompts(it, s, -1)
	}
	gpu := dataflow.Op{Pieces: 1, Resource: onGPUs, Group: int16(s * len(sub.groups))}
	if sub.prefillAttention > 0 {
		gpu.Last, gpu.Kind = sub.prefillAttention, opPrefillAttention
		c.waits = append(c.waits, it.Add(gpu))
	}
	gpu.Last, gpu.Kind, gpu.Flags, gpu.After = sub.block, opBlock, dataflow.NextLayer, it.Wait(c.waits...)
	if block := it.Add(gpu); c.asyncPrefill {
		c.prompts(it, s, block)
	}
}

// prompts adds the transfers of a sub-batch's prompts: beside a block, or, where that is
// negative, before the one that will wait for them.
func (c *iterationCosts) prompts(it *dataflow.Iteration, s int, block int32) {
	sub := &c.sub[s]
	for g := range sub.groups {
		group := &sub.groups[g]
		if group.promptTokens == 0 {
			continue
		}
		o := dataflow.Op{Class: 1, Lane: int16(g), Group: int16(s*len(sub.groups) + g), Kind: opPromptDown}
		if block >= 0 {
			o.After, o.Flags = it.Wait(block), dataflow.OnStart
		}
		if end := c.down(it, &group.prompt, o); block < 0 {
			c.waits = append(c.waits, end)
		}
	}
}

// down adds a transfer to a rankset, and its way from the memory controllers on where
// these collect what they write. It returns the operation that ends it.
func (c *iterationCosts) down(it *dataflow.Iteration, h *shipment, o dataflow.Op) int32 {
	o.Pieces, o.Time, o.Last, o.Open, o.Close, o.Bus = int32(h.pieces), h.link, h.last, h.open, h.close, h.data
	o.Resource = onLinkDown
	claims := uint8(0)
	if !c.concurrent {
		claims = dataflow.ClaimAll
	}
	if c.buffered {
		i := it.Add(o)
		o.After, o.Flags, o.Bus = it.Wait(i), dataflow.Stream, 0
		o.Time, o.Last, o.Resource, o.Class, o.Kind = h.bus, h.end, onWriter, 0, opWrite
	}
	o.Claims = onRanksets + 1
	o.Flags |= claims
	return it.Add(o)
}
