package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// attend adds attention on ranks to the groups of its requests.
func (d *Devices) attend(groups []GroupCost, requests []scheduler.Decoding, x *policy.Step) {
	if d.Stripe.Parts > 0 {
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
	if c := d.whole(x); c != nil {
		d.attendWhole(groups, requests, c)
		return
	}
	for i := range requests {
		d.place(&groups[requests[i].Offset], x, i, 0, -1)
	}
}

// whole returns the only class on ranks, if its heads read all of their tokens in order and nothing chooses pages;
// else nil.
func (d *Devices) whole(x *policy.Step) (only *policy.Class) {
	if d.single || len(x.Choose) > 0 || x.Bounds.Heads > 0 {
		return nil
	}
	for i := range x.Attend {
		if c := &x.Attend[i]; c.Device == policy.Home {
			if only != nil || c.Page > 0 || c.Heads < d.channels {
				return nil
			}
			only = c
		}
	}
	return only
}

// attendWhole is place for all requests of such a class; their transfers are the same.
func (d *Devices) attendWhole(groups []GroupCost, requests []scheduler.Decoding, c *policy.Class) {
	n := d.onChannel(c.Heads)
	for i := range requests {
		tokens := c.Tokens[i]
		if tokens == 0 {
			continue
		}
		g, head := &groups[requests[i].Offset], d.Sequence.At(tokens)
		if g.Requests == 0 {
			g.Drain = d.Table.Drain(tokens)
		}
		g.Requests++
		g.Clocks += int64(n) * head
		g.Heads = append(g.Heads, head)
	}
	for i := range groups {
		if g := &groups[i]; g.Requests > 0 {
			g.Vectors.take(n*g.Requests, c.Heads*g.Requests)
		}
	}
}

// place adds a request's attention on a channel to its group. The heads of a layer on ranks go to
// successive channels from first on; a channel of -1 is the fullest of an even deal.
func (d *Devices) place(g *GroupCost, x *policy.Step, request, first, channel int) {
	chooses, v := d.chooses(x, request)
	attends := false
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home || c.Tokens[request] == 0 {
			continue
		}
		n := d.onChannel(c.Heads)
		if channel >= 0 {
			n = d.dealt(c.Heads, first, channel)
			first += c.Heads
		}
		attends = true
		v.take(n, c.Heads)
		if c.Chosen > 0 {
			list := units.Bytes(c.ListBytes(d.Attends.Requests[request].Context, int(d.verified)))
			v.Down += units.Bytes(c.Heads) * list
			v.bursts += int64(n) * d.bursts(list)
		}
		if n == 0 {
			chooses = 0
			continue
		}
		if len(g.Heads) == 0 {
			g.Drain = d.drain(c, request)
		}
		head := d.headClocks(c, request) + chooses
		chooses = 0 // only the first class chooses
		g.Clocks += int64(n) * head
		if !d.single {
			n = 1
		}
		for range n {
			g.Heads = append(g.Heads, head)
		}
	}
	if attends {
		g.Requests++
		g.Vectors.add(&v)
	}
}

// dealt returns how many heads a channel has if heads are dealt to the channels in turn, from first on.
func (d *Devices) dealt(heads, first, channel int) int {
	n := heads / d.channels
	if (channel-first%d.channels+d.channels)%d.channels < heads%d.channels {
		n++
	}
	return n
}

// attendApart is attend for the requests of one offset if channels have different numbers of heads of a
// class. The rankset takes as long as its busiest rank.
func (d *Devices) attendApart(g *GroupCost, requests []scheduler.Decoding, x *policy.Step, offset int32) {
	clear(d.byChannel) // in addition to what all channels have
	all, sum := int64(0), int64(0)
	for i := range requests {
		if requests[i].Offset != offset {
			continue
		}
		chooses, _ := d.chooses(x, i)
		first := d.Begins(requests[i].Request)
		for j := range x.Attend {
			c := &x.Attend[j]
			if c.Device != policy.Home || c.Tokens[i] == 0 {
				continue
			}
			head := d.headClocks(c, i) + chooses
			chooses = 0
			all += int64(c.Heads/d.channels) * head
			for i := range c.Heads % d.channels {
				d.byChannel[(first+i)%d.channels] += head
			}
			sum += int64(c.Heads) * head
			first += c.Heads
		}
	}
	busiest := d.busiest()
	for i := range requests {
		if requests[i].Offset == offset {
			d.place(g, x, i, d.Begins(requests[i].Request), busiest)
		}
	}
	g.Idle = max(0, d.Clock.Time(all+d.byChannel[busiest])-d.Clock.Time(sum/int64(d.channels)))
}

// busiest returns the channel with most clocks.
func (d *Devices) busiest() (channel int) {
	for i, clocks := range d.byChannel {
		if clocks > d.byChannel[channel] {
			channel = i
		}
	}
	return channel
}

// beyond returns how many heads on ranks do not divide over the channels, in the run with most layers that has such
// heads: of the first class, which attends over most.
func (d *Devices) beyond() (rest int) {
	most := 0
	for run, layers := range d.Attends.Runs {
		for _, c := range d.Attends.Policy.Decode([]policy.Request{{Prompt: 1, Context: 2}}, run).Attend {
			if c.Device != policy.Home || c.PerHead != nil {
				continue
			}
			if over := c.Heads % d.channels; over > 0 && layers > most {
				rest, most = over, layers
			}
			break
		}
	}
	return rest
}

