package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// attend adds attention at home to the groups of its requests.
func (d *devices) attend(groups []groupCost, requests []scheduler.Decoding, x *policy.Step) {
	if d.stripe.parts > 0 {
		d.attendStriped(groups, requests, x)
		return
	}
	even := true
	for i := range x.Attend {
		switch c := &x.Attend[i]; {
		case c.Device != policy.Home:
		case c.PerHead != nil:
			d.attendByHead(groups, requests, c)
			return
		default:
			even = even && c.Heads%d.channels == 0
		}
	}
	if !even {
		for offset := range groups {
			d.attendApart(&groups[offset], requests, x, int32(offset))
		}
		return
	}
	for i := range requests {
		d.place(&groups[requests[i].Offset], x, i, 0, -1)
	}
}

// place adds a request's attention on a channel to its group. The first head of a layer at home is on
// channel first, the next one on the next; a channel of -1 is any where all have as many heads.
func (d *devices) place(g *groupCost, x *policy.Step, request, first, channel int) {
	chooses, v := d.chooses(x, request)
	attends := false
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home || c.Tokens[request] == 0 {
			continue
		}
		n := c.Heads / d.channels
		if channel >= 0 {
			n = d.dealt(c.Heads, first, channel)
			first += c.Heads
		}
		attends = true
		v.take(n, c.Heads)
		if n == 0 {
			chooses = 0
			continue
		}
		head, alone := d.headClocks(c, request)
		if len(g.heads) == 0 {
			// The first head of a group finds no other's drain to hide behind.
			g.clocks += alone - head
		}
		head, chooses = head+chooses, 0 // the first class is the one that chooses
		g.clocks += int64(n) * head
		if !d.single {
			n = 1
		}
		for range n {
			g.heads = append(g.heads, head)
		}
	}
	if attends {
		g.requests++
		g.vectors.add(&v)
	}
}

// dealt returns how many of so many heads a channel has that are dealt to the channels in turn from one on.
func (d *devices) dealt(heads, first, channel int) int {
	n := heads / d.channels
	if (channel-first%d.channels+d.channels)%d.channels < heads%d.channels {
		n++
	}
	return n
}

// attendApart is attend for the requests of one offset, where not all channels have as many heads of each
// class. The rankset takes as long as its busiest rank.
func (d *devices) attendApart(g *groupCost, requests []scheduler.Decoding, x *policy.Step, offset int32) {
	clear(d.byChannel)
	sum := int64(0)
	for i := range requests {
		if requests[i].Offset != offset {
			continue
		}
		chooses, _ := d.chooses(x, i)
		first := d.begins(requests[i].Request)
		for j := range x.Attend {
			c := &x.Attend[j]
			if c.Device != policy.Home || c.Tokens[i] == 0 {
				continue
			}
			head, _ := d.headClocks(c, i)
			head, chooses = head+chooses, 0
			for channel := range d.byChannel {
				d.byChannel[channel] += int64(d.dealt(c.Heads, first, channel)) * head
			}
			sum += int64(c.Heads) * head
			first += c.Heads
		}
	}
	busiest := d.busiest()
	for i := range requests {
		if requests[i].Offset == offset {
			d.place(g, x, i, d.begins(requests[i].Request), busiest)
		}
	}
	g.idle = max(0, d.clock.Time(d.byChannel[busiest])-d.clock.Time(sum/int64(d.channels)))
}

// busiest returns the channel with most clocks.
func (d *devices) busiest() (channel int) {
	for i, clocks := range d.byChannel {
		if clocks > d.byChannel[channel] {
			channel = i
		}
	}
	return channel
}
