package controller

import "github.com/l3sim/l3sim/dram"

// front is where requests come in: the read queue and the write buffer, in which they wait for room in their bank's queue.
type front struct {
	mapping  *Mapping
	requests []Request
	next     int   // request to accept next
	head     entry // requests[next] if decoded
	decoded  bool

	held     [kinds]entryQueue // the read queue and the write buffer
	movable  [kinds]int        // entries of these whose bank's queue has room
	filters  [kinds]filter     // of the entries here and in the banks' queues
	merged   mergedReads
	draining int  // writes still to move before reads move again
	stalled  bool // no entry can move until a queue changes
}

// newFront returns empty queues.
func newFront(spec *dram.Spec, policy *Policy, mapping *Mapping) front {
	return front{mapping: mapping, held: [kinds]entryQueue{newEntryQueue(policy.ReadQueue), newEntryQueue(policy.WriteBuffer)}, merged: mergedReads{free: -1}}
}

// empty reports whether all requests have gone on to the queues of their banks.
func (f *front) empty() bool {
	return f.next == len(f.requests) && len(f.held[needRead].entries)+len(f.held[needWrite].entries) == 0
}

// arrived reports whether the next request has come until t.
func (c *controller) arrived(t int64) bool {
	return c.arrival(t) == forever && c.front.next < len(c.front.requests)
}

// accept takes the next request, if it has come and its queue has room. A
// request that is accepted at clock t can move on from t+1 on.
func (c *controller) accept(t int64) bool {
	if c.front.next == len(c.front.requests) || c.front.requests[c.front.next].Clock*c.channel.steps > t {
		return false
	}
	c.decode()
	e, arrived := &c.front.head, c.front.requests[c.front.next].Clock*c.channel.steps
	if c.front.held[e.kind].full() {
		return false
	}
	c.front.decoded = false
	c.front.next++
	c.stats.Requests++
	c.front.stalled = false
	// The write buffer may hold the burst: a read takes its data from there, a write replaces it.
	switch written := c.pending(e, needWrite) != nil; {
	case written && e.kind == needWrite:
		c.stats.MergedWrites++
		return true
	case written:
		c.stats.ForwardedReads++
		c.readEnds(t, arrived, t+c.channel.steps)
		return true
	case e.kind == needRead:
		if first := c.pending(e, needRead); first != nil {
			c.stats.MergedReads++
			c.front.merged.merge(first, mergedRead{accepted: t, arrived: arrived, fetch: -1})
			return true
		}
	}
	c.hold(e, t, arrived, -1)
	return true
}

// decode sets head to the next request.
func (c *controller) decode() {
	if c.front.decoded {
		return
	}
	r := &c.front.requests[c.front.next]
	var a dram.Address
	if _, wrapped := c.front.mapping.decode(r.Address, &a); wrapped {
		c.stats.WrappedAddresses++
	}
	e := &c.front.head
	e.row, e.column, e.merged, e.kind, e.read = a.Row, a.Column, -1, needRead, false
	if r.Write {
		e.kind = needWrite
	}
	e.bank = (a.Rank*int32(c.channel.spec.BankGroups)+a.BankGroup)*int32(c.channel.spec.BanksPerGroup) + a.Bank
	c.front.decoded = true
}

// hold puts e into its queue.
func (c *controller) hold(e *entry, accepted, arrived int64, id int32) {
	c.front.filters[e.kind][e.slot()]++
	b := &c.queues.banks[e.bank]
	if b.held[e.kind]++; !b.full() {
		c.front.movable[e.kind]++
	}
	held := c.front.held[e.kind].push(e)
	held.accepted, held.arrived, held.id = accepted, arrived, id
}

// pending returns the pending entry of a kind for e's burst, or nil.
func (c *controller) pending(e *entry, kind need) *entry {
	if c.front.filters[kind][e.slot()] == 0 {
		return nil
	}
	if o := c.queues.banks[e.bank].find(e, kind); o != nil {
		return o
	}
	return c.front.held[kind].find(e, kind)
}

