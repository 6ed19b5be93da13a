package machine

import "slices"

// repeats skips repetitions of a run: chunks within a row, rows within a stage, segments of the score buffer within a head and, with a
// rank-level unit, columns within a visit of a group of banks.
//
// The future of a machine follows from its state, relative to the clock, and from the instructions that the program will generate. The
// program marks the points at which it is asked for the next block of instructions. If the state at a mark equals that at the mark before,
// each further block of the kind takes as long as the one between them. The program then jumps over all of them, and their clocks and
// counts are added. This builds a table 150 times faster (1.4 s became 9 ms).
type repeats struct {
	On      bool
	skipped int64 // clocks skipped so far
	marks   [4]mark
	scratch []int64
}

// Blocks that repeat, from innermost to outermost: columns of a visit with a rank-level unit, chunks of a row, rows, segments.
const (
	columnBlock = iota
	chunkBlock
	rowBlock
	segmentBlock
)

// mark is the beginning of the latest block of a kind.
type mark struct {
	valid bool
	seen  int // blocks since the last restart of the sequence
	// skipComparisons is the number of first blocks whose states are not compared, since a comparison costs as much as a block. It is three
	// less than the number that the latest repeat needed.
	skipComparisons int
	state           []int64 // of the machine, see appendState
	clock           int64   // with skipped clocks
	counters        counters
}

// reset clears all marks for the next head.
func (r *repeats) reset() {
	r.skipped = 0
	r.unmark(columnBlock, chunkBlock, rowBlock, segmentBlock)
}

// unmark restarts the sequences of blocks of these kinds.
func (r *repeats) unmark(kinds ...int) {
	for _, k := range kinds {
		r.marks[k].begin()
	}
}

// begin restarts a sequence of blocks. If it was too short for any comparison, skipComparisons is halved.
func (b *mark) begin() {
	if b.seen > 0 && b.seen <= b.skipComparisons {
		b.skipComparisons /= 2
	}
	b.valid, b.seen = false, 0
}

// skip moves the program past repetitions, if it is at a mark and the run repeats.
func (m *Machine) skip() {
	p, r, g := m.program, &m.Repeats, &m.program.Geometry
	if p.head < len(p.Heads) && p.Heads[p.head].List != nil {
		return // extents may have any length
	}
	if p.stage != stageScore && p.stage != stageRescore && p.stage != stageContext {
		r.unmark(columnBlock, chunkBlock, rowBlock)
		if p.stage != stageReadOut || p.token >= p.Heads[p.head].Context { // and no segment follows
			r.unmark(segmentBlock)
		}
		return
	}
	if p.streamed > 0 {
		p.streamed += m.skipBlocks(columnBlock, p.columns-1-p.streamed)
		return
	}
	r.unmark(columnBlock)
	switch {
	case p.token%g.ChunkTokens != 0 || p.group != 0 || p.pass != 0:
		return
	case p.token == p.segment*p.SegmentTokens:
		r.unmark(chunkBlock, rowBlock)
		if p.stage == stageContext { // the only point in a segment at which every program asks for more
			m.skipSegments()
		}
		return
	case p.token%g.RowTokens == 0:
		r.unmark(chunkBlock) // the next chunk is in another row
		p.jump(m.skipBlocks(rowBlock, (p.limit-1-p.token)/g.RowTokens) * g.RowTokens)
		return
	case !p.RankLevel && p.token%p.VisitTokens == 0: // the banks close and open again before this chunk
		r.unmark(chunkBlock)
		return
	}
	rowEnd, size := p.token-p.token%p.VisitTokens+p.VisitTokens, g.ChunkTokens
	if p.RankLevel { // it reads whole visits
		rowEnd, size = p.token-p.token%g.RowTokens+g.RowTokens, p.VisitTokens
	}
	if n := p.Shape.KeyGroup; n > 0 && p.stage != stageContext {
		if p.token%n == 0 { // q is loaded again before this chunk
			r.unmark(chunkBlock)
			return
		}
		rowEnd = min(rowEnd, p.token-p.token%n+n)
	}
	p.jump(m.skipBlocks(chunkBlock, (min(rowEnd, p.limit)-1-p.token)/size) * size)
}

