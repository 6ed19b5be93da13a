package kinds

import (
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// Resources of L3, in their order at one instant.
const (
	onRanksets = iota
	onWriter   // memory controllers; without buffers the link down claims ranksets itself
	onLinkDown
	onLinkUp
	onGPUs
)

func (c *iterationCosts) resources(ranksets int) []flow.Resource {
	r := []flow.Resource{
		onRanksets: {Resource: dataflow.Resource{
			Name: "ranksets", Reason: flow.ForPIM, Device: true, Discipline: dataflow.Lanes, Count: ranksets, Rotates: c.rotate,
			Vacate: c.vacate, Reactivate: c.reactivate,
			Boundaries: dataflow.Boundaries{Clock: c.clock, Each: int64(c.headsEach), Step: c.step},
		}, Track: flow.TrackRank},
		onWriter:   {Resource: dataflow.Resource{Name: "memory controllers", Reason: flow.ForChannel, Discipline: dataflow.Link}, Track: flow.NoTrack},
		onLinkDown: {Resource: dataflow.Resource{Name: "PCIe down", Reason: flow.ForDown, Discipline: dataflow.Link, Latency: c.latency}, Track: flow.TrackDown},
		onLinkUp:   {Resource: dataflow.Resource{Name: "PCIe up", Reason: flow.ForUp, Latency: c.upLatency}, Track: flow.TrackUp},
		onGPUs:     {Resource: dataflow.Resource{Name: "GPU"}, Track: flow.TrackGPU},
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

// lay turns the costs into operations, the dataflow of Fig 7 of the L3 paper: decode vectors go
// down to the ranksets, each computes, and results come up; the block waits for all of them and for
// the GPUs' own attention. Keys and values of prompts, and those of decoding requests that leave
// the GPUs, go down beside the block (asynchronous prefill), or before it.
//
// A group is the decoding requests of one sub-batch with one rankset offset: their q, k
// and v go down together, their attention runs on rankset (layer + offset) mod R, and
// their results come up together.
func (c *iterationCosts) lay(f *flow.Flow) {
	it := &f.Iteration
	f.Reset()
	for s := range c.sub {
		sub := &c.sub[s]
		if !sub.active {
			continue
		}
		entry := f.Enter(s, onGPUs, sub.entry+sub.chooses, &sub.use)
		it.Ops[entry].Group = int16(s * len(sub.groups))
		c.laid = c.laid[:0]
		layers := &it.Sub[s]
		layers.Add(it.From(entry), 1)
		if layers.Exit = c.of(int(c.order[len(c.order)-1].Kind))[s].exit; c.choosesAlike(s) {
			c.layKinds(it, layers, s)
		} else {
			c.layRuns(it, layers, s)
		}
	}
}

// choosesAlike says that a layer of sub-batch s is laid alike wherever it stands: the GPUs choose pages for as long before any layer.
func (c *iterationCosts) choosesAlike(s int) bool {
	for _, subs := range c.more {
		if subs[s].chooses != c.sub[s].chooses {
			return false
		}
	}
	return true
}

// layKinds lays sub-batch s by kinds of layers. Their order is that of all iterations.
func (c *iterationCosts) layKinds(it *dataflow.Iteration, layers *dataflow.SubBatch, s int) {
	for kind, count := range c.layers {
		first, sub := int32(len(it.Ops)), &c.of(kind)[s]
		c.layer(it, sub, s, sub.chooses)
		layers.Kinds = append(layers.Kinds, dataflow.Layers{Range: it.From(first), Count: count})
	}
	for _, run := range c.order {
		layers.Order = append(layers.Order, dataflow.Run{Kind: run.Kind + 1, Count: run.Count})
	}
}

// layRuns lays sub-batch s layer by layer: pages of the layer behind are chosen before it.
func (c *iterationCosts) layRuns(it *dataflow.Iteration, layers *dataflow.SubBatch, s int) {
	for i, run := range c.order {
		sub := &c.of(int(run.Kind))[s]
		behind, count := sub, run.Count
		if i+1 < len(c.order) {
			behind = &c.of(int(c.order[i+1].Kind))[s]
		}
		if sub.chooses != behind.chooses && count > 1 {
			layers.Add(c.once(it, laidLayer{kind: run.Kind, chooses: sub.chooses}, sub, s), count-1)
			count = 1
		}
		layers.Add(c.once(it, laidLayer{kind: run.Kind, chooses: behind.chooses}, sub, s), count)
	}
}

// laidLayer is a layer of a sub-batch that has its operations.
type laidLayer struct {
	kind    int32
	chooses units.Duration // choice for the next layer
	ops     dataflow.Range
}

// once returns the operations of a layer; it adds them unless an earlier layer has the same ones, which the engine can then skip as
// repeats.
func (c *iterationCosts) once(it *dataflow.Iteration, x laidLayer, sub *subCost, s int) dataflow.Range {
	for i := range c.laid {
		if l := &c.laid[i]; l.kind == x.kind && l.chooses == x.chooses {
			return l.ops
		}
	}
	first := int32(len(it.Ops))
	c.layer(it, sub, s, x.chooses)
	x.ops = it.From(first)
	c.laid = append(c.laid, x)
	return x.ops
}

// layer adds the operations of one layer of sub-batch s, whose block ends with the choice of pages for
// the next layer.
func (c *iterationCosts) layer(it *dataflow.Iteration, sub *subCost, s int, chooses units.Duration) {
	c.waits = c.waits[:0]
	for g := range sub.groups {
		group := &sub.groups[g]
		if group.Requests == 0 {
			continue
		}
		number := int16(s*len(sub.groups) + g)
		o, down := it.Add(onLinkDown, 0)
		o.Kind, o.Lane, o.Group = flow.OpDecodeDown, int16(g), number
		down = c.send(it, down, &group.Decode)

		heads := int32(len(it.Parts))
		it.Parts = append(it.Parts, group.Heads...)
		o, attention := it.Add(onRanksets, group.Compute)
		o.Kind, o.Lane, o.Group = flow.OpAttention, int16(g), number
		o.Parts, o.After = dataflow.Range{From: heads, To: int32(len(it.Parts))}, it.Wait(down)

		o, up := it.Add(onLinkUp, group.Up)
		o.Kind, o.Group = flow.OpResults, number
		o.Bus, o.After = group.UpBus, it.Wait(attention)
		c.waits = append(c.waits, up)
	}
	if !c.asyncPrefill {
		c.later(it, sub, s, -1)
	}
	number := int16(s * len(sub.groups))
	if sub.prefillAttention > 0 {
		prefixes := c.fetch(it, sub, s)
		o, i := it.Add(onGPUs, sub.prefillAttention)
		o.Kind, o.Group, o.After = flow.OpPrefillAttention, number, prefixes
		c.waits = append(c.waits, i)
	}
	if sub.window > 0 {
		o, i := it.Add(onGPUs, sub.window)
		o.Kind, o.Group = flow.OpWindow, number
		c.waits = append(c.waits, i)
	}
	o, block := it.Add(onGPUs, sub.block+chooses)
	o.Kind, o.Group = flow.OpBlock, number
	o.Flags, o.After = dataflow.NextLayer, it.Wait(c.waits...)
	if c.asyncPrefill {
		c.later(it, sub, s, block)
	}
}

// later adds the transfers of keys and values that the iteration itself does not need: of prompts,
// and of those that leave the GPUs. They run beside a block or, if block is negative, before the
// block, which waits for them.
func (c *iterationCosts) later(it *dataflow.Iteration, sub *subCost, s int, block int32) {
	for g := range sub.groups {
		group := &sub.groups[g]
		if group.Prompt.Tokens|group.Leaving.Tokens == 0 { // the usual case
			continue
		}
		c.ship(it, &group.Prompt, flow.OpPromptDown, s, g, block)
		c.ship(it, &group.Leaving, flow.OpLeaving, s, g, block)
	}
}

func (c *iterationCosts) ship(it *dataflow.Iteration, x *ranks.Cargo, kind uint8, s, g int, block int32) {
	if x.Tokens == 0 {
		return
	}
	o, i := it.Add(onLinkDown, 0)
	o.Kind, o.Class, o.Lane, o.Group = kind, 1, int16(g), int16(s*len(c.sub[s].groups)+g)
	if block >= 0 {
		o.After, o.Flags = it.Wait(block), dataflow.OnStart
	}
	if end := c.send(it, i, &x.Shipment); block < 0 {
		c.waits = append(c.waits, end)
	}
}

// send completes operation i, a transfer to a rankset, with its cost. If the memory controllers
// buffer writes, it adds the transfer from there. It returns the operation that ends it.
func (c *iterationCosts) send(it *dataflow.Iteration, i int32, h *ranks.Shipment) int32 {
	o := &it.Ops[i]
	o.Pieces, o.Time, o.Last = int32(h.Pieces), h.Link, h.Last
	o.Open, o.Close, o.Bus = h.Open, h.Close, h.Data
	if c.buffered {
		way, link := *o, i
		o, i = it.Add(onWriter, h.End)
		*o = dataflow.Op{
			Resource: onWriter, Kind: flow.OpWrite, Pieces: way.Pieces, Time: h.Bus, Last: h.End, Open: h.Open, Close: h.Close,
			Lane: way.Lane, Group: way.Group, Flags: dataflow.Stream, After: it.Wait(link),
		}
	}
	o.Claims = onRanksets + 1
	if !c.concurrent {
		o.Flags |= dataflow.ClaimAll
	}
	return i
}

// fetch adds the transfers of prefixes to the GPUs, and returns the operations that the GPUs' attention waits for. Prefixes
// of one rankset go up once the host has read all of them in the layer.
func (c *iterationCosts) fetch(it *dataflow.Iteration, sub *subCost, s int) dataflow.Range {
	c.ups = c.ups[:0]
	for g := range sub.groups {
		x, number := &sub.groups[g].Prefix, int16(s*len(sub.groups)+g)
		if x.Tokens == 0 {
			continue
		}
		o, read := it.Add(onRanksets, x.Read)
		o.Kind, o.Lane, o.Group, o.Bus = flow.OpPrefixRead, int16(g), number, x.Data
		o, up := it.Add(onLinkUp, x.Up)
		o.Kind, o.Group, o.After = flow.OpPrefixUp, number, it.Wait(read)
		c.ups = append(c.ups, up)
	}
	if len(c.ups) == 0 {
		return dataflow.Range{}
	}
	return it.Wait(c.ups...)
}
