package ranks

import (
	"github.com/l3sim/l3sim/units"
)

// GroupCost is what one layer of a group costs: the decoding requests of a
// sub-batch with one rankset offset, and the prompts of that offset.
type GroupCost struct {
	Requests  int            // that attend over something on the rankset
	Clocks    int64          // of the rank's attention, without refresh and drain
	Drain     int64          // clocks of the first head's drain; those of later heads hide behind other heads
	Compute   units.Duration // of the rankset, refresh included
	Idle      units.Duration // part of Compute in which the mean rank waits for the busiest, if heads differ
	Decode    Shipment       // vectors of the requests: q, and k and v unless these stay on the GPUs
	Prompt    Cargo          // of the prompts
	Leaving   Cargo          // of decoding requests: what leaves the GPUs after the step
	Prefix    fetch          // of the prompts: cached prefixes that the GPUs need
	Up, UpBus units.Duration // results: time of the PCIe links, and the channels' share

	Heads   []int64 // clocks of one head of each request, in their order
	Vectors vectors // transfers of the requests
}

// reset empties a group and keeps its memory. It does not write empty parts: there are many groups, and few
// have more than requests.
func (g *GroupCost) reset() {
	if g.Requests > 0 {
		g.Requests, g.Clocks, g.Drain, g.Idle, g.Heads, g.Vectors = 0, 0, 0, 0, g.Heads[:0], vectors{}
	}
	if g.Prompt.Bytes > 0 {
		g.Prompt = Cargo{}
	}
	if g.Leaving.Bytes > 0 {
		g.Leaving = Cargo{}
	}
	if g.Prefix.Tokens > 0 {
		g.Prefix = fetch{}
	}
}

// Cargo is keys and values that go to a rankset, which does not need them in this iteration.
type Cargo struct {
	Tokens int64       // of single heads on one channel
	Bytes  units.Bytes // of all heads, with bounds of pages
	bursts int64       // on one channel
	clocks int64       // of the channel's writes, without refresh
	Shipment
}

// Attending returns how long the busiest rankset attends in a layer, and the sum over all ranksets of the mean
// rank's time.
func Attending(groups []GroupCost) (busiest, all units.Duration) {
	for i := range groups {
		if g := &groups[i]; g.Requests > 0 {
			busiest = max(busiest, g.Compute)
			all += g.Compute - g.Idle
		}
	}
	return busiest, all
}

// Together returns the transfers of all groups of a sub-batch in a layer, as one group.
func (d *Devices) Together(groups []GroupCost) (all GroupCost) {
	for i := range groups {
		g := &groups[i]
		all.Requests += g.Requests
		all.Vectors.add(&g.Vectors)
		all.Prompt.add(&g.Prompt)
		all.Prefix.add(&g.Prefix)
	}
	d.pack(&all.Prompt)
	d.packPrefix(&all.Prefix)
	return all
}

// add adds the tokens of another cargo, but not their cost.
func (c *Cargo) add(o *Cargo) {
	c.Tokens, c.Bytes, c.bursts, c.clocks = c.Tokens+o.Tokens, c.Bytes+o.Bytes, c.bursts+o.bursts, c.clocks+o.clocks
}
