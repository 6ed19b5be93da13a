package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
)

// stripe deals the units of a head's tokens to parts: unit u goes to part u mod parts. Each part attends over
// its own units. With 0 parts a head is whole.
type stripe struct {
	parts  int
	lanes  bool // parts are ranksets, else channels
	tokens int  // of a unit
}

// stripeOf returns that of a configuration.
func stripeOf(cfg *configs.Config, unit int) stripe {
	switch {
	case cfg.Comm.Stripe == scheduler.StripeRanksets && cfg.Node.Ranksets > 1:
		return stripe{cfg.Node.Ranksets, true, unit}
	case cfg.Comm.Stripe == scheduler.StripeChannels && cfg.ReplicaChannels() > 1:
		return stripe{cfg.ReplicaChannels(), false, unit}
	}
	return stripe{}
}

// part returns how many of the first tokens are in a part.
func (s *stripe) part(tokens, part int) int {
	units := tokens / s.tokens
	n := units / s.parts * s.tokens
	switch rest := units % s.parts; {
	case part < rest:
		n += s.tokens
	case part == rest:
		n += tokens % s.tokens
	}
	return n
}

// used returns how many parts have any of the first tokens.
func (s *stripe) used(tokens int) int { return min((tokens+s.tokens-1)/s.tokens, s.parts) }

// lane returns the lane of a part of a request, counted from the layer's first.
func (d *devices) lane(request, offset int32, part, lanes int) int {
	if !d.stripe.lanes {
		return int(offset)
	}
	return int((scattered(request)%uint64(lanes) + uint64(part)) % uint64(lanes))
}

// headsOf returns how many heads of a part a channel has. Where parts are channels, head h has
// part p on channel (h + p) mod channels.
func (d *devices) headsOf(heads, part int) int {
	if d.stripe.lanes {
		return d.onChannel(heads)
	}
	return d.dealt(heads, part, 0)
}

// attendStriped adds attention at home to the groups of the lanes that have parts of their requests. Where each part is
// alone, as predictions have it, it hides behind no other.
func (d *devices) attendStriped(groups []groupCost, requests []scheduler.Decoding, x *policy.Step, alone bool) {
	for i := range requests {
		for part := range d.stripe.parts {
			g := &groups[d.lane(requests[i].Request, requests[i].Offset, part, len(groups))]
			v, attends := d.placePart(g, x, i, part)
			if attends {
				g.requests++
				g.vectors.add(&v)
			}
			if alone {
				g.heads = g.heads[:0]
			}
		}
	}
}

// placePart adds a part of a request's attention to a group. The part with the newest token stores it.
func (d *devices) placePart(g *groupCost, x *policy.Step, request, part int) (v vectors, attends bool) {
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home {
			continue
		}
		tokens := d.stripe.part(c.Tokens[request], part)
		n := d.headsOf(c.Heads, part)
		if tokens == 0 {
			continue
		}
		attends = true
		v.heads, v.all = v.heads+int64(n), v.all+int64(c.Heads)
		s := &d.stored
		if d.stores && (c.Tokens[request]-1)/d.stripe.tokens%d.stripe.parts == part {
			s = &d.sequence
			v.fresh, v.freshAll = v.fresh+int64(n), v.freshAll+int64(c.Heads)
		}
		head := s.at(tokens)
		if len(g.heads) == 0 && n > 0 {
			g.drain += s.table.Alone(tokens) - head
		}
		g.clocks += int64(n) * head
		for range n {
			g.heads = append(g.heads, head)
		}
	}
	return v, attends
}

// loadStriped adds what one request's heads send home to the cargoes of the lanes.
func (d *devices) loadStriped(groups []groupCost, cargoOf func(*groupCost) *cargo, request, offset int32, l *policy.Leaving, from, tokens int) {
	for part := range d.stripe.parts {
		before := d.stripe.part(from, part)
		if n := d.stripe.part(from+tokens, part) - before; n > 0 {
			d.loadHeads(cargoOf(&groups[d.lane(request, offset, part, len(groups))]), l, d.headsOf(l.Heads, part), before, n)
		}
	}
}

// merges returns how many requests of a step have partial outputs to merge, and how many of these there are.
func (d *devices) merges(x *policy.Step) (requests, parts int) {
	for i := range d.requests {
		n, near := 0, 0
		for j := range x.Attend {
			c := &x.Attend[j]
			switch {
			case c.Tokens[i] == 0:
			case c.Device == policy.Home:
				n = max(n, d.stripe.used(c.Tokens[i]))
			case d.merged:
				near = 1
			}
		}
		if n+near > 1 {
			requests, parts = requests+1, parts+n+near
		}
	}
	return requests, parts
}
