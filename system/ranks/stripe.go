package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// stripe deals the units of a head's tokens to parts: unit u goes to part u mod Parts. Each part attends over
// its own units. With 0 parts a head is whole.
type stripe struct {
	Parts  int
	lanes  bool // parts are ranksets, else channels
	tokens int  // of a unit
}

func stripeOf(cfg *configs.Config, unit int) stripe {
	switch {
	case cfg.Comm.Stripe == scheduler.StripeRanksets && cfg.Node.Ranksets > 1:
		return stripe{cfg.Node.Ranksets, true, unit}
	case cfg.Comm.Stripe == scheduler.StripeChannels && cfg.ReplicaChannels() > 1:
		return stripe{cfg.ReplicaChannels(), false, unit}
	}
	return stripe{}
}

func (s *stripe) part(tokens, part int) int {
	units := tokens / s.tokens
	n := units / s.Parts * s.tokens
	switch rest := units % s.Parts; {
	case part < rest:
		n += s.tokens
	case part == rest:
		n += tokens % s.tokens
	}
	return n
}

// used returns how many parts have any of the first tokens.
func (s *stripe) used(tokens int) int { return min((tokens+s.tokens-1)/s.tokens, s.Parts) }

// lane returns the lane of a part of a request, counted from the layer's first.
func (d *Devices) lane(request, offset int32, part, lanes int) int {
	if !d.Stripe.lanes {
		return int(offset)
	}
	return int((Scattered(request)%uint64(lanes) + uint64(part)) % uint64(lanes))
}

// headsOf returns how many heads a channel has of a part, for a request whose heads begin on channel first; a channel of -1 is the
// fullest. If parts are channels, head h has part p on channel (first + h + p) mod channels.
func (d *Devices) headsOf(heads, part, first, channel int) int {
	switch {
	case channel < 0:
		return d.onChannel(heads)
	case d.Stripe.lanes:
		return d.dealt(heads, first, channel)
	}
	return d.dealt(heads, first+part, channel)
}

// attendStriped adds attention at home to the groups of the lanes that have parts of their requests. If heads do not
// divide, a lane takes as long as its busiest channel.
func (d *Devices) attendStriped(groups []GroupCost, requests []scheduler.Decoding, x *policy.Step) {
	if d.single {
		d.loadLanes(groups, requests, x)
	}
	for i := range requests {
		first := d.Begins(requests[i].Request)
		for part := range d.Stripe.Parts {
			lane, channel := d.lane(requests[i].Request, requests[i].Offset, part, len(groups)), -1
			if d.single {
				channel = d.busiestOf[lane]
			}
			g := &groups[lane]
			v, attends := d.placePart(g, x, i, part, first, channel)
			if attends {
				g.Requests++
				g.Vectors.add(&v)
			}
		}
	}
}

// loadLanes sets the busiest channel of each lane, and how long the mean channel waits for it.
func (d *Devices) loadLanes(groups []GroupCost, requests []scheduler.Decoding, x *policy.Step) {
	d.busiestOf = d.busiestOf[:0]
	for lane := range groups {
		clear(d.byChannel)
		sum := int64(0)
		for i := range requests {
			first := d.Begins(requests[i].Request)
			for part := range d.Stripe.Parts {
				if d.lane(requests[i].Request, requests[i].Offset, part, len(groups)) != lane {
					continue
				}
				for j := range x.Attend {
					c := &x.Attend[j]
					if c.Device != policy.Home {
						continue
					}
					head, _, attends, _ := d.partClocks(c, i, part)
					if !attends {
						continue
					}
					for channel := range d.byChannel {
						d.byChannel[channel] += int64(d.headsOf(c.Heads, part, first, channel)) * head
					}
					sum += int64(c.Heads) * head
				}
			}
		}
		busiest := d.busiest()
		d.busiestOf = append(d.busiestOf, busiest)
		if sum > 0 {
			groups[lane].Idle = max(0, d.Clock.Time(d.byChannel[busiest])-d.Clock.Time(sum/int64(d.channels)))
		}
	}
}

// span returns how many tokens of a request's context a class attends over or chooses from; parts divide
// these.
func span(c *policy.Class, requests []policy.Request, i int) int {
	if c.Chosen > 0 {
		return requests[i].Context
	}
	return c.Tokens[i]
}

