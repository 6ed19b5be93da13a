package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// checkTraffic verifies what an iteration of L3 has moved and computed against its batch.
func (e *l3) checkTraffic(b *scheduler.Batch, end units.Duration, done *work) {
	costs := &e.costs
	var pim, channel units.Duration
	for r := range costs.runs() {
		layers, subs := costs.run(r)
		for s := range subs {
			if costs.sub[s].active {
				p, ch := e.layerTraffic(&b.Sub[s], &subs[s], b.Step, end, r, s)
				pim += units.Duration(layers) * p
				channel += units.Duration(layers) * ch
			}
		}
	}
	if done.time[ofPIM] != pim || done.time[ofChannel] != channel {
		e.check.fail(LawTraffic, end, "attention takes %v and the channels carry data for %v, want %v and %v", done.time[ofPIM], done.time[ofChannel], pim, channel)
	}
}

// layerTraffic verifies what a sub-batch moves in a layer of a run, and returns how long its
// attention takes and the channels carry data.
func (e *l3) layerTraffic(sub *scheduler.SubBatch, costs *subCost, step int64, end units.Duration, run, s int) (pim, channel units.Duration) {
	for i := range costs.groups {
		g := &costs.groups[i]
		if g.requests > 0 {
			pim += g.compute
			channel += g.decode.data + g.upBus
			e.held(&g.decode, end, "vectors", i, s)
		}
		if x := &g.prefix; x.tokens > 0 {
			channel += x.data
		}
		for _, x := range []*cargo{&g.prompt, &g.leaving} {
			if x.tokens > 0 {
				channel += x.data
				e.held(&x.shipment, end, "keys and values", i, s)
			}
		}
	}
	if moves, want := trafficOf(costs.groups), e.homes.follow(e.check, sub, step, end, run); moves != want {
		e.check.fail(LawTraffic, end, "sub-batch %d moves %+v, want %+v", s, moves, want)
	}
	return pim, channel
}

// held verifies that a transfer down holds the links for as long as the channels carry it.
func (e *l3) held(x *shipment, end units.Duration, what string, group, sub int) {
	if !e.costs.buffered && x.held() < x.data {
		e.check.fail(LawTraffic, end, "the %s of group %d of sub-batch %d go down in %v, the channels carry them for %v", what, group, sub, x.held(), x.data)
	}
}
