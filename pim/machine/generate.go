package machine

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
)

// emit appends an instruction of the current head and counts it.
func (p *Program) emit(in Instruction) {
	in.Head, in.Segment = int32(p.head), int32(p.segment)
	*p.add(in.sequencer) = in
}

// add appends and counts an instruction with stale contents, which the caller overwrites. Next has reserved room for the instructions of
// one step.
func (p *Program) add(s Sequencer) *Instruction {
	p.count[s]++
	n := len(p.pending)
	p.pending = p.pending[:n+1]
	return &p.pending[n]
}

func (p *Program) addOf(in *Instruction, ordinal int) *Instruction {
	out := p.add(in.sequencer)
	*out = *in
	group, bank := p.Geometry.Bank(ordinal)
	out.BankGroup, out.Bank = int8(group), int8(bank)
	return out
}

func bankCommand(g *pim.Geometry, cmd dram.Command, op Operation, ordinal int, row, column int32) Instruction {
	group, bank := g.Bank(ordinal)
	return Instruction{Command: cmd, Op: op, BankGroup: int8(group), Bank: int8(bank), Row: row, Column: column}
}

// AllBanks returns an instruction of the bank sequencer that acts on all banks.
func AllBanks(cmd dram.Command, op Operation, row, column int32) Instruction {
	return Instruction{Command: cmd, Op: op, BankGroup: -1, Bank: -1, Row: row, Column: column}
}

// rankCommand returns an instruction of the current head and token that acts on the whole rank, without row and column.
func (p *Program) rankCommand(cmd dram.Command, op Operation, s Sequencer) Instruction {
	return Instruction{
		Head: int32(p.head), Segment: int32(p.segment), Token: int32(p.token), Row: -1, Column: -1,
		BankGroup: -1, Bank: -1, Command: cmd, Op: op, sequencer: s,
	}
}

// appendToken stores the newest token's key and value: it opens, writes and closes the key's bank and the value's banks. A bank that holds
// bursts of both is closed in between and comes last. The activations yield to the previous head's read-out, for which the writes wait
// anyway.
func (p *Program) appendToken() {
	g, h := &p.Geometry, &p.Heads[p.head]
	unit, within, _ := h.List.Place(g, h.Context-1)
	token := unit*g.RowTokens + within
	if g.InKey {
		p.appendRow(token)
		return
	}
	keyRow, valueRow := h.FirstRow+g.KeyRow(token), h.FirstRow+g.ValueRow(token)
	keyBank, firstValue := g.KeyBank(token), g.ValueBank(token)
	shared := keyBank >= firstValue && keyBank < firstValue+g.ValueBursts

	open := bankCommand(g, dram.ACT, OpActivate, keyBank, keyRow, -1)
	open.boundary, open.yield = headBoundary, true
	p.emit(open)
	for b := firstValue; b < firstValue+g.ValueBursts; b++ {
		if b != keyBank {
			open := bankCommand(g, dram.ACT, OpActivate, b, valueRow, -1)
			open.yield = true
			p.emit(open)
		}
	}
	for i := range g.KeyBursts {
		p.appendBurst(OpAppendKey, token, i, keyBank, keyRow, g.KeyColumn(token)+int32(i))
	}
	for i := range g.ValueBursts {
		if firstValue+i != keyBank {
			p.appendBurst(OpAppendValue, token, i, firstValue+i, valueRow, g.ValueColumn(token))
		}
	}
	p.appendScale(token, keyBank, keyRow)
	if bank := g.ValueScaleBank(token); bank != keyBank {
		p.appendScale(token, bank, valueRow)
	}
	if shared {
		p.emit(bankCommand(g, dram.PRE, OpPrecharge, keyBank, -1, -1))
		p.emit(bankCommand(g, dram.ACT, OpActivate, keyBank, valueRow, -1))
		p.appendBurst(OpAppendValue, token, keyBank-firstValue, keyBank, valueRow, g.ValueColumn(token))
		if g.ValueScaleBank(token) == keyBank {
			p.appendScale(token, keyBank, valueRow)
		}
	}
	p.emit(AllBanks(dram.PREA, OpPrecharge, -1, -1))
}

