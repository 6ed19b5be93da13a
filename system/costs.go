package system

import (
	"github.com/l3sim/l3sim/units"
)

// groupCost is what one layer of a group costs: the decoding requests of a
// sub-batch with one rankset offset, and the prompts of that offset.
type groupCost struct {
	requests  int            // that attend over something on the rankset
	clocks    int64          // of the rank's attention, refresh and drain not counted
	drain     int64          // clocks of the first head that hide behind no other head's, as those of all others do
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
		g.requests, g.clocks, g.drain, g.idle, g.heads, g.vectors = 0, 0, 0, 0, g.heads[:0], vectors{}
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

// attending returns how long the busiest rankset attends in a layer, and the mean ranks of all ranksets together.
func attending(groups []groupCost) (busiest, all units.Duration) {
	for i := range groups {
		if g := &groups[i]; g.requests > 0 {
			busiest = max(busiest, g.compute)
			all += g.compute - g.idle
		}
	}
	return busiest, all
}

// together returns what all groups of a sub-batch move in a layer, as one group.
func (d *devices) together(groups []groupCost) (all groupCost) {
	for i := range groups {
		g := &groups[i]
		all.requests += g.requests
		all.vectors.add(&g.vectors)
		all.prompt.add(&g.prompt)
		all.prefix.add(&g.prefix)
	}
	d.pack(&all.prompt)
	d.packPrefix(&all.prefix)
	return all
}

// add adds the tokens of another cargo, and not what they cost.
func (c *cargo) add(o *cargo) {
	c.tokens, c.bytes, c.bursts, c.clocks = c.tokens+o.tokens, c.bytes+o.bytes, c.bursts+o.bursts, c.clocks+o.clocks
}
