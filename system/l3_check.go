package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// traffic verifies what an iteration of L3 has moved and computed against its batch.
func (c *checker) traffic(b *scheduler.Batch, costs *iterationCosts, end units.Duration, done *work) {
	var pim, channel units.Duration
	for r := range costs.runs() {
		layers, subs := costs.run(r)
		for s := range subs {
			if costs.sub[s].active {
				p, ch := c.layerTraffic(&b.Sub[s], &subs[s], costs, b.Step, end, r, s)
				pim += units.Duration(layers) * p
				channel += units.Duration(layers) * ch
			}
		}
	}
	if done.time[ofPIM] != pim || done.time[ofChannel] != channel {
		c.fail(LawTraffic, end, "attention takes %v and the channels carry data for %v, want %v and %v", done.time[ofPIM], done.time[ofChannel], pim, channel)
	}
}

// layerTraffic verifies what a sub-batch moves in a layer of a run, and returns how long its
// attention takes and the channels carry data.
func (c *checker) layerTraffic(sub *scheduler.SubBatch, costs *subCost, all *iterationCosts, step int64, end units.Duration, run, s int) (pim, channel units.Duration) {
	var moves traffic
	for i := range costs.groups {
		g := &costs.groups[i]
		if moves.requests += g.requests; g.requests > 0 {
			moves.heads, moves.lists = moves.heads+g.vectors.all, moves.lists+g.vectors.down
			pim += g.compute
			channel += g.decode.data + g.upBus
			c.held(all, &g.decode, end, "vectors", i, s)
		}
		if x := &g.prefix; x.tokens > 0 {
			moves.fetched += x.tokens
			moves.bytes += x.bytes
			channel += x.data
		}
		for _, x := range []*cargo{&g.prompt, &g.leaving} {
			moves.tokens += x.tokens
			moves.bytes += x.bytes
			if x.tokens > 0 {
				channel += x.data
				c.held(all, &x.shipment, end, "keys and values", i, s)
			}
		}
	}
	if want := c.homes.follow(c, sub, step, end, run); moves != want {
		c.fail(LawTraffic, end, "sub-batch %d moves %+v, want %+v", s, moves, want)
	}
	return pim, channel
}

// held verifies that a transfer down holds the links for as long as the channels carry it.
func (c *checker) held(costs *iterationCosts, x *shipment, end units.Duration, what string, group, sub int) {
	if !costs.buffered && x.held() < x.data {
		c.fail(LawTraffic, end, "the %s of group %d of sub-batch %d go down in %v, the channels carry them for %v", what, group, sub, x.held(), x.data)
	}
}
