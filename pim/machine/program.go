package machine

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// ResultSlots is the number of result slots of a bank PU: one fills while the other is read out. A slot holds one partial sum for each
// multiplier set.
const ResultSlots = 2

// WeightSlots is the number of weight slots of the shared buffers. A weight takes CWL + BL/2 from command to use, less than three column
// accesses in DDR4 and four in DDR5, so four slots keep the bank PUs busy.
const WeightSlots = 4

// Head is one KV head to compute: a decode step of one request.
type Head struct {
	Context  int   // L, tokens attended to, including the newest: at least 1
	FirstRow int32 // first of the head's Geometry.Rows(Context) rows
	// Appends stores the newest token's key and value before the attention.
	Appends bool
	List    pim.TokenList // the Context tokens
	Scores  bool          // compute only the partial sums of the scores, without the context
}

// Program is the stream of instructions that computes the attention of heads of one shape, one after another, on one rank (L3, sections 4.2
// and 4.3). The steps of a head are: append of the newest token, load of q, scores of all chunks and read-out of their partial sums,
// broadcast of softmax weights just before the context's reads that use them, read-out of the context. Spec.BeyondBuffer decides about
// contexts beyond the score buffer. A program is generated on the fly and used once.
type Program struct {
	Geometry pim.Geometry
	Shape    pim.HeadShape
	Heads    []Head
	Plan

	position
	rowVisit
	groupReads
	slots
	waited

	pending []Instruction      // instructions of the current step
	count   [sequencers]uint32 // instructions generated so far
}

// position is the state of a program: what it generates next.
type position struct {
	head    int // current head
	stage   stage
	segment int
	token   int // next token of the stage
	limit   int // end of the stage's tokens
}

// rowVisit is the row that is open in all banks, and how far the stage has read it.
type rowVisit struct {
	open    bool
	openRow int32 // the open row, if open is set
	visited int   // number of the current visit
	rowEnd  int   // first token that needs another row, or another position in the open one
	column  int32 // of the stage's next token
	loaded  int   // group of keys whose scales q is multiplied by, -1: none
	// Templates of all MACAs of the open row, and of all transfers of partial sums or weights.
	read, transfer Instruction
}

// groupReads is how far a rank-level unit has read the current group of banks.
type groupReads struct {
	group, pass       int    // next to read
	streamed, columns int    // columns of the visit read in this pass, and all of them
	opened, opens     uint32 // bank sequencer's count after the activation of the group, and of the next group
	scoreRead         uint32 // result sequencer's count after the latest key
}

// slots has the next result and weight slot in rotation, with the counts after each slot's last use.
type slots struct {
	unit     int                 // next result slot
	slotRead [ResultSlots]uint32 // of the result sequencer
	set      int                 // next weight slot
	setUsed  [WeightSlots]uint32 // of the bank sequencer
}

// waited has counts of a sequencer's instructions for which later ones wait.
type waited struct {
	queryLoaded uint32   // buffer sequencer's before the head's q load
	appended    uint32   // bank sequencer's before the head's first q
	scaled      uint32   // result sequencer's after the open row's scales
	scoreDone   uint32   // bank sequencer's after the latest OpScore
	partialRead []uint32 // by pass: result sequencer's after the latest chunk
	contextDone []uint32 // by pass: bank sequencer's after its latest OpContext
	contextRead uint32   // result sequencer's after the latest OpReadContext
}

// Plan has the numbers that Spec, device and shape determine for all chunks.
type Plan struct {
	buffering

	MACs             int // multiplier sets
	multiplierPasses int // passes of a set for one read
	Multipliers      int // of a set
	setColumns       int // columns of one weight slot
	stepSize         int // bound on the instructions of one step
	simultaneous     bool
	RankLevel        bool // no multipliers at the banks
	Rescore          bool // Refetch: one maximum and sum, keys beyond the buffer scored twice
	rowYields        bool // read-out and softmax take longer than the switch from K to V
	drainYields      bool // read-out of the context takes longer than the precharge
	loadYields       bool // load of q takes longer than the first activation
	VisitTokens      int  // tokens of a row that are read before the banks close: all, unless that takes longer than REFs can be postponed
	spans
}