// appendRow stores the newest token's key if its value is a part of it.
func (p *Program) appendRow(token int) {
	g := &p.Geometry
	bank, row := g.KeyBank(token), p.Heads[p.head].FirstRow+g.KeyRow(token)
	open := bankCommand(g, dram.ACT, OpActivate, bank, row, -1)
	open.boundary, open.yield = headBoundary, true
	p.emit(open)
	for i := range g.KeyBursts {
		p.appendBurst(OpAppendKey, token, i, bank, row, g.KeyColumn(token)+int32(i))
	}
	p.emit(AllBanks(dram.PREA, OpPrecharge, -1, -1))
}

// appendScale stores the newest key's or value's scale, if rows have scales.
func (p *Program) appendScale(token, ordinal int, row int32) {
	if p.Geometry.ScaleChunks > 0 {
		p.appendBurst(OpAppendScale, token, 0, ordinal, row, p.Geometry.ScaleColumn(token))
	}
}

// readScales reads the scales of the stage's tokens in the open row into the buffer unit: one bank of each bank group, then the next.
// firstACT is the bank sequencer's count before the row's first ACT; it is the present count if the row was open already. With staggered
// activations the scales of bank b wait only for its own ACT, number firstACT+b+1. Later instructions wait for all scales.
func (p *Program) readScales(within int, firstACT uint32) {
	g := &p.Geometry
	to := within + min(p.rowEnd, p.limit) - p.token
	if n := p.Shape.KeyGroup; n > 0 && p.stage != stageContext && to > within {
		// A group's scales, one for each element, may take more columns than this head's tokens of the group.
		within -= within % n
		to = (to-1)/n*n + p.Shape.HeadDim
	}
	columns := g.ScaleColumns(within, to)
	if columns == 0 {
		return
	}
	in := p.rankCommand(dram.RD, OpReadScale, ResultSequencer)
	in.Row = p.openRow
	first := g.ScaleColumn(within)
	for ordinal := 0; ordinal < g.Banks; ordinal += g.BankGroups {
		for c := range columns {
			in.Column = first + int32(c)
			for b := ordinal; b < ordinal+g.BankGroups; b++ {
				out := p.addOf(&in, b)
				out.wait[BankSequencer] = p.count[BankSequencer]
				if firstACT != p.count[BankSequencer] && !p.simultaneous {
					out.wait[BankSequencer] = firstACT + uint32(b) + 1
				}
			}
		}
	}
	p.scaled = p.count[ResultSequencer]
}

func later(a, b uint32) uint32 {
	if int32(a-b) < 0 {
		return b
	}
	return a
}

// appendBurst stores one burst of the newest key or value.
func (p *Program) appendBurst(op Operation, token, burst, ordinal int, row, column int32) {
	in := bankCommand(&p.Geometry, dram.WR, op, ordinal, row, column)
	in.Token, in.Burst = int32(token), uint8(burst)
	p.emit(in)
}

// keyGroup returns the group of the next token's key, 0 if keys have no groups.
func (p *Program) keyGroup() int {
	if p.Shape.KeyGroup == 0 {
		return 0
	}
	unit, within, _ := p.Heads[p.head].List.Place(&p.Geometry, p.token)
	return (unit*p.Geometry.RowTokens + within) / p.Shape.KeyGroup
}

// loadQuery loads q of all query heads, after the append or, without one, after the previous head's scores have used theirs.
func (p *Program) loadQuery() {
	after, scales := p.scoreDone, uint32(0)
	if p.Heads[p.head].Appends && p.stage == stageLoad {
		after = p.count[BankSequencer]
	}
	if p.Shape.KeyGroup > 0 && p.Geometry.ScaleChunks > 0 { // q is multiplied by scales that come with the row
		if p.stage == stageLoad {
			p.loaded, p.appended = -1, after
			return
		}
		after, scales = later(after, p.appended), p.scaled
	}
	p.queryLoaded, p.loaded = p.count[BufferSequencer], p.keyGroup()
	for q := range p.Shape.Queries {
		for i := range p.Geometry.QueryBursts {
			in := AllBanks(dram.WRBUF, OpLoadQuery, -1, -1)
			in.sequencer, in.Query, in.Burst, in.Token = BufferSequencer, uint8(q), uint8(i), int32(p.token)
			in.wait[BankSequencer], in.wait[ResultSequencer] = after, scales
			p.emit(in)
		}
	}
}

