package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// attendByHead adds attention of heads that differ. A layer's heads lie on the channels in
// blocks, and each request's first block on a channel of its own, so that none has the longest
// heads of all. The rankset takes as long as its busiest rank, one a channel.
func (d *devices) attendByHead(groups []groupCost, requests []scheduler.Decoding, c *policy.Class) {
	for offset := range groups {
		g, sum := &groups[offset], int64(0)
		clear(d.byChannel)
		for i, r := range requests {
			if int(r.Offset) != offset || c.Tokens[i] == 0 {
				continue
			}
			g.requests++
			g.vectors.take(d.heads, c.Heads)
			for h, tokens := range c.PerHead[i*c.Heads : (i+1)*c.Heads] {
				head := d.sequence.at(tokens)
				d.byChannel[d.channelOf(r.Request, h)] += head
				sum += head
			}
		}
		busiest := d.busiest()
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

// channelOf returns the channel of a head of a request, where a channel has a block of heads.
func (d *devices) channelOf(request int32, head int) int {
	return (head/d.heads + d.begins(request)) % d.channels
}

// begins returns the channel on which the heads of a request begin: where they were given one, that, else scattered by
// the request's number: requests on one rankset and in one sub-batch are some fixed number apart, so that
// taking turns would have them all begin alike. The mixing is that of splitmix64
// (https://prng.di.unimi.it/splitmix64.c).
func (d *devices) begins(request int32) int {
	switch {
	case d.fixed:
		return 0
	case int(request) < len(d.first) && d.first[request] > 0:
		return int(d.first[request] - 1)
	}
	return int(scattered(request) % uint64(d.channels))
}

// scattered returns a number for a request that is like a random one.
func scattered(request int32) uint64 {
	x := uint64(request+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