// Apart says that heads of requests do not divide over the channels, and that the remaining ones begin on a channel given to each
// request.
func (d *Devices) Apart() bool { return d.Rest > 0 && !d.Fixed }

// Rotate gives each new request of a batch the channel on which its heads begin: where its remaining heads meet
// the fewest tokens of the other requests of its offset. It keeps that channel.
func (d *Devices) Rotate(b *scheduler.Batch) {
	for s := range b.Sub {
		for i := range b.Sub[s].Prefill {
			if c := &b.Sub[s].Prefill[i]; !c.Near {
				d.give(b, c.Request, c.Offset)
			}
		}
		for i := range b.Sub[s].Decode {
			d.give(b, b.Sub[s].Decode[i].Request, b.Sub[s].Decode[i].Offset)
		}
	}
}

// give gives a request its channel if it has none.
func (d *Devices) give(b *scheduler.Batch, request int32, offset int32) {
	for int(request) >= len(d.first) {
		d.first = append(d.first, 0)
	}
	if d.first[request] > 0 {
		return
	}
	load := d.byChannel
	clear(load)
	add := func(other int32, tokens int64) {
		if int(other) < len(d.first) && d.first[other] > 0 {
			for i := range d.Rest {
				load[(int(d.first[other])-1+i)%d.channels] += tokens
			}
		}
	}
	for s := range b.Sub {
		for i := range b.Sub[s].Decode {
			if r := &b.Sub[s].Decode[i]; r.Offset == offset {
				add(r.Request, int64(r.Context(b.Step)))
			}
		}
		for i := range b.Sub[s].Prefill {
			if c := &b.Sub[s].Prefill[i]; c.Offset == offset && !c.Near {
				add(c.Request, int64(c.Finished+c.Tokens))
			}
		}
	}
	best, least := 0, int64(-1)
	for begin := range d.channels {
		meets := int64(0)
		for i := range d.Rest {
			meets += load[(begin+i)%d.channels]
		}
		if least < 0 || meets < least {
			best, least = begin, meets
		}
	}
	d.first[request] = int32(best) + 1
}

// attendByHead adds attention of heads that differ. A layer's heads are on the channels in blocks.
// Each request's first block is on a channel of its own choice, so that no channel has the longest
// heads of all requests. The rankset takes as long as its busiest rank.
func (d *Devices) attendByHead(groups []GroupCost, requests []scheduler.Decoding, c *policy.Class) {
	for offset := range groups {
		g, sum := &groups[offset], int64(0)
		clear(d.byChannel)
		for i, r := range requests {
			if int(r.Offset) != offset || c.Tokens[i] == 0 {
				continue
			}
			g.Requests++
			g.Vectors.take(d.perChannel, c.Heads)
			for h, tokens := range c.PerHead[i*c.Heads : (i+1)*c.Heads] {
				head := d.Sequence.At(tokens)
				d.byChannel[d.ChannelOf(r.Request, h)] += head
				sum += head
			}
		}
		busiest := d.busiest()
		if sum == 0 {
			continue
		}
		d.headsOn(g, requests, c, int32(offset), busiest)
		g.Idle = d.Clock.Time(d.byChannel[busiest]) - d.Clock.Time(sum/int64(d.channels))
	}
}

// headsOn sets a group's attention to that of the heads on one channel, one after another.
func (d *Devices) headsOn(g *GroupCost, requests []scheduler.Decoding, c *policy.Class, offset int32, channel int) {
	for i, r := range requests {
		if r.Offset != offset || c.Tokens[i] == 0 {
			continue
		}
		for h, tokens := range c.PerHead[i*c.Heads : (i+1)*c.Heads] {
			if tokens == 0 || d.ChannelOf(r.Request, h) != channel {
				continue
			}
			head := d.Sequence.At(tokens)
			if len(g.Heads) == 0 {
				g.Drain = d.Table.Drain(tokens)
			}
			g.Heads = append(g.Heads, head)
			g.Clocks += head
		}
	}
}

// ChannelOf returns the channel of a head of a request, if a channel has a block of heads or if heads that do not divide
// are dealt in turn.
func (d *Devices) ChannelOf(request int32, head int) int {
	if d.uneven {
		return (head + d.Begins(request)) % d.channels
	}
	return (head/d.perChannel + d.Begins(request)) % d.channels
}

// Begins returns the channel on which the heads of a request begin: the one given to it, else a pseudo-random one from
// the request's number. Requests of one rankset and sub-batch are a fixed number apart, so in turns they would all
// begin on the same channel. The mixing is that of splitmix64 (https://prng.di.unimi.it/splitmix64.c).
func (d *Devices) Begins(request int32) int {
	switch {
	case d.Fixed:
		return 0
	case int(request) < len(d.first) && d.first[request] > 0:
		return int(d.first[request] - 1)
	}
	return int(Scattered(request) % uint64(d.channels))
}

// Scattered returns a pseudo-random number for a request.
func Scattered(request int32) uint64 {
	x := uint64(request+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