// buffering has the use of the buffers by a head.
type buffering struct {
	passes          int // MACAs for one column: query heads divided by multiplier sets, rounded up
	PartialBursts   int // RDRES of one chunk and query head
	WeightsPerBurst int // tokens whose weights one WRBUF carries
	SetTokens       int // tokens of one weight slot: whole columns and whole bursts
	setBursts       int // WRBUF of one weight slot and query head
	ContextBursts   int // RDRES of one query head's accumulators; with values in keys, for one burst of the value
	readOuts        int // separate accumulators for bursts of a value: 1, or one for each burst with values in keys
	SegmentTokens   int // tokens that pass through the score buffer at once
	partialBytes    int // width of a partial sum
	contextBytes    int // width of an accumulator
}

// spans are bounds in clocks.
type spans struct {
	activateSpan int64 // first to last ACT of an all-bank activation
	rowSpan      int64 // between two row boundaries
	headSpan     int64 // of a head beyond its rows
}

type stage uint8 // what a program generates next

const (
	stageAppend stage = iota
	stageLoad
	stageScore // all tokens (Refetch), or those of one segment
	stageRescore
	stageContext
	stageReadOut
	stageClose // for a head without context
	stageEnd
)

// NewProgram returns the program of heads on a rank of d. A shape that does not fit or an empty context is an input.Error.
func NewProgram(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, heads []Head) (*Program, error) {
	g, err := pim.NewGeometry(d, shape)
	if err != nil {
		return nil, err
	}
	for i := range heads {
		h := &heads[i]
		if h.Context < 1 || h.Context > 1<<30 {
			return nil, &input.Error{Key: "context", Value: fmt.Sprint(h.Context), Expected: "1 to 1073741824 tokens"}
		}
		if err := h.List.Check(&g, h.Context); err != nil {
			return nil, err
		}
	}
	p := &Program{Geometry: g, Shape: shape, Heads: heads}
	if err := p.makePlan(spec, d); err != nil {
		return nil, err
	}
	p.partialRead = make([]uint32, p.passes)
	p.contextDone = make([]uint32, p.passes)
	p.Restart(heads)
	return p, nil
}

// makePlan computes the plan and its bounds.
func (p *Program) makePlan(spec *pim.Spec, d *dram.Spec) error {
	g, precision := &p.Geometry, spec.Precision.Resolve()
	segment, err := spec.SegmentTokens(d, p.Shape)
	if err != nil {
		return err
	}
	chipBytes := g.BurstBytes / g.Chips // a chip's share of one burst
	chipElements := chipBytes * 8 / g.ElementBits
	bursts := func(bytes int) int { return max(1, (bytes+chipBytes-1)/chipBytes) }
	weights := min(max(1, chipBytes/precision.Weights.Bytes()), g.ChunkTokens) // eight banks of x16 chips in DDR5 have fewer tokens than fit a burst
	set := max(g.ColumnTokens, weights)
	p.Plan = Plan{
		MACs:             spec.MACsPerRead,
		multiplierPasses: spec.MultiplierPasses(d, p.Shape),
		Multipliers:      spec.SetMultipliers(d, p.Shape),
		simultaneous:     spec.Activation == pim.Simultaneous,
		RankLevel:        spec.ProcessingUnit == pim.RankLevelUnit,
		Rescore:          spec.BeyondBuffer == pim.Refetch,

		buffering: buffering{
			passes:          (p.Shape.Queries + spec.MACsPerRead - 1) / spec.MACsPerRead,
			PartialBursts:   bursts(g.Banks * precision.Accumulate.Bytes()),
			WeightsPerBurst: weights,
			SetTokens:       set,
			setBursts:       bursts(set * precision.Weights.Bytes()),
			ContextBursts:   bursts(g.Banks * chipElements * precision.Context.Bytes()),
			readOuts:        1,
			SegmentTokens:   segment,
			partialBytes:    precision.Accumulate.Bytes(),
			contextBytes:    precision.Context.Bytes(),
		},
	}
	if g.InKey {
		if p.readOuts = g.ValueBursts; p.RankLevel {
			return &input.Error{Key: "value_in_key", Value: "true", Expected: fmt.Sprintf("false with pim.processing_unit = %q, which reads values by themselves", spec.ProcessingUnit), OtherKeys: []string{"pim.processing_unit"}}
		}
	}
	p.activateSpan = pim.ActivationSpan(d, p.simultaneous)
	p.setColumns = set / g.ColumnTokens
	return p.boundSpans(spec, d)
}

