package tables

import (
	"math"
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/series"
)

// KernelTable holds the clocks of one KV head's decode step by context length. Runs of a machine fill it. It is exact for every length.
// Lengths are measured column by column, until each further row and each further score buffer of tokens adds as many clocks as the previous
// one.
type KernelTable struct {
	Pace     Pace // power limit of heads; must be set before the first look-up
	geometry pim.Geometry
	step     int // tokens within which the clocks are equal: a column's, or a chunk's if whole chunks are read
	// Activity of heads without their append, by block of tokens and by step within it. Further blocks repeat the last one, each adding the
	// growth of begins, which has heads that end with a block's first step.
	block  int // tokens of a block: the score buffer's, or a multiple with a few rows
	blocks []series.Series[machine.Activity]
	begins series.Series[machine.Activity]

	// Clocks that the append adds to a single head's attention, by the newest token's position in its chunk and by number of chunks. With
	// commands of two clocks, a chunk may save a clock that the append took, and the next chunk lose it again. In a sequence, the append
	// waits for the previous head's read-out, and everything else waits for the append. A head thus depends on the previous one only by how
	// that one ends: a row just opened closes late (tRAS), and a segment just begun still waits for the segment before.
	appends  bool
	appended []series.Series[machine.Activity]
	segment  int // tokens that pass through the score buffer together

	// ends has the clocks that a head in a sequence adds to its attention. The first index is the row of its last token: the only one, a
	// later one, or the first of a later segment. The second is 1 if an odd number of rows precedes it (DDR5's ACT takes two clocks). The
	// third is the token's position in the row.
	ends [3][2][]int64

	scattered []machine.Activity // activity of a further row of a list, by how full rows are: 1 chunk, 2, 4 and so on
	rescore   bool               // keys beyond the score buffer are scored twice

	refreshInterval, refreshCycle int64 // tREFI and tRFC
}

// NewKernelTable runs the heads that the table needs: some hundred, with repetitions skipped (Spec.Periodic). It returns an input.Error for
// specs and shapes that do not fit together.
func NewKernelTable(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape) (*KernelTable, error) {
	return newTable(spec, d, shape, true)
}

// NewStoredTable is NewKernelTable for steps without an append: all keys and values are in their rows already. Alone then equals Attention.
func NewStoredTable(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape) (*KernelTable, error) {
	return newTable(spec, d, shape, false)
}

// noParts refuses values that are parts of keys, for which tables have no model of rows.
func noParts(shape pim.HeadShape) error {
	if !shape.ValueInKey {
		return nil
	}
	return &input.Error{Key: "value_in_key", Value: "true", Expected: "false: tables of clocks are of values stored by themselves"}
}

// newTable runs the heads of a table. Without appends, all keys and values are in their rows already.
func newTable(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, appends bool) (*KernelTable, error) {
	if err := noParts(shape); err != nil {
		return nil, err
	}
	b, err := machine.NewRunner(spec, d, shape)
	if err != nil {
		return nil, err
	}
	return measureTable(b, appends), nil
}

func measureTable(b *machine.Runner, appends bool) *KernelTable {
	g, d := &b.Program.Geometry, b.Machine.Device
	t := &KernelTable{
		appends: appends, geometry: *g, step: g.ColumnTokens,
		refreshInterval: int64(d.TREFI), refreshCycle: int64(d.TRFC),
	}
	if b.Program.RankLevel {
		t.step = g.ChunkTokens
	}
	t.measureAttention(b)
	for place := range g.ChunkTokens {
		t.appended = append(t.appended, t.measureAppend(b, place))
	}
	t.segment, t.rescore = b.Program.SegmentTokens, b.Program.Rescore
	t.fillScattered(b)
	t.measureEnds(b)
	return t
}

