package system

import (
	"github.com/l3sim/l3sim/system/dataflow"
)

// Resources of a system with DIMMs, in the order in which they go at one instant.
const (
	resRanksets = iota
	resWriter   // memory controllers; without buffers the down link claims ranksets itself
	resDown
	resUp
	resGPU
)

// flowResources returns the resources of a replica with ranksets.
func flowResources(c *iterationCosts, ranksets int) []dataflow.Resource {
	r := []dataflow.Resource{
		resRanksets: {
			Name: "ranksets", Discipline: dataflow.Lanes, Count: ranksets, Rotates: c.rotate,
			Vacate: c.vacate, Reactivate: c.reactivate,
			Boundaries: dataflow.Boundaries{Clock: dataflow.NewClock(c.clock.tCK, c.clock.interval, c.clock.computing), Each: int64(c.headsEach), Step: c.step},
		},
		resWriter: {Name: "memory controllers", Discipline: dataflow.Link},
		resDown:   {Name: "PCIe down", Discipline: dataflow.Link, Latency: c.latency},
		resUp:     {Name: "PCIe up", Latency: c.upLatency},
		resGPU:    {Name: "GPU"},
	}
	if c.halfDuplex {
		writes := resDown
		if c.buffered {
			writes = resWriter
		}
		r[writes].Twin, r[resUp].Twin = resUp+1, writes+1
	}
	return r
}

// flow turns costs into operations.
func (c *iterationCosts) flow(it *dataflow.Iteration) {
	it.Reset()
	for s := range c.sub {
		sub := &c.sub[s]
		if !sub.active {
			continue
		}
		gpu := func(o dataflow.Op) dataflow.Range {
			o.Pieces, o.Resource, o.Group = 1, resGPU, int16(s*len(sub.groups))
			i := it.Add(o)
			return dataflow.Range{From: i, To: i + 1}
		}
		layers := append(it.Layers[s], gpu(dataflow.Op{Last: sub.entry, Flags: dataflow.NextLayer, Kind: uint8(taskEntry)}))
		middle := c.layer(it, s, false)
		last := c.layer(it, s, true)
		for range c.layers - 1 {
			layers = append(layers, middle)
		}
		it.Layers[s] = append(layers, last)
	}
}

// layer adds the operations of one layer of sub-batch s.
func (c *iterationCosts) layer(it *dataflow.Iteration, s int, last bool) dataflow.Range {
	sub := &c.sub[s]
	first := int32(len(it.Ops))
	mark := func() int32 { return int32(len(it.After)) }
	since := func(from int32) dataflow.Range { return dataflow.Range{From: from, To: mark()} }
	var claims, all uint8
	if !c.concurrent {
		all = dataflow.ClaimAll
	}
	claims = resRanksets + 1
	// down adds a transfer to a rankset and returns the operation that ends it.
	down := func(g int, h *shipment, o dataflow.Op) int32 {
		o.Pieces, o.Time, o.Last, o.Open, o.Close = int32(h.pieces), h.link, h.last, h.open, h.close
		o.Resource, o.Lane, o.Group = resDown, int16(g), int16(s*len(sub.groups)+g)
		if c.buffered {
			i := it.Add(o)
			from := mark()
			it.After = append(it.After, i)
			o.Time, o.Last, o.Resource, o.Class, o.Claims = h.bus, h.end, resWriter, 0, int8(claims)
			o.After, o.Flags = since(from), dataflow.Stream|all
			return it.Add(o)
		}
		o.Claims, o.Flags = int8(claims), o.Flags|all
		return it.Add(o)
	}
	var waits []int32
	for g := range sub.groups {
		group := &sub.groups[g]
		if group.requests == 0 {
			continue
		}
		d := down(g, &group.decode, dataflow.Op{Kind: uint8(opDecodeDown)})
		from := mark()
		it.After = append(it.After, d)
		parts := int32(len(it.Parts))
		it.Parts = append(it.Parts, group.heads...)
		a := it.Add(dataflow.Op{
			Last: group.compute, Pieces: 1, Resource: resRanksets, Lane: int16(g), Group: int16(s*len(sub.groups) + g), After: since(from),
			Parts: dataflow.Range{From: parts, To: int32(len(it.Parts))}, Kind: uint8(opAttention),
		})
		from = mark()
		it.After = append(it.After, a)
		waits = append(waits, it.Add(dataflow.Op{Last: group.up, Pieces: 1, Resource: resUp, Group: int16(s*len(sub.groups) + g), After: since(from), Kind: uint8(opResults)}))
	}
	block := int32(-1)
	prompts := func() {
		for g := range sub.groups {
			if group := &sub.groups[g]; group.promptTokens > 0 {
				o := dataflow.Op{Class: 1, Kind: uint8(opPromptDown)}
				if c.asyncPrefill {
					from := mark()
					it.After = append(it.After, block)
					o.After, o.Flags = since(from), dataflow.OnStart
				}
				end := down(g, &group.prompt, o)
				if !c.asyncPrefill {
					waits = append(waits, end)
				}
			}
		}
	}
	if !c.asyncPrefill {
		prompts()
	}
	if sub.prefillAttention > 0 {
		waits = append(waits, it.Add(dataflow.Op{Last: sub.prefillAttention, Pieces: 1, Resource: resGPU, Kind: uint8(taskAttention), Group: int16(s * len(sub.groups))}))
	}
	from := mark()
	it.After = append(it.After, waits...)
	o := dataflow.Op{Last: sub.block, Pieces: 1, Resource: resGPU, Flags: dataflow.NextLayer, After: since(from), Kind: uint8(taskBlock), Group: int16(s * len(sub.groups))}
	if last {
		o.Last = sub.exit
	}
	block = it.Add(o)
	if c.asyncPrefill {
		prompts()
	}
	return dataflow.Range{From: first, To: int32(len(it.Ops))}
}