// boundSpans sets bounds for a step, a row and a head: clocks and instructions between places where a refresh or a transfer may intervene.
// It also determines which instructions yield. It refuses a part for which REFs cannot be postponed until the banks close.
func (p *Program) boundSpans(spec *pim.Spec, d *dram.Spec) error {
	g := &p.Geometry
	burst, served := d.BurstClocks(), min(p.MACs, p.Shape.Queries)
	reopen := int64(d.TRP+d.TRCD) + p.activateSpan
	readOut := spec.MACLatency + served*p.PartialBursts*burst + d.CL + spec.SoftmaxLatency
	p.rowYields = int64(readOut+d.CWL+burst) > int64(d.TRTP)+reopen
	p.drainYields = p.Shape.Queries*p.readOuts*p.ContextBursts*burst+spec.MACLatency+d.CL > d.TRTP+d.TRP
	p.loadYields = int64(served*g.QueryBursts*burst+d.CWL) > p.activateSpan+int64(d.TRCD)

	queries := p.Shape.Queries
	sets := max(1, g.ChunkTokens/p.SetTokens) // of a chunk
	setBursts := sets * p.setBursts
	columns := max(g.KeyBursts, g.ValueBursts) // of a bank, for one chunk
	p.stepSize = 3*g.Banks + 8*columns + p.passes*(columns+sets*p.setColumns) +
		queries*(g.QueryBursts+max(p.PartialBursts, setBursts, p.readOuts*p.ContextBursts))

	scales := g.Banks * g.ScaleColumns(0, g.RowTokens)
	p.stepSize += scales

	scale := max(d.TCCDL, spacing(d, dram.RD)) // clocks of a column of scales
	bus := max(burst, spacing(d, dram.RDRES), spacing(d, dram.WRBUF))
	chunk := max(p.passes*columns*max(d.TCCDL, spacing(d, dram.MACA))*p.multiplierPasses, p.Shape.Queries*max(p.PartialBursts, setBursts)*bus)
	if p.RankLevel {
		p.stepSize = max(p.stepSize, 2*g.RowBursts*g.BankGroups+3*g.BankGroups)
		chunk = p.passes * columns * g.Banks * max(d.TCCDS, spacing(d, dram.RD)) * p.multiplierPasses
	}
	p.headSpan = 2 * (reopen + int64(p.Shape.Queries*(readOut+p.readOuts*p.ContextBursts*bus)))
	rules, rowChunks := d.Rules(), g.RowTokens/g.ChunkTokens
	most := int64((rules.Postpone + rules.PullIn) * d.TREFI)
	for parts := 1; parts <= rowChunks; parts++ {
		if rowChunks%parts != 0 {
			continue
		}
		p.VisitTokens = g.RowTokens / parts
		p.rowSpan = int64(rowChunks/parts*chunk+scales*scale)*9/8 + reopen + int64(d.TRTP)
		if g.InKey { // the row stays open from scores to context
			p.rowSpan *= 2
		}
		if p.rowSpan+p.headSpan <= most {
			break
		}
	}
	if int64(chunk) > most { // this alone takes longer than REFs can be postponed
		least := (chunk + rules.Postpone + rules.PullIn - 1) / (rules.Postpone + rules.PullIn)
		return &input.Error{Key: "dram.tREFI", Value: fmt.Sprint(d.TREFI), Expected: fmt.Sprintf(
			"at least %d clocks: with %d query heads the banks of a rank stay open for %d, and %s lets %d REFs wait and %d come early; or fewer query heads, or more sets of multipliers (pim.macs_per_read)",
			least, queries, chunk, rules.Name, rules.Postpone, rules.PullIn), OtherKeys: []string{"pim.macs_per_read"}}
	}
	if span := p.rowSpan + p.headSpan; g.InKey && span > most {
		return &input.Error{Key: "queries", Value: fmt.Sprint(queries), Expected: fmt.Sprintf(
			"fewer: with accumulators for all %d bursts of a value the banks of a rank are busy for %d clocks, and REFs can wait for %d", g.ValueBursts, span, most)}
	}
	return nil
}

// boundarySpan returns a bound on the clocks from the instruction in, which is at a boundary, to the next row boundary, or to the next
// head's.
func (p *Program) boundarySpan(in *Instruction, wholeHead bool) int64 {
	if !wholeHead {
		return p.rowSpan + p.headSpan
	}
	h := &p.Heads[in.Head]
	rows := max(int64(p.Geometry.Rows(h.Context)), int64(p.Geometry.UnitRows()*len(h.List)))
	if p.Rescore {
		rows += rows / 2
	}
	return rows*int64(p.Geometry.RowTokens/p.VisitTokens)*p.rowSpan + p.headSpan
}