// measureAppend measures the append, by number of chunks, for heads whose newest token has a position in its chunk. For most positions it
// adds the same from the third chunk on, which the last chunk of two rows confirms. With unrealistic timings (a tRC as long as rows) it may
// change with every row.
func (t *KernelTable) measureAppend(b *machine.Runner, place int) series.Series[machine.Activity] {
	chunk := t.geometry.ChunkTokens
	add := func(i int) machine.Activity {
		context := i*chunk + place + 1
		return b.Measure(machine.Head{Context: context, Appends: t.appends}).Plus(t.attends(context), -1)
	}
	row := t.geometry.RowTokens / chunk
	begin := []machine.Activity{add(0), add(1), add(2), add(3)}
	if begin[2] == begin[3] && begin[3] == add(2*row-1) {
		return series.From(begin, 1, machine.Activity{})
	}
	return series.New(blockRows*row, add, row, 1)
}

// measureEnds runs sequences of heads for every way in which one can end. Commands of two clocks (DDR5) interleave with the next head's
// differently after an odd and an even number of rows.
func (t *KernelTable) measureEnds(b *machine.Runner) {
	row := t.geometry.RowTokens
	t.ends[0][0] = t.endsWithin(b, 0)
	device := b.Machine.Device
	twoClocks := device.Rules().Action(dram.ACT).Steps > int(device.BusSteps(1))
	for kind, base := range []int{1: row, 2: t.segment} {
		if base == 0 || kind == 2 && t.segment < row {
			continue // a row has several segments
		}
		ends := t.endsWithin(b, base)
		t.ends[kind] = [2][]int64{ends, ends}
		if rows := base / row; twoClocks && rows%2 == 1 {
			t.ends[kind][0] = t.endsWithin(b, 2*base)
		}
	}
}

// endsWithin returns the clocks that heads add in a sequence, by their number of tokens in the last row, which begins after base tokens.
func (t *KernelTable) endsWithin(b *machine.Runner, base int) []int64 {
	row, step, periods := t.geometry.RowTokens, 1, t.endPeriods()
	switch { // the period depends on the append's position, which is the newest token's
	case !t.appends && b.Program.RankLevel:
		step, periods = t.step, []int{b.Program.VisitTokens / t.step, t.geometry.ChunkTokens / t.step}
	case !t.appends && (base == 0 || t.segment < row): // several short heads are in flight at once, and their chunks matter
		step, periods = t.step, []int{row / t.step}
	case !t.appends:
		step, periods = t.step, []int{row / t.step, t.geometry.ChunkTokens / t.step}
	}
	measure := func(i int) clocks { return clocks(t.inSequence(b, base+(i+1)*step)) }
	if t.appends && len(periods) > 1 && b.Machine.Repeats.On { // positions of a segment end alike
		measure = series.LikeBefore(measure, periods[0], samples(periods[0], periods[1]))
	}
	s := series.New(row/step, measure, periods...)
	list := make([]int64, row)
	for i := range list {
		list[i] = int64(s.At(i / step))
	}
	return list
}

// samples returns the first, a middle and the last position of each part of a period.
func samples(period, part int) []int {
	var list []int
	for first := 0; first < period; first += part {
		list = append(list, first, first+part/2, first+part-1)
	}
	return list
}

// inSequence returns the clocks that a head takes beyond its attention, within a sequence of equal heads. If heads append nothing, several
// short ones are in flight and their commands interleave; it is then the mean over one round, rounded up.
func (t *KernelTable) inSequence(b *machine.Runner, context int) int64 {
	h := machine.Head{Context: context, Appends: t.appends}
	if t.appends { // the second of three: the third's append and first chunk are all that delays its end
		unit, within := (context-1)/t.geometry.RowTokens, (context-1)%t.geometry.RowTokens
		begun := machine.Head{Context: within%t.geometry.ChunkTokens + 1, Appends: true, List: []pim.Extent{{Start: 0, Unit: unit, Chunk: within / t.geometry.ChunkTokens}}}
		ends := b.Ends(h, h, begun)
		return ends[1] - ends[0] - t.attention(context)
	}
	ends := b.Ends(h, h, h, h, h, h, h, h)
	turn := int64(turnOf(ends[1:7])) // nothing follows the last one
	return (ends[6]-ends[6-turn]+turn-1)/turn - t.attention(context)
}

// turnOf returns the number of heads, at most four, after which the distances between their ends repeat.
func turnOf(ends []int64) int {
	for turn := 1; turn < 4; turn++ {
		repeats := true
		for i := turn + 1; i < len(ends); i++ {
			repeats = repeats && ends[i]-ends[i-1] == ends[i-turn]-ends[i-turn-1]
		}
		if repeats {
			return turn
		}
	}
	return 4
}

