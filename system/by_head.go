package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// attendByHead adds attention of heads that differ. A layer's heads lie on the channels in
// blocks, and each request's blocks begin one channel further than those of the request before,
// so that no channel has the longest heads of all. The rankset takes as long as its busiest
// rank, one a channel.
func (d *devices) attendByHead(groups []groupCost, requests []scheduler.Decoding, c *policy.Class) {
	for offset := range groups {
		g, sum := &groups[offset], int64(0)
		clear(d.byChannel)
		for i, r := range requests {
			if int(r.Offset) != offset || c.Tokens[i] == 0 {
				continue
			}
			g.requests++
			for h, tokens := range c.PerHead[i*c.Heads : (i+1)*c.Heads] {
				head := d.sequence.at(tokens)
				d.byChannel[d.channelOf(r.Request, h)] += head
				sum += head
			}
		}
		busiest := 0
		for channel, clocks := range d.byChannel {
			if clocks > d.byChannel[busiest] {
				busiest = channel
			}
		}
		if sum == 0 {
			continue
		}
		d.headsOn(g, requests, c, int32(offset), busiest)
		g.idle = d.clock.Time(d.byChannel[busiest]) - d.clock.Time(sum/int64(d.channels))
	}
}

// headsOn sets a group's attention to that of the heads on one channel, one after another.
func (d *devices) headsOn(g *groupCost, requests []scheduler.Decoding, c *policy.Class, offset int32, channel int) {
	for i, r := range requests {
		if r.Offset != offset || c.Tokens[i] == 0 {
			continue
		}
		for h, tokens := range c.PerHead[i*c.Heads : (i+1)*c.Heads] {
			if tokens == 0 || d.channelOf(r.Request, h) != channel {
				continue
			}
			head := d.sequence.at(tokens)
			if len(g.heads) == 0 {
				g.clocks += d.table.Alone(tokens) - head
			}
			g.heads = append(g.heads, head)
			g.clocks += head
		}
	}
}

// channelOf returns the channel of a head of a request.
func (d *devices) channelOf(request int32, head int) int {
	return (head/d.heads + int(request)) % d.channels
}