// skipSegments moves the program past segments, if the run repeats from the context of one to that of a later one. It skips only whole
// segments, and the program must be at the context of a whole one. With Refetch the first context follows the scores of all tokens: q then
// has the last group's scales, and is loaded again if later segments may have them.
func (m *Machine) skipSegments() {
	p := m.program
	if p.Rescore && p.segment == 0 && p.Shape.KeyGroup > 0 {
		return
	}
	if block := p.segmentBlock(); p.token%block == 0 {
		most := (p.Heads[p.head].Context - p.SegmentTokens - p.token) / block
		p.jumpSegments(m.skipBlocks(segmentBlock, most), block)
	}
}

// skipBlocks marks the beginning of a block of a kind. It returns the number of blocks to skip: most, if they repeat the previous block, or
// none.
func (m *Machine) skipBlocks(kind, most int) int {
	r := &m.Repeats
	b := &r.marks[kind]
	if most < 2 { // not worth a comparison
		b.begin()
		return 0
	}
	if b.seen++; b.seen <= b.skipComparisons {
		return 0
	}
	m.open.add(&m.Counters, m.now+r.skipped)
	state, span := m.appendState(r.scratch[:0]), m.now+r.skipped-b.clock
	r.scratch, b.state = b.state, state
	if !b.valid || !slices.Equal(state, r.scratch) {
		b.valid, b.clock, b.counters = true, m.now+r.skipped, m.Counters
		return 0
	}
	b.skipComparisons = max(b.seen-3, 0) // two comparisons before the one that finds a repeat, since it may appear earlier
	// Chunks that keep their scores in the score buffer take as long as those that do not, so the skip may cross the limit of the buffer.
	m.Counters.add(int64(most), &m.Counters, &b.counters)
	r.skipped += int64(most) * span
	m.open.since = m.now + r.skipped
	b.clock, b.counters = m.now+r.skipped, m.Counters
	return most
}

// appendState appends everything that determines when further instructions issue and how their clocks are counted, relative to the latest
// clock and to the issued instructions: the rank's timing state, waiting instructions, and the issue clocks of instructions for which later
// ones may wait.
func (m *Machine) appendState(dst []int64) []int64 {
	dst = m.state.AppendRelative(dst, m.now)
	switched := int64(0)
	if m.heads.switched {
		switched = 1
	}
	dst = append(dst, m.free-m.now, max(m.reading-m.now, 0), m.heads.lastRead-m.now, int64(m.heads.lastOp), switched)
	var recent [sequencers]int32 // latest instructions, for one of which another may still wait
	for s := range m.queues {
		for ; uint32(recent[s]) < m.issued[s] && recent[s] < history; recent[s]++ {
			clock := m.clocks[s][(m.issued[s]-1-uint32(recent[s]))&(history-1)] - m.now
			if clock+m.longest <= 0 {
				break
			}
			dst = append(dst, clock)
		}
		dst = append(dst, 1) // no clock is after the latest
	}
	// count appends a count of a sequencer's instructions; counts of instructions that issued long ago become equal.
	count := func(s Sequencer, n uint32) { dst = append(dst, int64(max(int32(n-m.issued[s]), -recent[s]))) }
	for s := range m.queues {
		q := &m.queues[s]
		dst = append(dst, int64(q.len()))
		for i := q.head; i < q.tail; i++ {
			in := &q.ring[i&(len(q.ring)-1)]
			what := int64(in.Command)<<32 | int64(in.Op)<<24 | int64(uint8(in.BankGroup))<<16 | int64(uint8(in.Bank))<<8
			if in.yield {
				what++
			}
			dst = append(dst, what)
			for o, n := range in.wait {
				if n == 0 {
					n = m.issued[o] - uint32(recent[o])
				}
				count(Sequencer(o), n)
			}
		}
	}
	m.program.eachWait(count)
	return dst
}
