package controller

import "github.com/l3sim/l3sim/dram"

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
	arrived := r.Clock * c.steps
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
			c.readEnds(t, arrived, t+c.steps)
			c.endStep = max(c.endStep, t+c.steps)
		}
	case e.write:
		c.pendingWrites[slot]++
		c.hold(e, q, ofWrites, t, arrived, -1)
	default:
		if c.pendingReads[slot] > 0 {
			if first := c.findPending(e, false); first != nil {
				c.stats.MergedReads++
				c.wait(first, waiting{t, arrived, -1, first.merged})
				return true
			}
		}
		c.pendingReads[slot]++
		c.hold(e, q, ofReads, t, arrived, -1)
	}
	return true
}

// decode sets head to r.
func (c *controller) decode(r *Request) {
	var a dram.Address
	if _, wrapped := c.mapping.decode(r.Address, &a); wrapped {
		c.stats.WrappedAddresses++
	}
	bank := (a.Rank*int32(c.spec.BankGroups)+a.BankGroup)*int32(c.spec.BanksPerGroup) + a.Bank
	e := &c.head
	e.row, e.column, e.merged, e.bank, e.write, e.read = a.Row, a.Column, -1, bank, r.Write, false
	c.decoded = true
}

// hold puts e into its queue.
func (c *controller) hold(e *entry, q *entryQueue, kind int, accepted, arrived int64, id int32) {
	r := &c.rooms[e.bank]
	r.waiting[kind]++
	if !r.full {
		c.movable[kind]++
	}
	held := q.push(e)
	held.accepted, held.arrived, held.id = accepted, arrived, id
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
	if c.draining > 0 && !c.starves(&c.reads) {
		moved, dependent := c.moveWrite(t)
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
	moved := c.moveRead(t, c.draining > 0 && c.scheduler.readsPass && !c.starves(&c.reads))
	c.stuck = !moved
	return moved
}

// writeAge is how many times the bound on age a write may wait in the buffer, where it delays nobody, before the buffer drains. Our choice: a
// bank that opens a row for each request (74 clocks) fills the buffer with one write of eight in 19,000 clocks.
const writeAge = 4

// oldWrites returns how many writes drain since the oldest has waited for too long.
func (c *controller) oldWrites() int {
	switch w := &c.writes; {
	case !c.scheduler.writesWait && c.starves(w):
		return 1
	case c.scheduler.writesWait && c.now-w.entries[0].accepted > writeAge*c.ageBound:
		return len(w.entries)
	}
	return 0
}

// idles reports whether no request wants more than writes do: of a scheduler whose writes wait, while none is about to come.
func (c *controller) idles(writes int) bool {
	if len(c.reads.entries) > 0 || c.queued > 0 || writes <= c.policy.DrainIdle {
		return false
	}
	return !c.scheduler.writesWait || writes > c.policy.BankQueue || c.next == len(c.requests) || c.requests[c.next].Clock*c.steps > c.now
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
	switch {
	case n >= c.policy.DrainHigh:
		c.draining = n - c.policy.DrainLow
	case len(c.reads.entries) == 0 && c.next == len(c.requests), c.idles(n):
		c.draining = n
	default:
		c.draining = c.oldWrites()
	}
}

// moveWrite moves the first write whose bank queue has room and whose burst no
// pending read wants; dependent says that some write was passed over for its
// read.
func (c *controller) moveWrite(t int64) (moved, dependent bool) {
	if c.movable[ofWrites] == 0 {
		return false, false
	}
	c.passFull(&c.writes)
	for i := c.writes.from; i < len(c.writes.entries); i++ {
		e := &c.writes.entries[i]
		if c.rooms[e.bank].full {
			continue
		}
		if c.pendingReads[e.slot()] > 0 && c.findPending(e, false) != nil {
			dependent = true
			continue
		}
		c.enqueue(e, ofWrites, t)
		c.writes.remove(i)
		return true, false
	}
	return false, dependent
}

// moveRead moves the first read whose bank queue has room; one that passes a drain goes to no bank whose writes
// share a row.
func (c *controller) moveRead(t int64, passes bool) bool {
	if c.movable[ofReads] == 0 {
		return false
	}
	c.passFull(&c.reads)
	for i := c.reads.from; i < len(c.reads.entries); i++ {
		e := &c.reads.entries[i]
		if passes && (c.rooms[e.bank].full || c.banks[e.bank].shares) {
			continue
		}
		c.enqueue(e, ofReads, t)
		c.reads.remove(i)
		return true
	}
	return false
}

// passFull moves q.from to the first entry whose bank queue has room; there is one.
func (c *controller) passFull(q *entryQueue) {
	i, rooms := q.from, c.rooms
	for rooms[q.entries[i].bank].full {
		i++
	}
	q.from = i
}

// enqueue appends e, which leaves the queue of its kind, to its bank's queue.
func (c *controller) enqueue(e *entry, kind int, t int64) {
	b, r := &c.banks[e.bank], &c.rooms[e.bank]
	r.waiting[kind]--
	c.movable[kind]--
	b.push(e).queued = t
	b.shares = b.shares || e.write && b.hitsOf(e.row, true) > 1
	if b.full() {
		r.full = true
		c.movable[ofReads] -= r.waiting[ofReads]
		c.movable[ofWrites] -= r.waiting[ofWrites]
	}
	c.queued++
	c.queuedInRank[c.places[e.bank].Rank]++
	if !b.indifferent(e, c.rows[e.bank]) {
		c.ready = min(c.ready, max(t+1, c.updateNeeds(int(e.bank))))
	}
}

// unfill notes that the queue of a bank has room again.
func (c *controller) unfill(r *room) {
	r.full = false
	c.movable[ofReads] += r.waiting[ofReads]
	c.movable[ofWrites] += r.waiting[ofWrites]
	c.reads.from, c.writes.from = 0, 0
}