// transfer moves one request into its bank's queue.
func (c *controller) transfer(t int64) bool {
	if c.front.stalled {
		return false
	}
	c.startDrain()
	drains := c.front.draining > 0 && !c.starves(needRead)
	if drains {
		moved, dependent := c.move(needWrite, false, t)
		if moved {
			c.front.draining--
			return true
		}
		// A write waits for a read of its burst; that read may itself wait for
		// the drain to end.
		if !dependent && !c.scheduler.readsPass {
			c.front.stalled = true
			return false
		}
	}
	moved, _ := c.move(needRead, drains && c.scheduler.readsPass, t)
	c.front.stalled = !moved
	return moved
}

// writeAge is how many times the bound on age a write may wait in the buffer, where it delays nobody, before the buffer drains. Our choice: a
// bank that opens a row for each request (74 clocks) fills the buffer with one write of eight in 19,000 clocks.
const writeAge = 4

// oldWrites returns how many writes drain since the oldest has waited for too long.
func (c *controller) oldWrites() int {
	switch w := &c.front.held[needWrite]; {
	case !c.scheduler.writesWait && c.starves(needWrite):
		return 1
	case c.scheduler.writesWait && c.now-w.entries[0].accepted > writeAge*c.sched.limits.ageBound:
		return len(w.entries)
	}
	return 0
}

// idles reports whether no request wants more than writes do: of a scheduler whose writes wait, while none is about to come.
func (c *controller) idles(writes int) bool {
	if len(c.front.held[needRead].entries) > 0 || c.queues.entries > 0 || writes <= c.policy.DrainIdle {
		return false
	}
	return !c.scheduler.writesWait || writes > c.policy.BankQueue || c.front.next == len(c.front.requests) || c.front.requests[c.front.next].Clock*c.channel.steps > c.now
}

// starves reports whether the oldest entry of a kind is too old.
func (c *controller) starves(kind need) bool {
	q := &c.front.held[kind]
	return len(q.entries) > 0 && c.old(&q.entries[0])
}

// startDrain decides how many writes move before reads move again.
func (c *controller) startDrain() {
	n := len(c.front.held[needWrite].entries)
	if c.front.draining > 0 || n == 0 {
		return
	}
	switch {
	case n >= c.policy.DrainHigh:
		c.front.draining = n - c.policy.DrainLow
	case len(c.front.held[needRead].entries) == 0 && c.front.next == len(c.front.requests), c.idles(n):
		c.front.draining = n
	default:
		c.front.draining = c.oldWrites()
	}
}

// move moves the first entry of a kind whose bank's queue has room. A write waits for a pending read of its burst: dependent
// says that one was passed over for it. Reads that pass a drain go to no bank whose writes share a row.
func (c *controller) move(kind need, passes bool, t int64) (moved, dependent bool) {
	if c.front.movable[kind] == 0 {
		return false, false
	}
	q := &c.front.held[kind]
	for c.queues.banks[q.entries[q.from].bank].full() {
		q.from++
	}
	for i := q.from; i < len(q.entries); i++ {
		e := &q.entries[i]
		b := &c.queues.banks[e.bank]
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
	c.front.movable[e.kind]--
	b.push(e, c.channel.rows[e.bank]).queued = t
	b.shares = b.shares || b.sharesRow(e)
	if b.full() {
		c.countMovable(b, -1)
	}
	c.queues.entries++
	c.queues.inRank[c.channel.places[e.bank].Rank]++
	if !b.indifferent(e, c.channel.rows[e.bank]) {
		c.sched.next = min(c.sched.next, max(t+1, c.updateNeeds(int(e.bank))))
	}
}

// countMovable adds, or with -1 takes off, the entries that wait for a bank whose queue has room again, or has become full.
func (c *controller) countMovable(b *bankQueue, sign int) {
	for kind, n := range b.held {
		c.front.movable[kind] += sign * n
		c.front.held[kind].from = 0
	}
}
