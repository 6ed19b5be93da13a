package controller

import (
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// entry is one burst in a queue, a whole request or a part of one.
type entry struct {
	accepted int64 // step of acceptance, unique since one burst is accepted a step
	queued   int64 // step at which it entered its bank's queue
	arrived  int64
	row      int32
	column   int32
	merged   int32  // number (in merged reads) of the first read that waits for the same burst, or -1
	bank     int32  // over all ranks
	id       int32  // with ECC, the number of a read, or of the fetch of a burst of check bits; see checkBits
	request  int32  // number of its open request, -1 if the request has no other burst
	parts    uint32 // parts of the burst that it accesses, see burstSplitter
	kind     need   // needRead or needWrite
	check    bool   // a burst of check bits
	partial  bool   // a write of a part of its burst
	read     bool   // a partial write whose burst is being read
}

// kinds is the number of kinds of entries: needRead and needWrite, which are indices.
const kinds = 2

// filterSlots is the size of a filter, a power of two.
const filterSlots = 4096

// filter counts pending entries by a hash of their burst. A count of 0 means that the burst is not pending, and no queue is searched; this
// takes a third off the time of a replay.
type filter [filterSlots]uint16

// slot hashes bank, row and column to an index in the filter (12 bits, Fibonacci hashing).
func (e *entry) slot() uint64 {
	key := uint64(uint32(e.row))<<32 | uint64(uint32(e.bank))<<20 ^ uint64(uint32(e.column))
	return key * 0x9E3779B97F4A7C15 >> 52
}

// entryQueue holds requests in the order of their acceptance. It is a window that slides through twice its size, so that the oldest can
// leave without moving the others.
type entryQueue struct {
	entries  []entry
	space    []entry
	capacity int
	from     int // the banks of all entries before it have full queues
}

func newEntryQueue(capacity int) entryQueue {
	space := make([]entry, 2*capacity)
	return entryQueue{entries: space[:0], space: space, capacity: capacity}
}

func (q *entryQueue) full() bool { return len(q.entries) == q.capacity }

// push appends e and returns its address. The caller changes it in place: changing e before the copy stalls the processor.
func (q *entryQueue) push(e *entry) *entry {
	if len(q.entries) == cap(q.entries) {
		q.entries = q.space[:copy(q.space, q.entries)]
	}
	q.entries = append(q.entries, *e)
	return &q.entries[len(q.entries)-1]
}

// remove removes entry i and keeps the order of the others.
func (q *entryQueue) remove(i int) {
	if i > 0 {
		copy(q.entries[1:i+1], q.entries[:i])
	}
	q.entries = q.entries[1:]
}

// find returns the pending entry of a kind for e's burst, or nil.
func (q *entryQueue) find(e *entry, kind need) *entry {
	for i := range q.entries {
		if o := &q.entries[i]; o.kind == kind && o.bank == e.bank && o.row == e.row && o.column == e.column {
			return o
		}
	}
	return nil
}

// bankQueue is the command queue of one bank. Sets of its entries are bit masks, oldest first.
type bankQueue struct {
	entryQueue
	of     [kinds]uint64 // the reads and the writes
	hits   uint64        // entries that want the open row; undefined while the bank is closed
	held   [kinds]int    // entries for this bank in the read queue and in the write buffer
	first  [kinds]int32  // indices of the first read and write that hit the open row or, in a closed bank, may open theirs; or -1
	served int32         // column accesses since the row was opened
	needs  uint8         // the bank's needs, as bits
	shares bool          // two writes want one row
}

// push appends e to the queue of a bank whose open row is row, or -1.
func (b *bankQueue) push(e *entry, row int32) *entry {
	bit := uint64(1) << len(b.entries)
	b.of[e.kind] |= bit
	if e.row == row {
		b.hits |= bit
	}
	return b.entryQueue.push(e)
}

// remove removes entry i and keeps the order of the others.
func (b *bankQueue) remove(i int) {
	before := uint64(1)<<i - 1
	squeeze := func(set uint64) uint64 { return set&before | set>>1&^before }
	b.of[needRead], b.of[needWrite], b.hits = squeeze(b.of[needRead]), squeeze(b.of[needWrite]), squeeze(b.hits)
	b.entryQueue.remove(i)
}

// opened records that the bank has opened row.
func (b *bankQueue) opened(row int32) { b.served, b.hits = 0, b.wanting(row) }

// wanting returns the entries that want row.
func (b *bankQueue) wanting(row int32) (set uint64) {
	for i := range b.entries {
		if b.entries[i].row == row {
			set |= 1 << i
		}
	}
	return set
}

// findFirst sets b.first to the first read and the first write among set.
func (b *bankQueue) findFirst(set uint64) {
	for kind := range b.first {
		b.first[kind] = -1
		if of := set & b.of[kind]; of != 0 {
			b.first[kind] = int32(bits.TrailingZeros64(of))
		}
	}
}

// sharesRow reports whether e is a write and another of the bank wants its row.
func (b *bankQueue) sharesRow(e *entry) bool {
	return e.kind == needWrite && several(b.wanting(e.row)&b.of[needWrite])
}

// writesShare reports whether two writes want one row.
func (b *bankQueue) writesShare() bool {
	return slices.ContainsFunc(b.entries, func(e entry) bool { return b.sharesRow(&e) })
}

// several reports whether a set has more than one member.
func several(set uint64) bool { return set&(set-1) != 0 }

// indifferent reports whether e, the last entry, leaves the bank's needs unchanged: another entry of its kind goes first and, in a closed
// bank, e wants another row than the first entry.
func (b *bankQueue) indifferent(e *entry, row int32) bool {
	if len(b.entries) == 1 || row < 0 && e.row == b.entries[0].row {
		return false
	}
	return row >= 0 && e.row != row || b.first[e.kind] >= 0
}

// mergedRead is a read merged into a pending one.
type mergedRead struct {
	accepted, arrived int64
	fetch, next       int32 // the fetch of check bits that it waits for, and the next read of the same burst, or -1
	request           int32 // see entry
}

// merge makes a read finish together with first.
func (f *front) merge(first *entry, r mergedRead) {
	r.next = first.merged
	first.merged = f.merged.add(r)
}

// eachMerged calls of for the reads merged into one, beginning with first, and removes them.
func (f *front) eachMerged(first int32, of func(*mergedRead)) {
	for i := first; i >= 0; {
		r := f.merged.remove(i)
		of(&r)
		i = r.next
	}
}

// queues are the command queues of all banks.
type queues struct {
	banks   []bankQueue
	full    []bool // by bank: its queue has no room
	entries int    // in all queues
	inRank  []int  // entries by rank
}

// newQueues returns empty queues.
func newQueues(spec *dram.Spec, policy *Policy, ranks int) queues {
	q := queues{banks: make([]bankQueue, ranks*spec.Banks()), full: make([]bool, ranks*spec.Banks()), inRank: make([]int, ranks)}
	for i := range q.banks {
		q.banks[i] = bankQueue{entryQueue: newEntryQueue(policy.BankQueue), first: [kinds]int32{-1, -1}}
	}
	return q
}
