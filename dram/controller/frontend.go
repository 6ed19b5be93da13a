package controller

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller/mapping"
)

// front is the entry of requests: the read queue and the write buffer, in which they wait for room in their bank's queue.
type front struct {
	channel *channel
	queues  *queues
	sched   *sched
	policy  *Policy
	stats   *Stats

	splitter burstSplitter
	requests []Request
	next     int    // index of the request whose bursts are being accepted
	left     int    // its bursts left to accept, 0 before the first is decoded
	at       uint64 // address of its next burst
	head     entry  // the burst at this address, once decoded
	decoded  bool
	open     list[openRequest] // requests of several bursts, by number

	held     [kinds]entryQueue // the read queue and the write buffer
	movable  [kinds]int        // their entries whose bank's queue has room
	filters  [kinds]filter     // of the entries here and in the banks' queues
	merged   list[mergedRead]  // in linked lists, by number
	draining int               // writes still to move before reads move again
	stalled  bool              // no entry can move until a queue changes
}

// newFront returns empty queues. A request without its own size is one burst, unless the splitter differs.
func newFront(channel *channel, queues *queues, sched *sched, policy *Policy, to *mapping.Mapping, stats *Stats) front {
	return front{splitter: newSplitter(channel.spec, to, 1, uint64(channel.spec.BurstBytes())), channel: channel, queues: queues, sched: sched, policy: policy, stats: stats, held: [kinds]entryQueue{newEntryQueue(policy.ReadQueue), newEntryQueue(policy.WriteBuffer)}}
}

// accept accepts the next burst of the next request, if it has arrived and its queue has room. A burst accepted at clock t can move on from
// t+1.
func (c *controller) accept(t int64) bool {
	if c.front.next == len(c.front.requests) || c.front.requests[c.front.next].Clock*c.channel.steps > t {
		return false
	}
	c.front.decode()
	e, arrived := &c.front.head, c.front.requests[c.front.next].Clock*c.channel.steps
	if c.front.held[e.kind].full() {
		return false
	}
	c.front.take(t)
	// The write buffer may hold the burst: a read covered by it takes its data from there, and a write replaces or completes it.
	written := c.front.pending(e, needWrite)
	switch {
	case written != nil && e.kind == needWrite:
		written.parts |= e.parts
		c.stats.MergedWrites++
		if e.request >= 0 {
			c.burstEnds(e.request, -1)
		}
		return true
	case written != nil && e.parts&^written.parts == 0:
		c.stats.ForwardedReads++
		c.readEnds(e.request, t, arrived, t+c.channel.steps)
		return true
	case e.kind == needRead:
		if first := c.front.pending(e, needRead); first != nil {
			c.stats.MergedReads++
			c.front.merge(first, mergedRead{accepted: t, arrived: arrived, fetch: -1, request: e.request})
			return true
		}
	}
	c.front.hold(e, t, arrived, -1)
	return true
}

// take records that the head is accepted, and moves on to the next burst.
func (f *front) take(t int64) {
	if e := &f.head; e.request >= 0 {
		if o := &f.open.of[e.request]; o.accepted < 0 {
			o.accepted = t
		}
	}
	f.decoded, f.stalled = false, false
	if f.left--; f.left > 0 {
		f.at = f.splitter.next(f.at)
	} else {
		f.next++
	}
}

// begin splits the next request.
func (f *front) begin(r *Request) {
	first, bursts, parts := f.splitter.split(r)
	f.at, f.left = first, bursts
	if r.shared > 0 {
		f.at, f.left = f.splitter.own(first, bursts)
	}
	e := &f.head
	e.parts, e.partial, e.request = parts, r.Partial || parts != allParts, -1
	wrapped := r.Address >= f.splitter.mapping.Capacity()
	if bursts > 1 {
		e.request = f.open.add(openRequest{accepted: -1, arrived: r.Clock * f.channel.steps, end: -1, left: f.left, shared: r.shared, write: r.Write, wrapped: wrapped})
	}
	if r.shared > 0 {
		return // counted by addShared
	}
	f.stats.Requests++
	if wrapped {
		f.stats.WrappedAddresses++
	}
}

// decode sets head to the next burst of the next request.
func (f *front) decode() {
	if f.decoded {
		return
	}
	r, e := &f.requests[f.next], &f.head
	if f.left == 0 {
		f.begin(r)
	}
	var a dram.Address
	f.splitter.mapping.Decode(f.at, &a)
	e.row, e.column, e.merged, e.kind, e.read = a.Row, a.Column, -1, needRead, false
	if r.Write {
		e.kind = needWrite
	}
	e.bank = (a.Rank*int32(f.channel.spec.BankGroups)+a.BankGroup)*int32(f.channel.spec.BanksPerGroup) + a.Bank
	f.decoded = true
}

// hold puts e into its queue.
func (f *front) hold(e *entry, accepted, arrived int64, id int32) {
	f.filters[e.kind][e.slot()]++
	b := &f.queues.banks[e.bank]
	if b.held[e.kind]++; !b.full() {
		f.movable[e.kind]++
	}
	held := f.held[e.kind].push(e)
	held.accepted, held.arrived, held.id = accepted, arrived, id
}

