package controller

// accept takes the next request, if it has come and its queue has room. A
// request that is accepted at clock t can move on from t+1 on.
func (c *controller) accept(t int64) bool {
	if c.next == len(c.requests) || c.requests[c.next].Clock*c.steps > t {
		return false
	}
	if !c.decoded {
		c.decode(&c.requests[c.next])
	}
	e := &c.head
	q := &c.reads
	if e.write {
		q = &c.writes
	}
	if q.full() {
		return false
	}
	r := &c.requests[c.next]
	e.accepted, e.arrived, e.id = t, r.Clock*c.steps, c.keep(r)
	c.decoded = false
	c.next++
	c.stats.Requests++
	c.stuck = false
	slot := e.slot()
	switch {
	case c.pendingWrites[slot] > 0 && c.findPending(e, true) != nil:
		// The write buffer holds the burst: a read takes its data from there, a
		// write replaces it.
		if e.write {
			c.stats.MergedWrites++
		} else {
			c.stats.ForwardedReads++
			c.readEnds(t, e.arrived, t+c.steps)
			c.endStep = max(c.endStep, t+c.steps)
		}
		c.end(ending{t + c.steps, t, e.id})
	case e.write:
		c.pendingWrites[slot]++
		q.entries = append(q.entries, *e)
	default:
		if c.pendingReads[slot] > 0 {
			if first := c.findPending(e, false); first != nil {
				c.stats.MergedReads++
				c.wait(first, e)
				return true
			}
		}
		c.pendingReads[slot]++
		q.entries = append(q.entries, *e)
	}
	return true
}

// decode sets head to r.
func (c *controller) decode(r *Request) {
	_, a, wrapped := c.mapping.decode(r.Address)
	if wrapped {
		c.stats.WrappedAddresses++
	}
	bank := (a.Rank*int32(c.spec.BankGroups)+a.BankGroup)*int32(c.spec.BanksPerGroup) + a.Bank
	c.head = entry{row: a.Row, column: a.Column, merged: -1, bank: bank, write: r.Write}
	c.decoded = true
}

// findPending returns the pending read or write of e's burst, or nil.
func (c *controller) findPending(e *entry, write bool) *entry {
	if o := c.banks[e.bank].find(e, write); o != nil {
		return o
	}
	if write {
		return c.writes.find(e, true)
	}
	return c.reads.find(e, false)
}

// wait lets read e finish with first.
func (c *controller) wait(first, e *entry) {
	i := c.freeChain
	if i < 0 {
		i = int32(len(c.chain))
		c.chain = append(c.chain, waiting{})
	} else {
		c.freeChain = c.chain[i].next
	}
	c.chain[i] = waiting{e.accepted, e.arrived, e.id, first.merged}
	first.merged = i
}

// transfer moves one request into its bank's queue.
func (c *controller) transfer(t int64) bool {
	if c.stuck {
		return false
	}
	c.startDrain()
	if c.draining > 0 && !c.starves(&c.reads) {
		moved, dependent := c.moveWrite(t)
		if moved {
			c.draining--
			return true
		}
		// A write waits for a read of its burst; that read may itself wait for
		// the drain to end.
		if !dependent {
			c.stuck = true
			return false
		}
	}
	moved := c.moveRead(t)
	c.stuck = !moved
	return moved
}

// starves reports whether the oldest entry of q is too old.
func (c *controller) starves(q *entryQueue) bool {
	return len(q.entries) > 0 && c.old(&q.entries[0])
}

// startDrain decides how many writes move before reads move again.
func (c *controller) startDrain() {
	n := len(c.writes.entries)
	if c.draining > 0 || n == 0 {
		return
	}
	noReads := len(c.reads.entries) == 0
	switch {
	case n >= c.policy.DrainHigh:
		c.draining = n - c.policy.DrainLow
	case noReads && c.closing && c.next == len(c.requests), noReads && c.queued == 0 && n > c.policy.DrainIdle:
		c.draining = n
	case c.starves(&c.writes):
		c.draining = 1
	}
}

// moveWrite moves the first write whose bank queue has room and whose burst no
// pending read wants; dependent says that some write was passed over for its
// read.
func (c *controller) moveWrite(t int64) (moved, dependent bool) {
	for i := range c.writes.entries {
		e := &c.writes.entries[i]
		if c.full[e.bank] {
			continue
		}
		if c.pendingReads[e.slot()] > 0 && c.findPending(e, false) != nil {
			dependent = true
			continue
		}
		c.enqueue(c.writes.remove(i), t)
		return true, false
	}
	return false, dependent
}

// moveRead moves the first read whose bank queue has room.
func (c *controller) moveRead(t int64) bool {
	entries, full := c.reads.entries, c.full
	for i := range entries {
		if !full[entries[i].bank] {
			c.enqueue(c.reads.remove(i), t)
			return true
		}
	}
	return false
}

// enqueue appends e to its bank's queue.
func (c *controller) enqueue(e entry, t int64) {
	b := &c.banks[e.bank]
	e.queued = t
	b.entries = append(b.entries, e)
	c.full[e.bank] = b.entryQueue.full()
	c.queued++
	c.queuedInRank[c.places[e.bank].Rank]++
	if !b.indifferent(&e, c.rows[e.bank]) {
		c.ready = min(c.ready, max(t+1, c.updateNeeds(int(e.bank))))
	}
}
