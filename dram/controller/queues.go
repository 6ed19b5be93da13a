package controller

// entry is one request in a queue.
type entry struct {
	accepted int64 // step of acceptance, unique: one request a step
	queued   int64 // step at which it came into its bank's queue
	arrived  int64
	row      int32
	column   int32
	merged   int32 // first read that waits for the same burst, index in controller.chain, or -1
	bank     int32 // over all ranks
	id       int32 // with ECC the number of a read, or of the fetch that a burst of check bits is, see checkBits
	kind     need  // needRead or needWrite
	check    bool  // a burst of check bits
	read     bool  // a partial write whose burst is being read
}

// kinds is how many kinds of entries there are. They are indices: needRead and needWrite.
const kinds = 2

// filterSlots is the size of a filter, a power of two.
const filterSlots = 4096

// filter counts the pending entries by a hash of their burst. At 0 the burst is not
// pending, and no queue is searched: replays take two thirds of the time.
type filter [filterSlots]uint16

// slot hashes bank, row and column to a place in the filter of addresses (12 bits, Fibonacci hashing).
func (e *entry) slot() uint64 {
	key := uint64(uint32(e.row))<<32 | uint64(uint32(e.bank))<<20 ^ uint64(uint32(e.column))
	return key * 0x9E3779B97F4A7C15 >> 52
}

// entryQueue holds requests in the order of their acceptance, as a window that moves on in
// twice the space: the oldest goes out without moving the others.
type entryQueue struct {
	entries  []entry
	space    []entry
	capacity int
	from     int // banks of the entries before it have full queues
}

func newEntryQueue(capacity int) entryQueue {
	space := make([]entry, 2*capacity)
	return entryQueue{entries: space[:0], space: space, capacity: capacity}
}

func (q *entryQueue) full() bool { return len(q.entries) == q.capacity }

// push appends e and returns its place. What is about to change is changed there: copied just after, it stalls.
func (q *entryQueue) push(e *entry) *entry {
	if len(q.entries) == cap(q.entries) {
		q.entries = q.space[:copy(q.space, q.entries)]
	}
	q.entries = append(q.entries, *e)
	return &q.entries[len(q.entries)-1]
}

// remove takes entry i out and keeps the order of the others.
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

// bankQueue is the command queue of one bank.
type bankQueue struct {
	entryQueue
	held    [kinds]int   // entries that wait in front of it, in the read queue and in the write buffer
	first   [kinds]int32 // indices of the first read and write that hit the open row or, in a closed bank, may open theirs; or -1
	hits    int32        // column accesses since the row was opened
	waiting uint8        // the needs for which the bank waits, by bit
	shares  bool         // two writes want one row
}

// findFirst sets b.first to the first read and the first write, of those that want row if the bank has it open.
func (b *bankQueue) findFirst(row int32) {
	for i := range b.entries {
		if e := &b.entries[i]; (row < 0 || e.row == row) && b.first[e.kind&1] < 0 {
			b.first[e.kind&1] = int32(i)
		}
	}
}

// wanting returns how many entries want row.
func (b *bankQueue) wanting(row int32) int { return b.hitsOf(row, needRead) + b.hitsOf(row, needWrite) }

// hitsOf returns how many entries of a kind want row.
func (b *bankQueue) hitsOf(row int32, kind need) int {
	n := 0
	for i := range b.entries {
		if e := &b.entries[i]; e.row == row && e.kind == kind {
			n++
		}
	}
	return n
}

// writesShare reports whether two writes want one row.
func (b *bankQueue) writesShare() bool {
	for i := range b.entries {
		if e := &b.entries[i]; e.kind == needWrite && b.hitsOf(e.row, needWrite) > 1 {
			return true
		}
	}
	return false
}

// indifferent reports whether e, the last entry, changes nothing that the bank waits for: another entry of its
// kind goes first and, where no row is open, e wants another row than the first entry.
func (b *bankQueue) indifferent(e *entry, row int32) bool {
	if len(b.entries) == 1 || row < 0 && e.row == b.entries[0].row {
		return false
	}
	return row >= 0 && e.row != row || b.first[e.kind] >= 0
}

// waiting is a read that was merged into a pending one.
type waiting struct {
	accepted, arrived int64
	fetch, next       int32 // the fetch of check bits that waits, or -1
}
