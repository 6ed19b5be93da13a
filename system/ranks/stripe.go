package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
)

// stripe deals the units of a head's tokens to parts: unit u goes to part u mod parts. Each part attends over
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

// headsOf returns how many heads of a part a channel has. Where parts are channels, head h has
// part p on channel (h + p) mod channels.
func (d *Devices) headsOf(heads, part int) int {
	if d.Stripe.lanes {
		return d.onChannel(heads)
	}
	return d.dealt(heads, part, 0)
}

// attendStriped adds attention at home to the groups of the lanes that have parts of their requests. Where each part is
// alone, as predictions have it, it hides behind no other.
func (d *Devices) attendStriped(groups []GroupCost, requests []scheduler.Decoding, x *policy.Step, alone bool) {
	for i := range requests {
		for part := range d.Stripe.Parts {
			g := &groups[d.lane(requests[i].Request, requests[i].Offset, part, len(groups))]
			v, attends := d.placePart(g, x, i, part)
			if attends {
				g.Requests++
				g.Vectors.add(&v)
			}
			if alone {
				g.Heads = g.Heads[:0]
			}
		}
	}
}

// placePart adds a part of a request's attention to a group. The part with the newest token stores it.
func (d *Devices) placePart(g *GroupCost, x *policy.Step, request, part int) (v vectors, attends bool) {
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home {
			continue
		}
		tokens := d.Stripe.part(c.Tokens[request], part)
		n := d.headsOf(c.Heads, part)
		if tokens == 0 {
			continue
		}
		attends = true
		v.heads, v.All = v.heads+int64(n), v.All+int64(c.Heads)
		s := &d.Stored
		if d.stores && (c.Tokens[request]-1)/d.Stripe.tokens%d.Stripe.Parts == part {
			s = &d.Sequence
			v.fresh, v.freshAll = v.fresh+int64(n), v.freshAll+int64(c.Heads)
		}
		head := s.At(tokens)
		if len(g.Heads) == 0 && n > 0 {
			g.Drain += s.Table.Drain(tokens)
		}
		g.Clocks += int64(n) * head
		for range n {
			g.Heads = append(g.Heads, head)
		}
	}
	return v, attends
}

// loadStriped adds what one request's heads send home to the cargoes of the lanes.
func (d *Devices) loadStriped(groups []GroupCost, cargoOf func(*GroupCost) *Cargo, request, offset int32, l *policy.Leaving, from, tokens int) {
	for part := range d.Stripe.Parts {
		before := d.Stripe.part(from, part)
		if n := d.Stripe.part(from+tokens, part) - before; n > 0 {
			d.loadHeads(cargoOf(&groups[d.lane(request, offset, part, len(groups))]), l, d.headsOf(l.Heads, part), before, n)
		}
	}
}

// Merges returns how many requests of a step have partial outputs to merge, and how many of these there are.
func (d *Devices) Merges(x *policy.Step) (requests, parts int) {
	for i := range d.Requests {
		n, near := 0, 0
		for j := range x.Attend {
			c := &x.Attend[j]
			switch {
			case c.Tokens[i] == 0:
			case c.Device == policy.Home:
				n = max(n, d.Stripe.used(c.Tokens[i]))
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