// partClocks returns the clocks of a part of a request's head within a sequence of heads, its additional clocks as the first one, whether
// the part has tokens, and whether the step's own token is among them. Tokens that are chosen one by one are spread evenly over the parts.
func (d *Devices) partClocks(c *policy.Class, request, part int) (clocks, drain int64, attends, fresh bool) {
	all := span(c, d.Attends.Requests, request)
	tokens := d.Stripe.part(all, part)
	if tokens == 0 {
		return 0, 0, false, false
	}
	s := &d.Stored
	if fresh = d.stores && (all-1)/d.Stripe.tokens%d.Stripe.Parts == part; fresh {
		s = &d.Sequence
	}
	if chosen := c.Tokens[request]; chosen < all {
		read, rows, last := d.singles((chosen*tokens+all-1)/all, tokens, all)
		clocks = s.Table.ListInSequence(read, rows, last)
		return clocks, s.Table.ListAlone(read, rows) - clocks, true, fresh
	}
	return s.At(tokens), s.Table.Drain(tokens), true, fresh
}

// listOfPart returns the bytes of a request's choice that go to a part, in proportion to the part's tokens.
func (d *Devices) listOfPart(c *policy.Class, request, part int) units.Bytes {
	if c.Chosen == 0 {
		return 0
	}
	context := d.Attends.Requests[request].Context
	list := c.ListBytes(context, int(d.verified))
	before := 0
	for p := range part {
		before += d.Stripe.part(context, p)
	}
	after := before + d.Stripe.part(context, part)
	return units.Bytes(list*int64(after)/int64(context) - list*int64(before)/int64(context))
}

// placePart adds a part of a request's attention to a group. The part with the newest token stores it.
func (d *Devices) placePart(g *GroupCost, x *policy.Step, request, part, first, channel int) (v vectors, attends bool) {
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home {
			continue
		}
		n := d.headsOf(c.Heads, part, first, channel)
		head, drain, has, fresh := d.partClocks(c, request, part)
		if !has {
			continue
		}
		attends = true
		v.heads, v.All = v.heads+int64(n), v.All+int64(c.Heads)
		if fresh {
			v.fresh, v.freshAll = v.fresh+int64(n), v.freshAll+int64(c.Heads)
		}
		if list := d.listOfPart(c, request, part); list > 0 {
			v.Down += units.Bytes(c.Heads) * list
			v.bursts += int64(n) * d.bursts(list)
		}
		if len(g.Heads) == 0 && n > 0 {
			g.Drain += drain
		}
		g.Clocks += int64(n) * head
		for range n {
			g.Heads = append(g.Heads, head)
		}
	}
	return v, attends
}

// loadStriped adds the tokens that one request's heads send to ranks to the cargoes of the lanes.
func (d *Devices) loadStriped(groups []GroupCost, cargoOf func(*GroupCost) *Cargo, request, offset int32, l *policy.Leaving, from, tokens int) {
	channel := d.fullest(l.Heads, from, tokens)
	for part := range d.Stripe.Parts {
		before := d.Stripe.part(from, part)
		if n := d.Stripe.part(from+tokens, part) - before; n > 0 {
			d.loadHeads(cargoOf(&groups[d.lane(request, offset, part, len(groups))]), l, d.headsOf(l.Heads, part, 0, channel), before, n)
		}
	}
}

// fullest returns the channel that gets most of the tokens of heads that begin on channel 0; -1 if all get the
// same.
func (d *Devices) fullest(heads, from, tokens int) (fullest int) {
	if heads%d.channels == 0 || d.Stripe.lanes {
		return -1
	}
	most := 0
	for channel := range d.channels {
		sum := 0
		for part := range d.Stripe.Parts {
			sum += d.dealt(heads, part, channel) * (d.Stripe.part(from+tokens, part) - d.Stripe.part(from, part))
		}
		if sum > most {
			fullest, most = channel, sum
		}
	}
	return fullest
}

// Merges returns how many requests of a step have partial outputs to merge, and the number of these outputs.
func (d *Devices) Merges(x *policy.Step) (requests, parts int) {
	for i := range d.Attends.Requests {
		n, near := 0, 0
		for j := range x.Attend {
			c := &x.Attend[j]
			switch {
			case c.Tokens[i] == 0:
			case c.Device == policy.Home:
				n = max(n, d.Stripe.used(span(c, d.Attends.Requests, i)))
			case d.merged:
				near = 1
			}
		}
		if n+near > 1 {
			requests, parts = requests+1, parts+n+near
		}
	}
	return requests * int(d.verified), parts * int(d.verified)
}