// Restart starts the program again with other heads of the same shape.
func (p *Program) Restart(heads []Head) {
	p.Heads = heads
	p.head, p.segment, p.token, p.open = 0, 0, 0, false
	p.unit, p.set, p.group, p.pass, p.streamed, p.opened, p.scoreRead = 0, 0, 0, 0, 0, 0, 0
	p.count, p.slotRead, p.setUsed = [sequencers]uint32{}, [ResultSlots]uint32{}, [WeightSlots]uint32{}
	p.queryLoaded, p.contextRead, p.scoreDone, p.scaled, p.appended = 0, 0, 0, 0, 0
	clear(p.partialRead)
	clear(p.contextDone)
	p.startHead()
}

// Next appends the next few instructions (one chunk, one row switch) to buffer and returns it; it appends nothing at the end.
func (p *Program) Next(buffer []Instruction) []Instruction {
	p.pending = slices.Grow(buffer, p.stepSize)
	for n := len(buffer); len(p.pending) == n && p.stage != stageEnd; {
		p.step()
	}
	buffer, p.pending = p.pending, nil
	return buffer
}

// step generates a few instructions or moves to the next stage.
func (p *Program) step() {
	switch {
	case p.stage == stageAppend:
		p.appendToken()
	case p.RankLevel:
		p.stepRankLevel()
	default:
		p.stepBanks()
	}
	p.advance()
}

// stepBanks generates a few instructions of a stage after the append.
func (p *Program) stepBanks() {
	switch p.stage {
	case stageLoad:
		p.token = 0
		p.loadQuery()
	case stageScore, stageRescore:
		p.scoreChunk()
	case stageContext:
		for end := min(p.token+p.Geometry.ChunkTokens, p.limit); p.token < end; {
			p.contextSet()
		}
	case stageReadOut:
		p.readContext()
	case stageClose:
		p.emit(AllBanks(dram.PREA, OpPrecharge, -1, -1))
		p.open = false
	}
}

// startHead sets the first stage of the current head.
func (p *Program) startHead() {
	switch {
	case p.head >= len(p.Heads):
		p.stage = stageEnd
	case p.Heads[p.head].Appends:
		p.stage = stageAppend
	default:
		p.stage = stageLoad
	}
}

// advance moves to the next stage once the current one has generated its last token.
func (p *Program) advance() {
	context, first := p.Heads[p.head].Context, p.segment*p.SegmentTokens
	switch p.stage {
	case stageAppend:
		p.stage = stageLoad
	case stageLoad:
		p.segment = 0
		if p.begin(stageScore, 0); p.Rescore {
			p.limit = context
		}
	case stageScore, stageRescore:
		switch {
		case p.token < p.limit:
		case !p.Heads[p.head].Scores:
			p.begin(stageContext, first)
		case p.token >= context:
			p.stage = stageClose
		default:
			p.nextSegment()
		}
	case stageContext: // read-out is at the head's end, and after each segment if their outputs are merged
		switch {
		case p.token < p.limit:
		case p.token >= context || !p.Rescore:
			p.stage = stageReadOut
		default:
			p.nextSegment()
		}
	case stageReadOut, stageClose:
		if p.token < context {
			p.nextSegment()
			return
		}
		p.head++
		p.startHead()
	}
}

// nextSegment starts the scores of the next segment.
func (p *Program) nextSegment() {
	stage := stageScore
	if p.Rescore {
		stage = stageRescore
	}
	p.segment++
	p.begin(stage, p.segment*p.SegmentTokens)
}

func (p *Program) begin(s stage, token int) {
	p.stage, p.token, p.rowEnd = s, token, token
	p.limit = min(p.Heads[p.head].Context, token+p.SegmentTokens)
}

// eachWait calls call for every count of a sequencer's instructions for which a later instruction may wait. Slots come in rotation order.
func (p *Program) eachWait(call func(s Sequencer, count uint32)) {
	for i := range ResultSlots {
		call(ResultSequencer, p.slotRead[(p.unit+i)%ResultSlots])
	}
	for i := range WeightSlots {
		call(BankSequencer, p.setUsed[(p.set+i)%WeightSlots])
	}
	for pass := range p.passes {
		call(ResultSequencer, p.partialRead[pass])
		call(BankSequencer, p.contextDone[pass])
	}
	for _, n := range [...]uint32{p.opened, p.opens, p.appended, p.scoreDone} {
		call(BankSequencer, n)
	}
	for _, n := range [...]uint32{p.scoreRead, p.scaled, p.contextRead} {
		call(ResultSequencer, n)
	}
	call(BufferSequencer, p.queryLoaded)
}
