package dataflow

// limit is sums and bounds of an iteration's operations on one resource.
type limit struct {
	longest Time // operation
	claim   Time // longest wait of a piece for lanes
	held    Time // longest time that an operation holds lanes, with waits
	work    Time // of all its spans, with claims
	spans   Time
	busy    Time // in the whole iteration, over all lanes
	pieces  Time // in the whole iteration
}

// measure computes the limits of each resource.
func (c *check) measure() {
	c.limits = append(c.limits[:0], make([]limit, len(c.e.resources))...)
	c.closes = 0
	for i := range c.it.Ops {
		o := &c.it.Ops[i]
		l := &c.limits[o.Resource]
		l.longest = max(l.longest, o.duration())
		c.closes = max(c.closes, o.Close)
	}
	for i := range c.spans {
		l := &c.limits[c.spans[i].Resource]
		l.work += c.spans[i].End - c.spans[i].Start
		l.spans++
	}
	for i := range c.it.Ops {
		l := &c.limits[c.it.Ops[i].Resource]
		l.claim = max(l.claim, c.claim(&c.it.Ops[i]))
	}
	for i := range c.it.Ops {
		o := &c.it.Ops[i]
		l := &c.limits[o.Resource]
		l.held = max(l.held, c.delay(&c.e.resources[o.Resource], o)+o.duration())
	}
	for s := range c.it.Sub {
		sub := &c.it.Sub[s]
		for k := range sub.Kinds {
			r := &sub.Kinds[k]
			for j := r.From; j < r.To; j++ {
				o := &c.it.Ops[j]
				l := &c.limits[o.Resource]
				l.busy += Time(r.Count) * o.duration()
				l.pieces += Time(r.Count) * Time(o.Pieces)
				if r == sub.last() && o.Flags&NextLayer != 0 {
					l.busy += sub.Exit - o.Last
				}
			}
		}
	}
}

// claim returns the longest wait of a piece for the lanes that it claims.
func (c *check) claim(o *Op) Time {
	if o.Claims == 0 {
		return 0
	}
	claimed := &c.e.resources[o.Claims-1]
	return claimed.Vacate + o.Open + claimed.Reactivate + c.limits[o.Claims-1].longest + c.closes
}

// delay returns the longest wait of an operation for its own claim and its twin.
func (c *check) delay(spec *Resource, o *Op) Time {
	most := c.claim(o)
	if spec.Twin > 0 {
		twin := &c.limits[spec.Twin-1]
		// The gaps between the twin's spans may be too short.
		most += twin.work + twin.claim + twin.spans*o.duration()
	}
	return most
}

// patience returns the longest wait of an operation whose resource is free: for lanes that it
// claims, for a twin, and for another link that holds the lanes while it waits itself.
func (c *check) patience(spec *Resource, o *Op) Time {
	most := c.delay(spec, o)
	if o.Claims == 0 {
		return most
	}
	for r := range c.e.resources {
		if int8(r) != o.Resource && c.e.resources[r].Discipline == Link {
			most += c.limits[r].held
		}
	}
	return most
}
