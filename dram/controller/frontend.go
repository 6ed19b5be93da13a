package controller

import "github.com/l3sim/l3sim/dram"

// accept takes the next request, if it has come and its queue has room. A
// request that is accepted at clock t can move on from t+1 on.
func (c *controller) accept(t int64) bool {
	if c.next == len(c.requests) || c.requests[c.next].Clock*c.steps > t {
		return false
	}
	c.decode()
	e, arrived := &c.head, c.requests[c.next].Clock*c.steps
	if c.held[e.kind].full() {
		return false
	}
	c.decoded = false
	c.next++
	c.stats.Requests++
	c.stuck = false
	// The write buffer may hold the burst: a read takes its data from there, a write replaces it.
	switch written := c.pending(e, needWrite) != nil; {
	case written && e.kind == needWrite:
		c.stats.MergedWrites++
		return true
	case written:
		c.stats.ForwardedReads++
		c.readEnds(t, arrived, t+c.steps)
		return true
	case e.kind == needRead:
		if first := c.pending(e, needRead); first != nil {
			c.stats.MergedReads++
			c.wait(first, waiting{t, arrived, -1, first.merged})
			return true
		}
	}
	c.hold(e, t, arrived, -1)
	return true
}

// decode sets head to the next request.
func (c *controller) decode() {
	if c.decoded {
		return
	}
	r := &c.requests[c.next]
	var a dram.Address
	if _, wrapped := c.mapping.decode(r.Address, &a); wrapped {
		c.stats.WrappedAddresses++
	}
	e := &c.head
	e.row, e.column, e.merged, e.kind, e.read = a.Row, a.Column, -1, needRead, false
	if r.Write {
		e.kind = needWrite
	}
	e.bank = (a.Rank*int32(c.spec.BankGroups)+a.BankGroup)*int32(c.spec.BanksPerGroup) + a.Bank
	c.decoded = true
}

// hold puts e into its queue.
func (c *controller) hold(e *entry, accepted, arrived int64, id int32) {
	c.filters[e.kind][e.slot()]++
	b := &c.banks[e.bank]
	if b.held[e.kind]++; !b.full() {
		c.movable[e.kind]++
	}
	held := c.held[e.kind].push(e)
	held.accepted, held.arrived, held.id = accepted, arrived, id
}

// pending returns the pending entry of a kind for e's burst, or nil.
func (c *controller) pending(e *entry, kind need) *entry {
	if c.filters[kind][e.slot()] == 0 {
		return nil
	}
	if o := c.banks[e.bank].find(e, kind); o != nil {
		return o
	}
	return c.held[kind].find(e, kind)
}

// wait lets a read finish with first.
func (c *controller) wait(first *entry, r waiting) {
	i := c.freeChain
	if i < 0 {
		i = int32(len(c.chain))
		c.chain = append(c.chain, waiting{})
	} else {
		c.freeChain = c.chain[i].next
	}
	c.chain[i] = r
	first.merged = i
}

// transfer moves one request into its bank's queue.
func (c *controller) transfer(t int64) bool {
	if c.stuck {
		return false
	}
	c.startDrain()
	drains := c.draining > 0 && !c.starves(needRead)
	if drains {
		moved, dependent := c.move(needWrite, false, t)
		if moved {
			c.draining--
			return true
		}
		// A write waits for a read of its burst; that read may itself wait for
		// the drain to end.
		if !dependent && !c.scheduler.readsPass {
			c.stuck = true
			return false
		}
	}
	moved, _ := c.move(needRead, drains && c.scheduler.readsPass, t)
	c.stuck = !moved
	return moved
}

// writeAge is how many times the bound on age a write may wait in the buffer, where it delays nobody, before the buffer drains. Our choice: a
// bank that opens a row for each request (74 clocks) fills the buffer with one write of eight in 19,000 clocks.
const writeAge = 4

// oldWrites returns how many writes drain since the oldest has waited for too long.
func (c *controller) oldWrites() int {
	switch w := &c.held[needWrite]; {
	case !c.scheduler.writesWait && c.starves(needWrite):
		return 1
	case c.scheduler.writesWait && c.now-w.entries[0].accepted > writeAge*c.ageBound:
		return len(w.entries)
	}
	return 0
}

// idles reports whether no request wants more than writes do: of a scheduler whose writes wait, while none is about to come.
func (c *controller) idles(writes int) bool {
	if len(c.held[needRead].entries) > 0 || c.queued > 0 || writes <= c.policy.DrainIdle {
		return false
	}
	return !c.scheduler.writesWait || writes > c.policy.BankQueue || c.next == len(c.requests) || c.requests[c.next].Clock*c.steps > c.now
}

// starves reports whether the oldest entry of a kind is too old.
func (c *controller) starves(kind need) bool {
	q := &c.held[kind]
	return len(q.entries) > 0 && c.old(&q.entries[0])
}

// startDrain decides how many writes move before reads move again.
func (c *controller) startDrain() {
	n := len(c.held[needWrite].entries)
	if c.draining > 0 || n == 0 {
		return
	}
	switch {
	case n >= c.policy.DrainHigh:
		c.draining = n - c.policy.DrainLow
	case len(c.held[needRead].entries) == 0 && c.next == len(c.requests), c.idles(n):
		c.draining = n
	default:
		c.draining = c.oldWrites()
	}
}

// move moves the first entry of a kind whose bank's queue has room. A write waits for a pending read of its burst: dependent
// says that one was passed over for it. Reads that pass a drain go to no bank whose writes share a row.
func (c *controller) move(kind need, passes bool, t int64) (moved, dependent bool) {
	if c.movable[kind] == 0 {
		return false, false
	}
	q := &c.held[kind]
	for c.banks[q.entries[q.from].bank].full() {
		q.from++
	}
	for i := q.from; i < len(q.entries); i++ {
		e := &q.entries[i]
		b := &c.banks[e.bank]
		if b.full() || passes && b.shares {
			continue
		}
		if kind == needWrite && c.pending(e, needRead) != nil {
			dependent = true
			continue
		}
		c.enqueue(b, e, t)
		q.remove(i)
		return true, false
	}
	return false, dependent
}

// enqueue appends e, which leaves the queue of its kind, to its bank's queue.
func (c *controller) enqueue(b *bankQueue, e *entry, t int64) {
	b.held[e.kind]--
	c.movable[e.kind]--
	b.push(e, c.rows[e.bank]).queued = t
	b.shares = b.shares || b.sharesRow(e)
	if b.full() {
		c.countMovable(b, -1)
	}
	c.queued++
	c.queuedInRank[c.places[e.bank].Rank]++
	if !b.indifferent(e, c.rows[e.bank]) {
		c.ready = min(c.ready, max(t+1, c.updateNeeds(int(e.bank))))
	}
}

// countMovable adds, or with -1 takes off, the entries that wait for a bank whose queue has room again, or has become full.
func (c *controller) countMovable(b *bankQueue, sign int) {
	for kind, n := range b.held {
		c.movable[kind] += sign * n
		c.held[kind].from = 0
	}
}