// endPeriods returns the numbers of tokens after which the ends of heads with append repeat within a row: a score buffer's if a row has
// several, and a chunk's.
func (t *KernelTable) endPeriods() []int {
	segment, chunk := t.segment, t.geometry.ChunkTokens
	switch {
	case segment >= t.geometry.RowTokens || segment <= chunk:
		return []int{chunk}
	case t.geometry.RowTokens%segment != 0 || segment%chunk != 0: // a score buffer may begin anywhere in the row
		return []int{segment}
	}
	return []int{segment, chunk}
}

// blockRows is the minimum number of rows in a block, so that a run becomes periodic within it.
const blockRows = 6

const checkedBlocks = 5 // blocks over which a table is checked: further blocks add the same

// measureAttention measures heads without append.
func (t *KernelTable) measureAttention(b *machine.Runner) {
	g, p := &t.geometry, b.Program
	buffer := max(p.SegmentTokens, g.RowTokens)
	t.block = (blockRows*g.RowTokens + buffer - 1) / buffer * buffer
	run := func(i int) machine.Activity { return b.Measure(machine.Head{Context: (i + 1) * t.step}) }
	steps, periods := t.block/t.step, t.rowPeriods(p)
	t.begins = series.New(checkedBlocks, func(k int) machine.Activity { return run(k * steps) }, 1)
	for k := range t.begins.Distinct() {
		t.blocks = append(t.blocks, series.New(steps, func(i int) machine.Activity { return run(k*steps + i) }, periods...))
	}
}

// rowPeriods returns the numbers of steps after which the growth of attention's clocks may repeat: a row's, and those parts of it that
// divide one another: a score buffer's, a visit's and a chunk's.
func (t *KernelTable) rowPeriods(p *machine.Program) []int {
	periods := []int{t.geometry.RowTokens / t.step}
	parts := []int{p.SegmentTokens, p.VisitTokens, t.geometry.ChunkTokens}
	slices.SortFunc(parts, func(a, b int) int { return b - a })
	for _, tokens := range parts {
		if last := periods[len(periods)-1]; tokens%t.step == 0 && tokens/t.step < last && last%(tokens/t.step) == 0 {
			periods = append(periods, tokens/t.step)
		}
	}
	return periods
}

// Alone returns the clocks of one KV head's decode step on an idle rank, from the first command to the last beat of the result: append of
// the newest token, load of q, scores, context and read-out for all query heads of the shape. context includes the newest token; refresh is
// excluded.
func (t *KernelTable) Alone(context int) int64 {
	return t.ListAlone(context, 0)
}

// nothing reports whether a head of the given tokens takes no time: it has no tokens, or the table has no heads.
func (t *KernelTable) nothing(tokens int) bool { return t == nil || tokens < 1 || t.block == 0 }

// InSequence returns the clocks that one more head adds to a long sequence of equal
// heads: the read-out of one overlaps the next one's append and activation.
func (t *KernelTable) InSequence(context int) int64 {
	if t.nothing(context) {
		return 0
	}
	return t.paced(t.nextHead(context), context, 0)
}

// nextHead is InSequence without a power limit.
func (t *KernelTable) nextHead(context int) int64 {
	token, row := context-1, t.geometry.RowTokens
	return t.attention(context) + t.ending(token, token/row, token%row)
}

// paced applies the power limit to the clocks of a head over a list of tokens in a number of rows.
func (t *KernelTable) paced(clocks int64, tokens, rows int) int64 {
	if t.Pace.Clock == 0 { // as in most runs, which then need no activity
		return clocks
	}
	a := t.ListActivity(tokens, rows)
	return t.Pace.Clocks(clocks, &a)
}

// Drain returns the clocks of a single head that overlap with the next head in a sequence: Alone minus InSequence.
func (t *KernelTable) Drain(context int) int64 {
	if t.nothing(context) {
		return 0
	}
	if t.Pace.Clock == 0 { // attention is in both terms and cancels
		token, row := context-1, t.geometry.RowTokens
		return t.appendClocks(context) - t.ending(token, token/row, token%row)
	}
	return t.Alone(context) - t.InSequence(context)
}