// switchRow switches all banks to a visit of row, unless it is the current one.
func (p *Program) switchRow(row int32, visit int, yield bool) {
	boundary := rowBoundary
	if p.open && row == p.openRow && visit == p.visited {
		return
	}
	if p.open {
		closing := AllBanks(dram.PREA, OpPrecharge, -1, -1)
		closing.yield = yield
		p.emit(closing)
	} else if !p.Heads[p.head].Appends {
		boundary = headBoundary
	} else {
		boundary = noBoundary
	}
	p.open, p.openRow, p.visited = true, row, visit
	if p.simultaneous {
		in := AllBanks(dram.ACTA, OpActivate, row, -1)
		in.boundary, in.yield = boundary, boundary != rowBoundary && p.loadYields
		p.emit(in)
		return
	}
	for b := range p.Geometry.Banks {
		in := bankCommand(&p.Geometry, dram.ACT, OpActivate, b, row, -1)
		if b == 0 {
			in.boundary = boundary
		}
		in.yield = boundary != rowBoundary && p.loadYields
		p.emit(in)
	}
}

// startRow switches to the row of the stage's next token, the first of its row or of the stage. It prepares templates with the common parts
// of the row's instructions.
func (p *Program) startRow() {
	g, h := &p.Geometry, &p.Heads[p.head]
	unit, within, end := h.List.Place(g, p.token)
	p.rowEnd = min(end, p.token+p.VisitTokens-within%p.VisitTokens)
	row, yield := h.FirstRow+int32(g.UnitRows()*unit), false
	op, out, outCommand, outSequencer := OpScore, OpReadPartials, dram.RDRES, ResultSequencer
	if p.stage == stageContext {
		row += int32(g.UnitRows() - 1)
		p.column = g.ValueColumn(within)
		yield = p.rowYields
		op, out, outCommand, outSequencer = OpContext, OpLoadWeights, dram.WRBUF, BufferSequencer
	} else {
		p.column = g.KeyColumn(within)
	}
	before := p.count[BankSequencer]
	if p.switchRow(row, within/p.VisitTokens, yield); p.count[BankSequencer] != before { // activations are the last instructions
		before = p.count[BankSequencer] - uint32(g.Banks)
	}
	p.readScales(within, before)
	p.read = p.rankCommand(dram.MACA, op, BankSequencer)
	p.read.Row = row
	p.transfer = p.rankCommand(outCommand, out, outSequencer)
	p.transfer.Count = p.stage == stageScore
}

// scoreChunk generates the multiply-accumulates of one chunk and the read-out of its partial sums, pass by pass.
func (p *Program) scoreChunk() {
	g := &p.Geometry
	if p.token >= p.rowEnd {
		p.startRow()
	}
	if p.keyGroup() != p.loaded {
		p.loadQuery()
	}
	p.read.Token, p.transfer.Token = int32(p.token), int32(p.token)
	p.transfer.Keep = p.token < (p.segment+1)*p.SegmentTokens
	for pass := range p.passes {
		query := pass * p.MACs
		queries := min(p.MACs, p.Shape.Queries-query)
		slot := p.unit
		p.unit = (p.unit + 1) % ResultSlots
		in := &p.read
		in.Slot, in.Query, in.Queries = uint8(slot), uint8(query), uint8(queries)
		in.wait[ResultSequencer] = later(p.slotRead[slot], p.scaled) // so that the row is not closed before the read-out
		in.wait[BufferSequencer] = p.queryLoaded + uint32((query+queries)*g.QueryBursts)
		for i := range g.KeyBursts {
			out := p.add(BankSequencer)
			*out = *in
			out.Column, out.Burst = p.column+int32(i), uint8(i)
			in.wait = [sequencers]uint32{}
		}
		p.transfer.Slot = uint8(slot)
		p.transfer.wait[BankSequencer] = p.count[BankSequencer]
		p.transferAll(query, queries, p.PartialBursts)
		p.partialRead[pass] = p.count[ResultSequencer]
		p.slotRead[slot] = p.count[ResultSequencer]
	}
	p.scoreDone = p.count[BankSequencer]
	p.token += g.ChunkTokens
	p.column += int32(g.KeyBursts)
}

// transferAll generates the bursts of one slot: partial sums to the buffer unit, or weights from it.
func (p *Program) transferAll(query, queries, bursts int) {
	in := &p.transfer
	for q := range queries {
		for i := range bursts {
			out := p.add(in.sequencer)
			*out = *in
			out.Query, out.Burst = uint8(query+q), uint8(i)
			in.wait = [sequencers]uint32{}
		}
	}
}

