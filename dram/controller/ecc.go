package controller

import (
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// checkBits is the state of ECC in one channel's controller, nil without ECC. A write of part of a burst first reads the burst, since its
// check bits cover all of it. In-line ECC also reads and writes bursts of check bits, which are in the row of their data. Each bank keeps
// its last burst of check bits, so that neighbouring accesses need no further one. Before it is changed it must be read, since eight or
// sixteen bursts of data share it. If it was changed, it is written back when the bank needs another.
//
// A read ends when both its data and its check bits have arrived. Bursts of check bits are ordinary requests: they enter the queues, one a
// clock, before the next request.
type checkBits struct {
	covers, first int32 // bursts of data that one of check bits covers, 0 for side-band; column of the first burst of check bits
	kept          []keptBits
	queue         []entry // to be accepted, oldest first
	fetches       list[fetch]
	reads         list[checkedRead]
}

// keptBits is the burst of check bits that a bank keeps.
type keptBits struct {
	row, column int32
	dirty       bool
	fetch       int32 // fetch that reads it; -1 once its read has issued, since later reads end later anyway
}

// fetch is a read of check bits that has not issued.
type fetch struct {
	bank    int32
	readers int32 // first of the reads that wait for it, or -1
}

// checkedRead is a read between acceptance and its end.
type checkedRead struct {
	accepted, arrived int64
	merged, request   int32 // see entry
	next              int32 // next read that waits for the same fetch
	left              int8  // number of its data and check-bit bursts that have not issued
	own               bool  // the read of a partial write: no requester waits for it
}

// list stores records by number and reuses free numbers.
type list[T any] struct {
	of   []T
	free []int32
}

// add stores a value and returns its number, valid until removed.
func (l *list[T]) add(v T) int32 {
	if n := len(l.free); n > 0 {
		i := l.free[n-1]
		l.free = l.free[:n-1]
		l.of[i] = v
		return i
	}
	l.of = append(l.of, v)
	return int32(len(l.of) - 1)
}

// remove frees a number and returns its value.
func (l *list[T]) remove(i int32) T {
	l.free = append(l.free, i)
	return l.of[i]
}

// newCheckBits returns room for the check bits that each bank keeps, or nil for a part without ECC.
func newCheckBits(spec *dram.Spec, banks int) *checkBits {
	if spec.ECC == dram.NoECC {
		return nil
	}
	k := &checkBits{covers: int32(spec.CheckCovers()), first: int32(spec.DataBursts()), kept: make([]keptBits, banks)}
	for i := range k.kept {
		k.kept[i] = keptBits{row: -1, fetch: -1}
	}
	return k
}

// use records an access to a burst of data and returns its bank's check bits, after requesting them if the bank did not have them.
func (k *checkBits) use(e *entry, write bool) *keptBits {
	b, column := &k.kept[e.bank], k.first+e.column/max(1, k.covers)
	if b.row != e.row || b.column != column {
		n := k.fetches.add(fetch{e.bank, -1})
		k.queue = append(k.queue, entry{row: e.row, column: column, merged: -1, bank: e.bank, id: n, request: -1, check: true})
		k.putBack(e.bank)
		*b = keptBits{row: e.row, column: column, fetch: n}
	}
	b.dirty = b.dirty || write
	return b
}

// putBack requests the write of a bank's check bits if they have changed.
func (k *checkBits) putBack(bank int32) {
	if b := &k.kept[bank]; b.dirty {
		b.dirty = false
		k.queue = append(k.queue, entry{row: b.row, column: b.column, merged: -1, bank: bank, id: -1, request: -1, kind: needWrite, check: true})
	}
}

// read records an accepted read of e's data and returns its number.
func (k *checkBits) read(e *entry, r checkedRead) int32 {
	r.merged, r.next, r.left = -1, -1, 1
	waits := int32(-1)
	if k.covers > 0 {
		if b := k.use(e, false); b.fetch >= 0 {
			waits, r.next, r.left = b.fetch, k.fetches.of[b.fetch].readers, 2
		}
	}
	n := k.reads.add(r)
	if waits >= 0 {
		k.fetches.of[waits].readers = n
	}
	return n
}

// acceptChecked is accept with ECC: bursts that ECC requests are accepted before the next request.
func (c *controller) acceptChecked(t int64) bool {
	k := c.check
	if c.front.next == len(c.front.requests) {
		for bank := range k.kept {
			k.putBack(int32(bank))
		}
	}
	if len(k.queue) > 0 {
		return c.acceptCheck(t)
	}
	if c.front.next < len(c.front.requests) && c.front.requests[c.front.next].Clock*c.channel.steps <= t && c.front.requests[c.front.next].Write {
		c.front.decode()
		if c.front.head.partial && c.readFirst(&c.front.head) {
			return c.acceptCheck(t)
		}
	}
	held := len(c.front.held[needRead].entries)
	if !c.accept(t) {
		return false
	}
	switch {
	case c.front.head.kind == needWrite && k.covers > 0:
		k.use(&c.front.head, true)
	case len(c.front.held[needRead].entries) > held: // neither merged nor forwarded
		e := &c.front.held[needRead].entries[held]
		e.id = k.read(e, checkedRead{accepted: e.accepted, arrived: e.arrived, request: e.request})
	}
	return true
}

// acceptCheck accepts the next burst that ECC requests, if its queue has room.
func (c *controller) acceptCheck(t int64) bool {
	k := c.check
	e := k.queue[0]
	if c.front.held[e.kind].full() {
		return false
	}
	k.queue = k.queue[:copy(k.queue, k.queue[1:])]
	c.front.stalled = false
	// Check a pending read first: a pending write of the burst waits for it.
	first := c.front.pending(&e, e.kind)
	switch {
	case first != nil && e.check && e.kind == needRead:
		c.front.merge(first, mergedRead{accepted: t, arrived: t, fetch: e.id, request: -1})
	case first != nil: // it is being read already, or the write is replaced
	case e.check && e.kind == needRead && c.front.pending(&e, needWrite) != nil:
		c.fetched(e.id, t+c.channel.steps)
	default:
		if !e.check {
			e.id = k.read(&e, checkedRead{accepted: t, arrived: t, own: true})
		}
		c.front.hold(&e, t, t, e.id)
	}
	return true
}

// readFirst requests the read of a partial write's burst, unless a pending write covers all of it. It reports whether it did.
func (c *controller) readFirst(e *entry) bool {
	if e.read || c.front.pending(e, needWrite) != nil {
		return false
	}
	e.read = true
	own := *e
	own.kind, own.id, own.request = needRead, -1, -1
	e.parts = allParts // the read supplies the parts that the write does not
	c.check.queue = append(c.check.queue, own)
	return true
}

// fetched records when the check bits of a fetch have arrived.
func (c *controller) fetched(n int32, end int64) {
	f := c.check.fetches.remove(n)
	if b := &c.check.kept[f.bank]; b.fetch == n {
		b.fetch = -1
	}
	for r := f.readers; r >= 0; {
		next := c.check.reads.of[r].next
		c.partEnds(r, end)
		r = next
	}
}

// partEnds records when the data or the check bits of a read have arrived, and ends the read with the part that issues last. That part also
// ends last, since both are in one bank. Check bits from a pending write are there at once, but they are requested before the read leaves
// its queue, and so before its data begin.
func (c *controller) partEnds(n int32, end int64) {
	r := &c.check.reads.of[n]
	if r.left--; r.left > 0 {
		return
	}
	done := c.check.reads.remove(n)
	c.endStep = max(c.endStep, end)
	if done.own {
		c.stats.ModifyReads++
	} else {
		c.readEnds(done.request, done.accepted, done.arrived, end)
	}
	c.front.eachMerged(done.merged, func(w *mergedRead) { c.readEnds(w.request, w.accepted, w.arrived, end) })
}

// idle reports whether no burst is left to accept and no changed check bits are left to write.
func (k *checkBits) idle() bool {
	return k == nil || len(k.queue) == 0 && !slices.ContainsFunc(k.kept, func(b keptBits) bool { return b.dirty })
}