// Attention returns Alone without the append.
func (t *KernelTable) Attention(context int) int64 {
	if t.nothing(context) {
		return 0
	}
	a := t.attends(context)
	return t.Pace.Clocks(t.attention(context), &a)
}

// attention is Attention without a power limit.
func (t *KernelTable) attention(context int) int64 {
	block, step, further := t.place(context)
	return clocksAt(block, step) + further*int64(t.begins.Growth.Clocks)
}

// appendClocks returns the clocks that the append adds to a context's attention.
func (t *KernelTable) appendClocks(context int) int64 {
	return clocksAt(&t.appended[(context-1)%t.geometry.ChunkTokens], (context-1)/t.geometry.ChunkTokens)
}

// attends returns a rank's activity for a head without its append.
func (t *KernelTable) attends(context int) machine.Activity {
	block, step, further := t.place(context)
	return block.At(step).Plus(t.begins.Growth, float64(further))
}

// place returns the block of a context, the step within it, and the number of further blocks before it.
func (t *KernelTable) place(context int) (block *series.Series[machine.Activity], step int, further int64) {
	k := (context - 1) / t.block
	last := len(t.blocks) - 1
	return &t.blocks[min(k, last)], (context - 1 - k*t.block) / t.step, int64(max(0, k-last))
}

// clocksAt returns the clocks at an index of a series, a whole number.
func clocksAt(s *series.Series[machine.Activity], i int) int64 {
	measured, further := s.Of(i)
	return int64(measured.Clocks) + int64(further)*int64(s.Growth.Clocks)
}

// Activity returns a rank's activity for the head of Alone. It is exact for every length, including keys that are scored twice.
func (t *KernelTable) Activity(context int) machine.Activity {
	if t.nothing(context) {
		return machine.Activity{}
	}
	return t.attends(context).Plus(t.appended[(context-1)%t.geometry.ChunkTokens].At((context-1)/t.geometry.ChunkTokens), 1)
}

// WithRefresh returns the clocks with refresh, in the long run, of a computation of the given clocks: the rank stops for tRFC in every
// tREFI. REFs cost nothing else, since the manager issues them where all banks are closed anyway.
func (t *KernelTable) WithRefresh(clocks int64) int64 {
	if t == nil {
		return clocks
	}
	computing := max(1, t.refreshInterval-t.refreshCycle)
	return clocks + (clocks*t.refreshCycle+computing-1)/computing
}

// RowTokens returns the number of tokens of one allocation unit.
func (t *KernelTable) RowTokens() int {
	if t == nil {
		return 0
	}
	return t.geometry.RowTokens
}

// fillScattered measures what a further row adds to a head whose tokens are in more rows than they fill: a switch for its keys and one for
// its values. If the rank's bus is the bottleneck, a part of a switch overlaps with it, depending on how full rows are: 1 chunk, 2, 4 and
// so on.
func (t *KernelTable) fillScattered(b *machine.Runner) {
	g := &t.geometry
	for fill := g.ChunkTokens; fill == g.ChunkTokens || fill < g.RowTokens; fill *= 2 {
		var added machine.Activity
		if n := len(t.scattered); n > 0 {
			added = t.scattered[n-1]
		}
		rows := min(8, t.segment/fill)
		if tokens := rows * fill; rows > t.unitsOf(tokens) {
			var list []pim.Extent
			for i := range rows {
				list = append(list, pim.Extent{Start: i * fill, Unit: 2 * i, Chunk: 0})
			}
			slower := added.Clocks // for rows that add no clocks
			more := float64(rows - t.unitsOf(tokens))
			added = machine.Activity{}.Plus(b.Measure(machine.Head{Context: tokens, List: list}).Plus(t.attends(tokens), -1), 1/more)
			if added.Clocks = math.Ceil(added.Clocks); added.Clocks == 0 {
				added.Clocks = slower
			}
		}
		t.scattered = append(t.scattered, added)
	}
}

