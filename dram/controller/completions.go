package controller

// ending is a request whose last data beat is known.
type ending struct {
	end, accepted int64
	id            int32 // in controller.underway
}

// keep remembers r until it ends, if anyone wants to know, and returns its number.
func (c *controller) keep(r *Request) int32 {
	if c.done == nil {
		return -1
	}
	if n := len(c.freeIDs); n > 0 {
		id := c.freeIDs[n-1]
		c.freeIDs = c.freeIDs[:n-1]
		c.underway[id] = *r
		return id
	}
	c.underway = append(c.underway, *r)
	return int32(len(c.underway) - 1)
}

// end notes the end of a request; they come back in the order of their ends, and of two at one clock the
// earlier noted first.
func (c *controller) end(e ending) {
	if c.done == nil {
		return
	}
	i := len(c.ends)
	c.ends = append(c.ends, e)
	for ; i > 0 && c.ends[i-1].end > e.end; i-- { // few are under way, and most end in order
		c.ends[i] = c.ends[i-1]
	}
	c.ends[i] = e
}

// deliver calls back for what has ended by t.
func (c *controller) deliver(t int64) {
	n := 0
	for ; n < len(c.ends) && c.ends[n].end <= t; n++ {
		e := c.ends[n]
		r := c.underway[e.id]
		c.freeIDs = append(c.freeIDs, e.id)
		c.done(Completion{r, e.accepted / c.steps, c.clocks(e.end)})
	}
	c.ends = c.ends[:copy(c.ends, c.ends[n:])]
}