// pending returns the pending entry of a kind for e's burst, or nil.
func (f *front) pending(e *entry, kind need) *entry {
	if f.filters[kind][e.slot()] == 0 {
		return nil
	}
	if o := f.queues.banks[e.bank].find(e, kind); o != nil {
		return o
	}
	return f.held[kind].find(e, kind)
}

// transfer moves one request into its bank's queue.
func (f *front) transfer(t int64) bool {
	if f.stalled {
		return false
	}
	f.startDrain()
	drains := f.draining > 0 && !f.starves(needRead)
	if drains {
		moved, dependent := f.move(needWrite, false, t)
		if moved {
			f.draining--
			return true
		}
		// A write waits for a read of its burst, and that read may itself wait for the drain to end.
		if !dependent && !f.sched.scheduler.readsPass {
			f.stalled = true
			return false
		}
	}
	moved, _ := f.move(needRead, drains && f.sched.scheduler.readsPass, t)
	f.stalled = !moved
	return moved
}

// writeAge times the age bound is how long a write may wait in the buffer, where it delays nobody, before the buffer drains. Our choice: a
// bank that opens a row for each request (74 clocks), with one write in eight, fills the buffer in 19,000 clocks.
const writeAge = 4

// oldWrites returns the number of writes to drain because the oldest has waited too long.
func (f *front) oldWrites() int {
	switch w := &f.held[needWrite]; {
	case !f.sched.scheduler.writesWait && f.starves(needWrite):
		return 1
	case f.sched.scheduler.writesWait && f.sched.now-w.entries[0].accepted > writeAge*f.sched.limits.ageBound:
		return len(w.entries)
	}
	return 0
}

// idles reports whether the given number of writes may drain because there is no other work: no read is held, no command is queued, and
// there are more than DrainIdle writes. If the scheduler lets writes wait, it also requires that no request has arrived, or that the writes
// exceed a bank's queue.
func (f *front) idles(writes int) bool {
	if len(f.held[needRead].entries) > 0 || f.queues.entries > 0 || writes <= f.policy.DrainIdle {
		return false
	}
	return !f.sched.scheduler.writesWait || writes > f.policy.BankQueue || f.next == len(f.requests) || f.requests[f.next].Clock*f.channel.steps > f.sched.now
}

// starves reports whether the oldest entry of a kind is too old.
func (f *front) starves(kind need) bool {
	q := &f.held[kind]
	return len(q.entries) > 0 && f.sched.old(&q.entries[0])
}

// startDrain decides how many writes move before reads move again.
func (f *front) startDrain() {
	n := len(f.held[needWrite].entries)
	if f.draining > 0 || n == 0 {
		return
	}
	switch {
	case n >= f.policy.DrainHigh:
		f.draining = n - f.policy.DrainLow
	case len(f.held[needRead].entries) == 0 && f.next == len(f.requests), f.idles(n):
		f.draining = n
	default:
		f.draining = f.oldWrites()
	}
}

// move moves the first entry of a kind whose bank's queue has room. A write waits for a pending read of its burst; dependent reports that a
// write was skipped for such a read. Reads that pass a drain do not enter banks whose writes share a row.
func (f *front) move(kind need, passes bool, t int64) (moved, dependent bool) {
	if f.movable[kind] == 0 {
		return false, false
	}
	q := &f.held[kind]
	for f.queues.full[q.entries[q.from].bank] {
		q.from++
	}
	for i := q.from; i < len(q.entries); i++ {
		e := &q.entries[i]
		b := &f.queues.banks[e.bank]
		if f.queues.full[e.bank] || passes && b.shares {
			continue
		}
		if kind == needWrite && f.pending(e, needRead) != nil {
			dependent = true
			continue
		}
		f.enqueue(b, e, t)
		q.remove(i)
		return true, false
	}
	return false, dependent
}

// enqueue moves e from the queue of its kind to its bank's queue.
func (f *front) enqueue(b *bankQueue, e *entry, t int64) {
	b.held[e.kind]--
	f.movable[e.kind]--
	b.push(e, f.channel.rows[e.bank]).queued = t
	b.shares = b.shares || b.sharesRow(e)
	if b.full() {
		f.queues.full[e.bank] = true
		f.countMovable(b, -1)
	}
	f.queues.entries++
	f.queues.inRank[f.channel.places[e.bank].Rank]++
	if !b.indifferent(e, f.channel.rows[e.bank]) {
		f.sched.next = min(f.sched.next, max(t+1, f.sched.updateNeeds(int(e.bank))))
	}
}

// countMovable adds (sign 1) or subtracts (sign -1) the entries that wait for a bank whose queue has got room or has become full.
func (f *front) countMovable(b *bankQueue, sign int) {
	for kind, n := range b.held {
		f.movable[kind] += sign * n
		f.held[kind].from = 0
	}
}
