package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// checkTraffic verifies the transfers and the work of an L3 iteration against its batch.
func (e *l3) checkTraffic(b *scheduler.Batch, end units.Duration, done *flow.Work) {
	costs := &e.costs
	var pim, channel units.Duration
	for k, run := range e.Attends.Kinds {
		layers, subs := units.Duration(costs.layers[k]), costs.of(k)
		for s := range subs {
			if costs.sub[s].active {
				p, ch := e.layerTraffic(&b.Sub[s], &subs[s], b.Step, end, run, s)
				pim += layers * p
				channel += layers * ch
			}
		}
	}
	if done.Time[flow.OfPIM] != pim || done.Time[flow.OfChannel] != channel {
		e.Check.Fail(flow.LawTraffic, end, "attention takes %v and the channels carry data for %v, want %v and %v", done.Time[flow.OfPIM], done.Time[flow.OfChannel], pim, channel)
	}
	if e.near != nil {
		e.checkNear(b, end, done.Time[flow.OfAttention])
	}
}

// checkNear verifies that the GPUs' attention takes at least the time to read what requests in their spare memory
// attend over.
func (e *l3) checkNear(b *scheduler.Batch, end, attention units.Duration) {
	read := 0.0
	for s := range b.Sub {
		for i := range b.Sub[s].Near {
			d := &b.Sub[s].Near[i]
			read += e.near.Read(policy.Request{Prompt: int(d.Prompt), Context: d.Context(b.Step)})
		}
	}
	if least := units.FromSeconds(read / float64(e.HBMPeak)); attention < least {
		e.Check.Fail(flow.LawTraffic, end, "the GPUs attend for %v, what they decode takes %v to read", attention, least)
	}
}

// layerTraffic verifies the transfers of a sub-batch in a layer of a run, and returns the time of
// its attention and the time that the channels carry data.
func (e *l3) layerTraffic(sub *scheduler.SubBatch, costs *subCost, step int64, end units.Duration, run, s int) (pim, channel units.Duration) {
	for i := range costs.groups {
		g := &costs.groups[i]
		if g.Requests > 0 {
			pim += g.Compute
			channel += g.Decode.Data + g.UpBus
			e.held(&g.Decode, end, "vectors", i, s)
		}
		if x := &g.Prefix; x.Tokens > 0 {
			channel += x.Data
		}
		for _, x := range []*ranks.Cargo{&g.Prompt, &g.Leaving} {
			if x.Tokens > 0 {
				channel += x.Data
				e.held(&x.Shipment, end, "keys and values", i, s)
			}
		}
	}
	if moves, want := ranks.TrafficOf(costs.groups), e.homes.Follow(e.Check, sub, step, end, run); moves != want {
		e.Check.Fail(flow.LawTraffic, end, "sub-batch %d moves %+v, want %+v", s, moves, want)
	}
	return pim, channel
}

// held verifies that a transfer down holds the links for as long as the channels carry it.
func (e *l3) held(x *ranks.Shipment, end units.Duration, what string, group, sub int) {
	if !e.costs.buffered && x.Held() < x.Data {
		e.Check.Fail(flow.LawTraffic, end, "the %s of group %d of sub-batch %d go down in %v, the channels carry them for %v", what, group, sub, x.Held(), x.Data)
	}
}