// contextSet generates, pass by pass, the weights of one slot and the multiply-accumulates that use them. The weights wait until the slot's
// previous weights have been used and the softmax has seen the last chunk.
func (p *Program) contextSet() {
	if p.token >= p.rowEnd {
		p.startRow()
	}
	// A head's accumulators start from zero, and so do those of each segment that is read out separately.
	fresh := p.token == p.segment*p.SegmentTokens && (p.segment == 0 || !p.Rescore)
	columns := p.setColumns
	p.transfer.Token = int32(p.token)
	for pass := range p.passes {
		query := pass * p.MACs
		queries := min(p.MACs, p.Shape.Queries-query)
		slot := p.set
		p.set = (p.set + 1) % WeightSlots
		p.transfer.Slot = uint8(slot)
		p.transfer.wait[BankSequencer] = p.setUsed[slot]
		p.transfer.wait[ResultSequencer] = later(p.partialRead[pass], p.scaled)
		p.transferAll(query, queries, p.setBursts)
		in := &p.read
		in.Slot, in.Query, in.Queries = uint8(slot), uint8(query), uint8(queries)
		in.wait[BufferSequencer] = p.count[BufferSequencer]
		in.wait[ResultSequencer] = p.contextRead
		columns = 0
		for i := 0; p.Geometry.InKey && i < p.Geometry.ValueBursts; i++ { // a part of the chunk's keys
			out := p.add(BankSequencer)
			*out = *in
			out.Token, out.Column, out.Burst, out.First = int32(p.token), p.column+int32(i), uint8(i), fresh
			in.wait = [sequencers]uint32{}
			columns = p.Geometry.KeyBursts
		}
		for token := p.token; token < p.limit && columns < p.setColumns; token += p.Geometry.ColumnTokens {
			out := p.add(BankSequencer)
			*out = *in
			out.Token, out.Column = int32(token), p.column+int32(columns)
			out.First = fresh && columns == 0
			in.wait = [sequencers]uint32{}
			columns++
		}
		p.setUsed[slot] = p.count[BankSequencer]
		p.contextDone[pass] = p.count[BankSequencer]
	}
	p.token += p.SetTokens
	p.column += int32(columns)
}

// jump skips tokens of the running stage: whole chunks of the open row, or whole rows from the beginning of a row.
func (p *Program) jump(tokens int) {
	p.token += tokens
	if p.token-tokens >= p.rowEnd {
		p.rowEnd = p.token
	} else if p.stage == stageContext && !p.Geometry.InKey {
		p.column += int32(tokens / p.Geometry.ColumnTokens)
	} else {
		p.column += int32(tokens / p.Geometry.ChunkTokens * p.Geometry.KeyBursts)
	}
}

// segmentBlock returns the number of tokens after which segments may repeat: one segment's, or a row's if segments differ by their position
// in the row. They do if scales or visits begin at positions of a row that are not a segment's, or if q is loaded again for each group of
// keys.
func (p *Program) segmentBlock() int {
	g, n := &p.Geometry, p.SegmentTokens
	if n < g.RowTokens && (g.ScaleChunks > 0 || p.Shape.KeyGroup > 0 || p.VisitTokens%n != 0 && n%p.VisitTokens != 0) {
		return g.RowTokens
	}
	return n
}

// jumpSegments skips blocks of segments, from the beginning of one segment's context to that of another.
func (p *Program) jumpSegments(blocks, block int) {
	p.segment += blocks * (block / p.SegmentTokens)
	p.token += blocks * block
	p.rowEnd, p.limit = p.token, min(p.Heads[p.head].Context, p.token+p.SegmentTokens)
	if n := p.Shape.KeyGroup; n > 0 {
		p.loaded += blocks * (block / n)
	}
}

// readContext reads the accumulators of all query heads. At the head's end, the banks close meanwhile.
func (p *Program) readContext() {
	if p.token >= p.Heads[p.head].Context {
		closing := AllBanks(dram.PREA, OpPrecharge, -1, -1)
		closing.yield = p.drainYields
		p.emit(closing)
		p.open = false
	}
	for q := range p.Shape.Queries {
		for i := range p.readOuts * p.ContextBursts {
			in := AllBanks(dram.RDRES, OpReadContext, -1, -1)
			in.sequencer, in.Query, in.Slot, in.Burst = ResultSequencer, uint8(q), uint8(i/p.ContextBursts), uint8(i%p.ContextBursts)
			in.wait[BankSequencer] = p.contextDone[q/p.MACs]
			p.emit(in)
		}
	}
	p.contextRead = p.count[ResultSequencer]
}
