package pim

import (
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// periodDetector skips repetitions: chunks within a row and rows within a stage, and with a rank-level unit columns within
// a visit of a group of banks.
//
// The machine is deterministic and forgets: no constraint and no latency reaches further back than memory clocks. The
// program marks where it is asked for the next block of instructions. When successive blocks have issued at the same
// distances for at least that long, with the same instructions waiting, all further blocks of the kind will too. The program
// then jumps over them, and their clocks and counts are added. A table is built 150 times faster so (1.4 s became 9 ms).
type periodDetector struct {
	on      bool
	memory  int64 // clocks after which nothing remembers a command
	skipped int64 // clocks skipped so far

	first  int // the first of blocks that a program has
	blocks [3]block
}

// Blocks of periodDetector, each within the next: columns of a visit with a rank-level unit, chunks of a row, rows.
const (
	columnBlock = iota
	chunkBlock
	rowBlock
)

// block compares the commands between two marks with those between the previous two.
type block struct {
	hash, previous uint64
	span           int64 // clocks of the previous block, skipped ones included
	mark           int64 // clock of the mark, with skipped clocks
	counters       counters
	equal          int64 // clocks for which successive blocks have been equal
	marked         bool
}

func (d *periodDetector) init(spec *Spec, device *dram.Spec, steps int) {
	d.memory = 0
	for _, c := range device.Constraints() {
		if issues(c.Command) && issues(c.Next) {
			d.memory = max(d.memory, int64(c.Clocks))
		}
	}
	d.memory += int64(device.CL+device.CWL+2*device.BurstClocks()+spec.MACLatency+spec.SoftmaxLatency+steps*device.TCCDL) + 64
}

// issues says whether programs of heads have a command. None has REF, power-down or self-refresh: the manager's REFs come
// only into runs that skip nothing.
func issues(cmd dram.Command) bool {
	switch cmd {
	case dram.ACT, dram.ACTA, dram.PRE, dram.PREA, dram.RD, dram.WR, dram.MACA, dram.RDRES, dram.WRBUF:
		return true
	}
	return false
}

// reset forgets all repeats: the next head is another one.
func (d *periodDetector) reset(rankPU bool) {
	d.skipped, d.first, d.blocks = 0, chunkBlock, [3]block{}
	if rankPU {
		d.first = columnBlock
	}
}

// command enters an issued command.
func (d *periodDetector) command(op operation, clock int64) {
	for i := d.first; i < len(d.blocks); i++ {
		d.blocks[i].enter(uint64(op), clock+d.skipped)
	}
}

// unmark has blocks of these kinds begin anew at their next marks.
func (d *periodDetector) unmark(kinds ...int) {
	for _, k := range kinds {
		d.blocks[k].marked = false
	}
}

// enter mixes one command and its distance from the mark into the hash (the FNV-1a step on 64 bits).
func (b *block) enter(op uint64, clock int64) {
	b.hash = (b.hash ^ (uint64(clock-b.mark)<<8 | op)) * 0x100000001b3
}

// close ends a block at clock, in a machine whose waiting instructions are
// summed up by waiting, and reports whether it equals the one before.
func (b *block) close(clock int64, waiting uint64) bool {
	b.enter(waiting, clock)
	span := clock - b.mark
	same := b.marked && b.hash == b.previous && span == b.span
	if same {
		b.equal += span
	} else {
		b.equal = 0
	}
	b.previous, b.span, b.marked = b.hash, span, true
	b.open(clock)
	return same
}

// open starts a block at clock.
func (b *block) open(clock int64) { b.hash, b.mark = 0xcbf29ce484222325, clock }

// skip moves the program over repetitions, if it stands at a mark and the run repeats.
func (m *machine) skip() {
	p, d, g := m.program, &m.periodic, &m.program.geometry
	if p.head < len(p.heads) && p.heads[p.head].list != nil {
		return // extents of any lengths
	}
	if p.stage != stageScore && p.stage != stageRescore && p.stage != stageContext {
		d.unmark(columnBlock, chunkBlock, rowBlock)
		return
	}
	if p.streamed > 0 {
		p.streamed += m.skipBlocks(columnBlock, p.columns-1-p.streamed)
		return
	}
	d.unmark(columnBlock)
	switch {
	case p.token%g.ChunkTokens != 0 || p.group != 0 || p.pass != 0:
		return
	case p.token == p.segment*p.segmentTokens:
		d.unmark(chunkBlock, rowBlock)
		return
	case p.token%g.RowTokens == 0:
		d.unmark(chunkBlock) // the next chunk is in another row
		p.jump(m.skipBlocks(rowBlock, (p.limit-1-p.token)/g.RowTokens) * g.RowTokens)
		return
	}
	rowEnd, size := p.token-p.token%p.visitTokens+p.visitTokens, g.ChunkTokens
	if p.rankPU { // it reads whole visits
		rowEnd, size = p.token-p.token%g.RowTokens+g.RowTokens, p.visitTokens
	}
	if n := p.shape.KeyGroup; n > 0 && p.stage != stageContext {
		if p.token%n == 0 { // q is loaded anew before this chunk
			d.unmark(chunkBlock)
			return
		}
		rowEnd = min(rowEnd, p.token-p.token%n+n)
	}
	p.jump(m.skipBlocks(chunkBlock, (min(rowEnd, p.limit)-1-p.token)/size) * size)
}

// skipBlocks closes a block of a kind and returns how many the program is to pass over: most, if these repeat it, or none.
// The blocks that these lie in take note.
func (m *machine) skipBlocks(kind, most int) int {
	d := &m.periodic
	b := &d.blocks[kind]
	waiting := uint64(m.queues[0].len())<<40 | uint64(m.queues[1].len())<<20 | uint64(m.queues[2].len())
	m.open.add(&m.counters, m.now+d.skipped)
	before := b.counters
	same := b.close(m.now+d.skipped, waiting)
	b.counters = m.counters
	if !same || b.equal < d.memory || most < 1 {
		return 0
	}
	// Chunks that keep their sums in the score buffer look like those that do not:
	// the skip may pass that border, since it leaves no trace in time.
	m.counters.add(int64(most), &m.counters, &before)
	b.counters = m.counters
	d.skipped += int64(most) * b.span
	m.open.since = m.now + d.skipped
	b.open(m.now + d.skipped)
	for i := kind + 1; i < len(d.blocks); i++ {
		outer := &d.blocks[i]
		outer.hash = (outer.hash ^ uint64(most)) * 0x100000001b3
	}
	return most
}

// Activity is what attention has a rank do, refresh apart, for its energy. It has fractions where it is a mean; tables hold whole numbers.
type Activity struct {
	Activates float64 // of single banks, each with its precharge
	UnitReads float64 // bursts that banks read for their units, which do not cross the chips' pins
	Reads     float64 // bursts that leave the chips
	Writes    float64 // bursts that enter them
	Open      float64 // clocks with a row open in any bank
	Clocks    float64 // clocks of the rank
}

// Plus returns a and b, n times.
func (a Activity) Plus(b Activity, n float64) Activity {
	return Activity{
		a.Activates + float64(n*b.Activates), a.UnitReads + float64(n*b.UnitReads), a.Reads + float64(n*b.Reads),
		a.Writes + float64(n*b.Writes), a.Open + float64(n*b.Open), a.Clocks + float64(n*b.Clocks),
	}
}

// activity returns what a run of that many clocks did on a rank of so many banks.
func (c *counters) activity(clocks int64, banks int) Activity {
	n := &c.commands
	return Activity{
		Activates: float64(n[dram.ACT] + int64(banks)*n[dram.ACTA]), UnitReads: float64(int64(banks) * n[dram.MACA]),
		Reads: float64(n[dram.RD] + n[dram.RDRES]), Writes: float64(n[dram.WR] + n[dram.WRBUF]), Open: float64(c.open), Clocks: float64(clocks),
	}
}

// series is a sequence of activities that soon grow by the same in every period, as those of contexts do column by column.
// Measuring only its beginning makes a table a thousand times faster (10 s became 9 ms), and changes nothing: newSeries
// extends the beginning until the rest follows from it.
type series struct {
	begin  []Activity
	period int
	adds   Activity // what each further period adds
}

// periodsTried is the number of periods after which newSeries first looks whether the last two add the same.
const periodsTried = 4

// newSeries returns a series of n entries. Run measures an entry. It is asked for those of the first periods, in order, and
// then for the last one, which must lie on the line that the first ones begin.
func newSeries(n, period int, run func(i int) Activity) series {
	s := series{period: period}
	for periods := periodsTried; ; periods++ {
		for len(s.begin) < min(periods*period, n) {
			s.begin = append(s.begin, run(len(s.begin)))
		}
		if len(s.begin) == n || s.even() && s.all(n-1) == run(n-1) {
			s.begin = slices.Clip(s.begin)
			return s
		}
	}
}

// nestedSeries is newSeries with periods that divide one another, the longest first: each that is measured is itself a
// series of the next shorter ones.
func nestedSeries(n int, run func(i int) Activity, periods ...int) series {
	if len(periods) == 1 {
		return newSeries(n, periods[0], run)
	}
	var inner series
	first, period := 0, periods[0]
	return newSeries(n, period, func(i int) Activity {
		if i%period == 0 {
			first = i
			inner = nestedSeries(min(period, n-i), func(j int) Activity { return run(first + j) }, periods[1:]...)
		}
		if i-first < period {
			return inner.all(i - first)
		}
		return run(i) // the last
	})
}

// even reports whether the last two periods add the same to each place of the one before, and takes over how much.
func (s *series) even() bool {
	end := len(s.begin)
	s.adds = s.begin[end-1].Plus(s.begin[end-1-s.period], -1)
	for i := end - 2*s.period; i < end; i++ {
		if s.begin[i] != s.begin[i-s.period].Plus(s.adds, 1) {
			return false
		}
	}
	return true
}

// clocks returns the clocks of entry i, also of one beyond the last that was measured.
func (s *series) clocks(i int) int64 {
	more := s.beyond(i)
	return int64(s.begin[i-more*s.period].Clocks) + int64(more)*int64(s.adds.Clocks)
}

// all returns entry i.
func (s *series) all(i int) Activity {
	more := s.beyond(i)
	return s.begin[i-more*s.period].Plus(s.adds, float64(more))
}

// beyond returns how many periods entry i lies behind those that were measured.
func (s *series) beyond(i int) int {
	if i < len(s.begin) {
		return 0
	}
	return (i-len(s.begin))/s.period + 1
}