// ChunkTokens returns the number of tokens of a chunk, whose keys all banks read at once.
func (t *KernelTable) ChunkTokens() int {
	if t == nil {
		return 0
	}
	return t.geometry.ChunkTokens
}

// ListActivity returns a rank's activity for the head of ListAlone. Keys beyond the score buffer are read twice, and their rows opened
// twice.
func (t *KernelTable) ListActivity(tokens, rows int) machine.Activity {
	a := t.Activity(tokens)
	more := float64(t.further(tokens, rows))
	if more == 0 {
		return a
	}
	if beyond := tokens - t.segment; t.rescore && beyond > 0 {
		more += float64(more * float64(beyond) / float64(tokens) / 2)
	}
	clocks := a.Clocks + float64(t.Scattered(tokens, rows))
	a = a.Plus(*t.ofFurther(tokens, rows), more)
	a.Clocks = clocks
	return a
}

// ofFurther returns the activity that each further row adds to a list of tokens in a number of rows.
func (t *KernelTable) ofFurther(tokens, rows int) *machine.Activity {
	full := bits.Len(uint(tokens/rows/t.geometry.ChunkTokens)) - 1
	return &t.scattered[min(max(full, 0), len(t.scattered)-1)]
}

// unitsOf returns the number of allocation units that tokens fill.
func (t *KernelTable) unitsOf(tokens int) int {
	return (tokens + t.geometry.RowTokens - 1) / t.geometry.RowTokens
}

// further returns the number of rows of keys of a list beyond those that its tokens would fill.
func (t *KernelTable) further(tokens, rows int) int64 {
	if t.nothing(tokens) {
		return 0
	}
	return max(0, int64(rows-t.unitsOf(tokens)))
}

// Scattered returns the additional clocks, without a power limit, of a head over a list of tokens in rows rows of keys, compared with as
// many contiguous tokens. It is exact if the banks are the bottleneck and the scores fit the score buffer. Beyond the buffer, it assumes
// that the further rows are spread evenly over the list. If the rank's bus is the bottleneck (many multiplier sets), it assumes equally
// full rows.
func (t *KernelTable) Scattered(tokens, rows int) int64 {
	if t.nothing(tokens) {
		return 0
	}
	more := t.further(tokens, rows)
	if more == 0 {
		return 0
	}
	each := int64(t.ofFurther(tokens, rows).Clocks)
	added := more * each
	if beyond := int64(tokens - t.segment); t.rescore && beyond > 0 { // these keys are scored twice
		added += (more*beyond + int64(tokens) - 1) / int64(tokens) * ((each + 1) / 2)
	}
	return added
}

// ListAlone is Alone for a head over a list of tokens in rows rows.
func (t *KernelTable) ListAlone(tokens, rows int) int64 {
	if t.nothing(tokens) {
		return 0
	}
	clocks := t.attention(tokens) + t.appendClocks(tokens) + t.Scattered(tokens, rows)
	return t.paced(clocks, tokens, rows)
}

// ListInSequence is InSequence for a head over a list of tokens in rows rows; the last row holds last of them.
func (t *KernelTable) ListInSequence(tokens, rows, last int) int64 {
	var clocks int64
	switch {
	case t.nothing(tokens):
		return 0
	case !t.appends || rows <= t.unitsOf(tokens) && last == (tokens-1)%t.geometry.RowTokens+1:
		clocks = t.nextHead(tokens)
	default:
		clocks = t.attention(tokens) + t.ending(tokens-1, max(1, rows-1), last-1) // a list in one row is contiguous
	}
	return t.paced(clocks+t.Scattered(tokens, rows), tokens, rows)
}

// ending returns the clocks that a head in a sequence adds to its attention, by its last token (token), the number of rows before that
// token's, and its position in its row (entry). A later segment of scores begins in the last row if at most as many tokens precede the last
// one in the segment as in the row. Rows of a list may be partly full, so whole rows cannot be counted instead.
func (t *KernelTable) ending(token, rows, entry int) int64 {
	kind := 1
	switch {
	case rows == 0:
		kind = 0
	case t.segment >= t.geometry.RowTokens && token%t.segment <= entry:
		kind = 2
	}
	return t.ends[kind][rows%2][entry]
}
